"""The journal's chain: what was recorded cannot be changed without its showing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.ledger import Ledger


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.start_run("r", {}, config_hash="c")
        for at in range(4):
            ledger.once(f"s{at}", "eval", {"at": at}, lambda at=at: {"solved": at, "x": 0.1})  # type: ignore[misc]
    return path


def _broken(path: Path) -> str | None:
    with Ledger.open(path, owner_lock=False) as ledger:
        return ledger.broken()


def test_an_untouched_journal_is_whole(file: Path) -> None:
    assert _broken(file) is None
    with Ledger.open(file) as ledger:
        ledger.once("s4", "eval", {}, lambda: None)
        assert ledger.broken() is None
        heads = [ledger.head(f"s{at}") for at in range(5)]
        assert len(set(heads)) == 5
        assert ledger.head("unknown") is None


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ("UPDATE steps SET outcome = '{\"solved\":9,\"x\":0.1}' WHERE key = 's2'", "s2"),
        ("UPDATE steps SET intent = '{\"at\":7}' WHERE key = 's1'", "s1"),
        ("UPDATE steps SET run = 'other' WHERE key = 's1'", "s1"),
        ("DELETE FROM steps WHERE key = 's3'", "s3"),
        ("DELETE FROM chain WHERE key = 's2'", "s3"),
        ("DELETE FROM chain WHERE key = 's3'", "s3"),
        ("UPDATE chain SET digest = 'x' WHERE key = 's0'", "s0"),
        ("UPDATE steps SET key = 's9' WHERE key = 's0'", "s0"),
    ],
)
def test_a_change_to_what_was_recorded_shows(change: str, at: str, file: Path) -> None:
    with sqlite3.connect(file) as db:
        db.execute(change)
    assert _broken(file) == at


def test_every_failed_attempt_stays_in_the_log(file: Path) -> None:
    def fails() -> None:
        raise OSError("no room")

    with Ledger.open(file) as ledger:
        with pytest.raises(OSError, match="no room"):
            ledger.once("retried", "eval", {}, fails)
        ledger.once("retried", "eval", {}, lambda: 1)
        (event,) = ledger.events(kind="failed")
        assert event.payload == {"step": "retried", "error": "OSError: no room"}
