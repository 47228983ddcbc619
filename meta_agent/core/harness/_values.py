"""Values that come back from harness code in a sandbox: each is checked, or is a `CandidateError`.

Promises: names are short and printable, numbers are finite and within limits, lists have the
required length, and keys are those that were given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from meta_agent.core.errors import CandidateError
from meta_agent.core.protocols import JSON

MAX_GROUP_WEIGHT: Final = 1000.0
MAX_REWARD_NAMES: Final = 32
MAX_QUESTION_CHARS: Final = 64_000
Rewards = list[dict[str, float]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one test of a harness: what was tested, whether it passed, else the fault."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The metrics that one diagnostic of a harness measured, or the `failure` that it raised."""

    name: str
    layer: str
    thresholds: Mapping[str, JSON]
    values: Mapping[str, float]
    failure: str | None = None


def must_return(what: str, value: Any, expected: str) -> CandidateError:
    return CandidateError(
        f"{what} returned {value!r:.200}, but it must return {expected}", reason="bad_value"
    )


def field_of(facts: JSON, name: str) -> JSON:
    if not isinstance(facts, dict) or name not in facts:
        raise must_return("the harness", facts, f"an object with {name}")
    return facts[name]


def listing(value: JSON, count: int | None, what: str) -> list[JSON]:
    if not isinstance(value, list):
        raise must_return(what, value, "a list")
    if count is not None and len(value) != count:
        raise CandidateError(
            f"{what} returned {len(value)} values, but it must return {count}", reason="bad_length"
        )
    return value


def rewards_of(answer: JSON, count: int, *, in_groups: bool) -> Rewards:
    rows = listing(answer, count, "reward()")
    if not in_groups:
        return [named_floats(row, f"reward() of rollout {i}") for i, row in enumerate(rows)]
    pairs = [listing(row, 2, "reward_group()") for row in rows]
    single = [named_floats(row, f"reward() of rollout {i}") for i, (row, _) in enumerate(pairs)]
    grouped = [named_floats(r, f"reward_group() of rollout {i}") for i, (_, r) in enumerate(pairs)]
    for index, (row, shared) in enumerate(zip(single, grouped, strict=True)):
        if shared.keys() != grouped[0].keys() or shared.keys() & row.keys():
            names = ", ".join(shared) or "none"
            raise CandidateError(
                f"reward_group() returned the components {names} for rollout {index}; it must "
                "return the same names for every rollout, and none that reward() returns",
                reason="bad_keys",
            )
    return [{**row, **shared} for row, shared in zip(single, grouped, strict=True)]


def question(value: JSON) -> str | None:
    if value is None or (isinstance(value, str) and 0 < len(value) <= MAX_QUESTION_CHARS):
        return value
    raise must_return(
        "judge()", value, f"None, or a text of at most {MAX_QUESTION_CHARS} characters"
    )


def group_weights(answer: JSON, count: int) -> list[float]:
    weights = listing(answer, count, "keep()")
    return [in_range(value, 0.0, MAX_GROUP_WEIGHT, "keep()") for value in weights]


def named_floats(value: JSON, what: str) -> dict[str, float]:
    """Returns `value`, a dict of finite floats. Raises CandidateError naming `what` for others."""
    if not isinstance(value, dict):
        raise must_return(what, value, "a dict of floats")
    if len(value) > MAX_REWARD_NAMES:
        raise CandidateError(
            f"{what} returned {len(value)} names; return at most {MAX_REWARD_NAMES}",
            reason="bad_length",
        )
    for name in value:
        if not (0 < len(name) <= 64 and name.isprintable()):
            raise must_return(what, name, "a printable name of at most 64 characters")
    return {
        # Tried first because the text for a refusal costs more than the check.
        name: number
        if type(number) is float and -1e9 <= number <= 1e9
        else in_range(number, -1e9, 1e9, f"{what}[{name!r}]")
        for name, number in value.items()
    }


def in_range(value: JSON, low: float, high: float, what: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise CandidateError(
            f"{what} must return a finite number, not {value!r:.80}", reason="not_finite"
        )
    if not low <= value <= high:
        raise must_return(what, value, f"a number from {low:g} to {high:g}")
    return float(value)


def checked_order(keys: list[JSON], task_keys: set[str]) -> list[str]:
    for key in keys:
        if not isinstance(key, str) or key not in task_keys:
            raise must_return("order()", key, "the key of a task it was given")
    if len(set(keys)) != len(keys):
        raise must_return("order()", keys, "a list without repeats")
    if not keys:
        raise must_return("order()", keys, "at least one task")
    return keys


def declared(fact: JSON) -> Measurement:
    name, layer = field_of(fact, "name"), field_of(fact, "layer")
    thresholds = field_of(fact, "thresholds")
    if not isinstance(name, str) or not 0 < len(name) <= 64 or not name.isprintable():
        raise must_return("NAME of a diagnostic", name, "a short printable string")
    if not isinstance(thresholds, dict):
        raise must_return(f"THRESHOLDS of {name}", thresholds, "a dict")
    return Measurement(name, str(layer)[:64], thresholds, {})


def measured(fact: Measurement, row: JSON) -> Measurement:
    if isinstance(row, dict) and "err" in row:
        failure = _failure_text(row["err"])
        return Measurement(fact.name, fact.layer, fact.thresholds, {}, failure)
    values = named_floats(field_of(row, "values"), f"measure() of {fact.name}")
    return Measurement(fact.name, fact.layer, fact.thresholds, values)


def _failure_text(err: JSON) -> str:
    if not isinstance(err, dict):
        return "failed"
    return f"{err.get('type')}: {err.get('message')}"[:500]
