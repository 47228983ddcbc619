"""Two sets of diagnostics over the same stored rollouts, through the real sandbox."""

from __future__ import annotations

from collections.abc import Iterator

from meta_agent.core.replay.watching import ENOUGH_CLEAN, Reading, compare_diagnostics
from meta_agent.core.rollouts.record import to_line

from ._harness import groups, session, tree

TURNS = """
NAME, LAYER = "turns", "behaviour"
THRESHOLDS = {"mean": {"warn": 4.5, "direction": "above"}}

def measure(rollouts):
    return {"mean": sum(r["turns"] for r in rollouts) / len(rollouts)}
"""
FAILED = """
NAME, LAYER = "failed", "score"
THRESHOLDS = {"share": {"warn": 0.1, "direction": "above"}}

def measure(rollouts):
    return {"share": sum(not r["outcome"] for r in rollouts) / len(rollouts)}
"""
BROKEN = """
NAME, LAYER, THRESHOLDS = "broken", "score", {}

def measure(rollouts):
    return {"share": 1 / 0}
"""
AT = "lab/diagnostics/"


def compared(kinds: str, before: dict[str, str], after: dict[str, str]) -> dict[str, Reading]:
    def lines() -> Iterator[bytes]:
        return (to_line(one) for one in groups(kinds))

    def files(texts: dict[str, str]) -> dict[str, str]:
        return {f"{AT}{name}.py": text for name, text in texts.items()}

    with session(tree(**files(before))) as old, session(tree("new", **files(after))) as new:
        return {row.diagnostic: row for row in compare_diagnostics(old, new, lines)}


def test_a_new_diagnostic_that_tells_bad_from_good() -> None:
    row = compared("mmmmm", {}, {"failed": FAILED})["failed"]
    assert (row.before, row.after) == (None, 0.5)
    assert (row.alarm_before, row.alarm_after, row.false_alarm) == (False, True, False)


def test_an_alarm_on_clean_attempts_alone_is_a_false_one() -> None:
    row = compared("mmmmm", {"turns": TURNS}, {"turns": TURNS.replace("4.5", "3.5")})["turns"]
    assert row.before == row.after
    assert (row.alarm_before, row.alarm_after, row.false_alarm) == (True, True, True)


def test_with_few_clean_attempts_nobody_knows() -> None:
    row = compared("mfff", {}, {"failed": FAILED})["failed"]
    assert row.false_alarm is None and ENOUGH_CLEAN > 2


def test_one_that_is_gone_and_one_that_fails() -> None:
    rows = compared("mm", {"turns": TURNS}, {"broken": BROKEN})
    assert (rows["turns"].after, rows["turns"].alarm_after) == (None, False)
    assert "ZeroDivisionError" in str(rows["broken"].failure)
