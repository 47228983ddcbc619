"""Hints: the beginning of the reference solution, for training tasks that no attempt solves.

After GHPO (arXiv 2507.10628): a group in which every attempt fails teaches nothing, but with a part
of the solution some attempts may succeed. Promises: a task whose last group was solved by any
attempt gets no hint. One whose last group was dead gets the recipe's `hint_fraction`. A task that
was never drawn gets that times the share of tasks whose last group was dead, so hints fade out as
the policy succeeds. The hint is part of the prompt, which carries no loss.

Not covered: how a hint enters a request (`core.rollouts`), and where solutions come from (the
domain's `reference`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.protocols import Domain, Rollout

Solved = Mapping[str, bool]
"""Whether any attempt of a task's last group succeeded, by task key."""


class Hint(NamedTuple):
    """The beginning of a task's reference solution, and which share of the whole it is."""

    text: str
    share: float


NO_HINT: Final = Hint("", 0.0)


class Hints:
    """Gives hints from a domain's reference solutions, up to the share `most` of a solution."""

    def __init__(self, domain: Domain, most: float) -> None:
        self._most = most
        self._reference = cache(Capabilities.of(domain).reference)

    def of_task(self, task_key: str, solved: Solved) -> Hint:
        """Returns the hint for the next group of a task; its text is empty if it gets none.

        `solved` says by task whether any attempt of the task's last group succeeded.
        """
        share = self._share(task_key, solved)
        reference = (self._reference(task_key) if share else None) or ""
        text = reference[: int(share * len(reference))]
        return Hint(text, share) if text.strip() else NO_HINT

    def _share(self, task_key: str, solved: Solved) -> float:
        if task_key in solved or not solved:
            return 0.0 if solved.get(task_key) else self._most
        return self._most * (1 - sum(solved.values()) / len(solved))


def with_groups(solved: Solved, groups: Sequence[Sequence[Rollout]]) -> dict[str, bool]:
    """Returns a copy of `solved` updated by new groups; those without any outcome do not count."""
    outcomes = {group[0].task_key: [r.outcome for r in group] for group in groups}
    return {**solved} | {
        key: any(values)
        for key, values in outcomes.items()
        if any(value is not None for value in values)
    }
