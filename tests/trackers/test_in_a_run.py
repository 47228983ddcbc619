"""Whole runs that are listened to: what is told comes through, and what is down stops nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import meta_agent
from meta_agent.core.errors import PreflightError
from tests._sums import ROWS, adds, grade, settings
from tests.loopback import openai_server, refused_url
from tests.trackers._hook import hook


@pytest.mark.slow
def test_a_run_calls_at_its_end_and_not_when_it_is_read_again(tmp_path: Path) -> None:
    given: dict[str, Any] = {"tasks": ROWS[:16], "grade": grade}
    with openai_server(adds, serial=False) as url, hook() as (address, heard):
        result = meta_agent.optimize(**given, notify=address, **settings(tmp_path, url))
        meta_agent.optimize(**given, notify=address, **settings(tmp_path, url))
    assert [one["event"] for one in heard] == ["done"] and result.exit_reason == "done"
    assert address.encode() not in (tmp_path / "ws/ledger.sqlite").read_bytes()


@pytest.mark.slow
def test_a_run_whose_listeners_are_down_ends_as_ever(tmp_path: Path) -> None:
    with openai_server(adds, serial=False) as url, refused_url() as nobody:
        result = meta_agent.optimize(
            tasks=ROWS[:16], grade=grade, notify=nobody, **settings(tmp_path, url)
        )
    assert result.exit_reason == "done"


def test_a_tracker_that_is_not_installed_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta_agent.trackers._listening.find_spec", lambda _: None)
    with pytest.raises(PreflightError, match="trackio is not installed"):
        meta_agent.optimize(
            tasks=ROWS, grade=grade, log="trackio", **settings(tmp_path, "http://127.0.0.1:9/v1")
        )
    assert not (tmp_path / "ws/ledger.sqlite").exists()
