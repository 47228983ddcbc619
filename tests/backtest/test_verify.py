"""What is compared, leaf by leaf, and grading again; whole runs are in `tests/evolve`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.core.lab.verify import Difference, compared, regrade
from meta_agent.core.protocols import JSON, Outcome, Rollout

from ._harness import broken, rollout


@pytest.mark.parametrize(
    ("recorded", "again", "found"),
    [
        ({"a": 1.0, "b": [1, {"c": 2.0}]}, {"a": 1.0 + 1e-12, "b": [1, {"c": 2.0}]}, []),
        ({"a": 1}, {"a": 2}, [("x.a", 1, 2)]),
        ({"a": {"b": 0.5}}, {"a": {"b": 0.5 + 1e-6}}, [("x.a.b", 0.5, 0.5 + 1e-6)]),
        ({"a": 1}, {}, [("x.a", 1, None)]),
        ({}, {"a": False}, [("x.a", None, False)]),
        ({"a": [1, 2]}, {"a": [1]}, [("x.a", [1, 2], [1])]),
        ({"a": 1.0}, {"a": "1.0"}, [("x.a", 1.0, "1.0")]),
        ({"a": True}, {"a": 1.0}, [("x.a", True, 1.0)]),
    ],
)
def test_every_leaf_is_compared_and_rounding_forgiven(
    recorded: JSON, again: JSON, found: list[tuple[str, JSON, JSON]]
) -> None:
    assert list(compared("x", recorded, again)) == found


class Grader:
    """The part of a domain that grades again."""

    evaluator_hash = "ev"
    flags: tuple[str, ...] = ()

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        return Outcome(bool(verifier_inputs["solved"]), flags=self.flags)


def made(solved: bool) -> Rollout:
    return rollout(0, 0, outcome=solved, verifier_inputs={"solved": solved}, flags=[])


def graded(row: Rollout, **changes: Any) -> tuple[Difference, ...]:
    grader: Any = Grader()
    for name, value in changes.items():
        setattr(grader, name, value)
    return regrade([row], grader).differences


def test_an_outcome_that_the_grader_does_not_give_is_found() -> None:
    assert graded(made(True)) == graded(made(False)) == ()
    (found,) = graded(replace(made(False), outcome=True))
    assert found.what.startswith("outcome of t") and found[1:] == (True, False)


def test_another_grader_is_named_as_such() -> None:
    assert graded(made(True), evaluator_hash="ev2")[0][1:] == ("ev", "ev2")


def test_flags_that_the_grader_raises_again_cannot_be_stripped() -> None:
    found = graded(made(True), flags=("unchecked:words",))
    assert found[0][1:] == ([], ["unchecked:words"])


def test_attempts_without_an_outcome_are_not_graded() -> None:
    grader: Any = Grader()
    assert regrade([broken()], grader) == (0, 1, ())
