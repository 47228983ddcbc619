"""The recording that ships, judged by today's gate: no verdict may change without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from rejudge import judged_again

from meta_agent.core.protocols import VerdictKind
from meta_agent.studies.demo import unpacked


def test_the_recorded_claims_are_what_they_would_be_today(tmp_path: Path) -> None:
    found = {one.kind: one for one in judged_again(unpacked(tmp_path / "recorded"))}
    assert set(found) == {"harness", "version"}
    for one in found.values():
        assert one.same and one.now.kind is VerdictKind.PROMOTE
        assert one.now.effect and one.recorded.effect
        assert one.now.effect.delta == pytest.approx(one.recorded.effect.delta)
    harness = found["harness"]
    assert "a collapse rate of up to 53% fits" in harness.now.reasons[1]
