"""What the SWE-bench harness wrote about patches: a run's report, or one report an instance.

Read alone they are attempts of which nothing but the outcome is known. Beside the attempts they
judge they give these their outcomes (`_join.py`). An instance that the harness could not judge is a
verifier's error: a patch that does not apply ends there too, and the report doesn't tell which.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from meta_agent.core.protocols import JSON, RolloutFailure
from meta_agent.readers.formats._draft import Draft
from meta_agent.readers.formats._format import Count, Placed, has
from meta_agent.readers.formats._row import Row, RowError

NAME = "swe-bench-report"
# In the order in which they overrule each other: the last list with an instance names its state.
_LISTS: Final = {
    "incomplete_ids": "incomplete",
    "submitted_ids": "error",
    "error_ids": "error",
    "unresolved_ids": "unresolved",
    "empty_patch_ids": "unresolved",
    "resolved_ids": "resolved",
}


def claims(value: JSON) -> int:
    if has(value, "resolved_ids", "unresolved_ids", "error_ids"):
        return 3
    judged = isinstance(value, dict) and value
    return 3 if judged and all(has(v, "resolved", "patch_exists") for v in value.values()) else 0


def expand(placed: Placed) -> Iterator[Placed]:
    """One row an instance, whichever of the two kinds it is."""
    report = placed.value
    if not isinstance(report, dict):
        yield placed
    elif has(report, "resolved_ids"):
        for name, state in _states(report).items():
            row = {"instance_id": name, "state": state}
            yield Placed(f"{placed.place}[{name}]", row)
    else:
        for name, told in report.items():
            row = {"instance_id": name, "state": _state(told)}
            yield Placed(f"{placed.place}[{name}]", row)


def _states(report: dict[str, JSON]) -> dict[str, str]:
    lists = ((report.get(name), state) for name, state in _LISTS.items())
    return {str(i): state for ids, state in lists if isinstance(ids, list) for i in ids}


def _state(told: JSON) -> JSON:
    said = told.get("resolved") if isinstance(told, dict) else None
    return {True: "resolved", False: "unresolved"}.get(said) if isinstance(said, bool) else said


def read(row: Row, count: Count) -> Draft:
    state = row.text("state")
    if state == "incomplete":
        raise RowError("no prediction was handed in for the instance")
    if state not in ("resolved", "unresolved", "error"):
        raise row.need("resolved", "true or false")
    failure = RolloutFailure("verifier", "the harness could not judge the patch")
    return Draft(
        task_key=row.label("instance_id"),
        outcome=None if state == "error" else state == "resolved",
        error=failure if state == "error" else None,
        domain="swe",
    )
