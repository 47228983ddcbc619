"""Hints: the beginning of the reference solution, for training tasks that no attempt solves.

After GHPO (arXiv 2507.10628): a group in which every attempt fails teaches nothing, but with a part
of the solution some attempts may succeed. Promises: a task whose last group was dead gets the
recipe's `hint_fraction` of its solution, and one whose last group was solved by any attempt gets
none. A task that was never drawn gets a hint with the chance at which groups without a hint were
dead so far. So the first groups of a training are unaided, and hints fade out as the policy
succeeds. The hint is part of the prompt, which carries no loss.

Not covered: how a hint enters a request (`core.rollouts`), and the domain's `reference`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from meta_agent.core.capabilities import ReferenceDomain
from meta_agent.core.protocols import Domain, Rollout

LastGroups = Mapping[str, Mapping[str, bool]]
"""Whether a task's last group was `solved` by any attempt, and whether it was `hinted`, by key."""


class Hint(NamedTuple):
    """The beginning of a task's reference solution, and which share of the whole it is."""

    text: str
    share: float


NO_HINT: Final = Hint("", 0.0)


class Hints:
    """Hints for training tasks: the first part of a reference solution, `share` of its text."""

    def __init__(self, domain: Domain, share: float) -> None:
        self._share = share
        self._reference = cache(domain.reference if isinstance(domain, ReferenceDomain) else _none)

    def of_task(self, task_key: str, last: LastGroups) -> Hint:
        """Returns the hint for the next group of a task; its text is empty if it gets none.

        `last` says for each task whether its last group was solved, and whether it had a hint.
        """
        if not self._share or not _needs_hint(task_key, last):
            return NO_HINT
        reference = self._reference(task_key) or ""
        text = reference[: int(self._share * len(reference))]
        return Hint(text, self._share) if text.strip() else NO_HINT


def _none(_task_key: str) -> None:
    """The reference of a task whose domain knows none."""


def _needs_hint(task_key: str, last: LastGroups) -> bool:
    if task_key in last:
        return not last[task_key]["solved"]
    unaided = [group["solved"] for group in last.values() if not group["hinted"]]
    chance = unaided.count(False) / (len(unaided) + 1)  # below 1, so that some stay unaided
    # Curricula order tasks by the hash of the bare key, so a draw by it would hint the first ones.
    drawn = int(hashlib.sha256(f"hint/{task_key}".encode()).hexdigest()[:8], 16)
    return drawn < chance * 16**8


def with_groups(
    last: LastGroups, groups: Sequence[Sequence[Rollout]]
) -> dict[str, Mapping[str, bool]]:
    """Returns a copy of `last` where new groups with an outcome replace their tasks' last ones."""
    graded = [group for group in groups if any(r.outcome is not None for r in group)]
    return {**last} | {
        group[0].task_key: {
            "solved": any(rollout.outcome for rollout in group),
            "hinted": group[0].hinted > 0,
        }
        for group in graded
    }
