"""`meta-agent calibrate` at the edge: what is refused, and what the forecast makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Runner


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--seeds", "1"), "two runs at least"),
        (("--effect", "0"), "points of clean success, from 0 to 100"),
        (("--effect", "150"), "points of clean success, from 0 to 100"),
    ],
)
def test_senseless_requests_are_refused(
    meta_agent: Runner, tmp_path: Path, flags: tuple[str, ...], says: str
) -> None:
    done = meta_agent("calibrate", "--workspace", "ws", *flags, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "ws").exists()


def test_a_forecast_without_a_calibration_names_the_command(
    meta_agent: Runner, tmp_path: Path
) -> None:
    done = meta_agent("evolve", "--dry-run", "--json", "--workspace", "ws", cwd=tmp_path)
    told = done.document["estimate"]
    assert told["smallest_effect"] == pytest.approx(
        0.156, abs=0.02
    )  # a collapse in ten is priced in
    assert "meta-agent calibrate measures it" in told["effect_assumes"]
    assert "3.5 points between training seeds" in told["effect_assumes"]
