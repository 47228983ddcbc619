"""Stored attempts as a diagnostic is judged on them: one by one, and without the grade.

A diagnostic receives an attempt without its outcome, flags, rewards and the grader's inputs, so it
cannot repeat the grade. Training attempts are compared within their group, which one policy made.
Attempts at a search task are compared with each other, whichever version of the run made them.
Attempts at every third task are held out: no author of an edit finds them in its files.

Not covered: an author that makes attempts of its own at held-out search tasks, and examples that
the conversation audit quotes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate.diagnostics import Attempt
from meta_agent.core.harness import HarnessSession, Measurement
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Rollout

MOST: Final = 2_000
"""Attempts that one diagnostic is judged on: the newest ones."""
SIDES: Final = ("above", "below")

Group = tuple[str, list[Rollout]]


class Number(NamedTuple):
    """A number that a diagnostic measures, and whether more of it is bad."""

    diagnostic: str
    value: str
    higher_is_bad: bool


def number_of(session: HarnessSession, metric: str) -> Number:
    """Returns the number that `metric` names, in the form `measured.DIAGNOSTIC.VALUE`.

    Raises CandidateError if the harness lacks the diagnostic, or does not say which side is bad.
    """
    diagnostic, _, value = metric.removeprefix("measured.").partition(".")
    declared = _of(diagnostic, session.measure(())).thresholds.get(value)
    side = declared.get("direction") if isinstance(declared, Mapping) else None
    if side not in SIDES:
        raise CandidateError(
            f"{diagnostic} does not say which values of {value!r} are bad: add to its THRESHOLDS "
            '{"warn": number, "direction": "above" or "below"}',
            reason="no_threshold",
        )
    return Number(diagnostic, value, side == "above")


def _of(name: str, measurements: Iterable[Measurement]) -> Measurement:
    for measurement in measurements:
        if measurement.name == name:
            return measurement
    message = (
        f"the harness has no diagnostic named {name!r}: a diagnostic's file has to set NAME to it"
    )
    raise CandidateError(message, reason="no_diagnostic")


def telling_groups(run: Run, *, after: int = 0, of_run: str | None = None) -> list[Group]:
    """Returns the newest stored groups of attempts that hold clean and other attempts.

    They come from trainings and from the search split, of the run `of_run` or of all runs of the
    workspace, recorded after the ledger's step number `after`.
    """
    groups, attempts = defaultdict[str, list[Rollout]](list), 0
    steps = [*run.ledger.steps(of_run, "train"), *run.ledger.steps(of_run, "eval")]
    for step in sorted(steps, key=lambda step: -step.seq):
        shard: JSON = step.fields.get("shard") if step.is_done and step.seq > after else None
        if not shard or step.intent.get("split", "search") != "search" or attempts > MOST:
            continue
        for rollout in run.lab.rollouts(shard):
            if rollout.outcome is not None and rollout.error is None:
                group = f"{shard['name']} {rollout.group_id}"
                groups[group if rollout.split == "train" else rollout.task_key].append(rollout)
                attempts += 1
    return [
        (name, group) for name, group in groups.items() if len({row.clean for row in group}) == 2
    ]


def readings(
    run: Run, session: HarnessSession, number: Number, groups: Sequence[Group]
) -> list[Attempt]:
    """Returns each attempt's value of a number, and the other metrics of the same attempt."""
    attempts = []
    for name, group in groups:
        for rollout in group:
            blind = ungraded(rollout)
            measured = session.measure([blind])
            value = _of(number.diagnostic, measured).values.get(number.value)
            turned = -value if value is not None and number.higher_is_bad else value
            evidence = run.extensions.evidence.build_evidence([blind])
            others = {**evidence.behaviour, **evidence.conversation} | {
                f"{other.name}.{key}": reading
                for other in measured
                if other.name != number.diagnostic
                for key, reading in other.values.items()
            }
            attempts.append(Attempt(name, rollout.task_key, rollout.clean, turned, others))
    return attempts


def ungraded(rollout: Rollout) -> Rollout:
    """Returns an attempt without all that the grader or the reward said about it."""
    return replace(
        rollout,
        outcome=None,
        outcome_detail={},
        verifier_inputs={},
        rewards={},
        weights={},
        advantage=None,
        flags=[],
        judged=None,
    )
