"""Checks and helpers of the lab for rollouts: lost ones, refused requests, rewards, recipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from meta_agent.core.chat import REFUSED
from meta_agent.core.errors import CandidateError, ConfigError, InfrastructureError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.lab.measured import LOST_SHARE, Evaluated
from meta_agent.core.lab.training import Trainer, settings_of
from meta_agent.core.protocols import JSON, PlannedRollout, Rollout
from meta_agent.core.rollouts import Runner, ShardRef

_OUTSIDE: Final = ("model: ", "open: ")
"""The beginnings of the details of losses that code in a sandbox cannot cause on purpose."""


def accepted_recipe(trainer: Trainer, session: HarnessSession) -> dict[str, JSON]:
    """Returns the harness's training recipe. Raises CandidateError if the trainer refuses it."""
    try:
        return trainer.accept(settings_of(session.recipe))
    except ConfigError as error:
        raise CandidateError(str(error), reason="recipe_refused") from error


def require_heard(rollouts: Sequence[Rollout]) -> None:
    """Raises CandidateError if the model server refused every rollout's request."""
    refused = [r.error for r in rollouts if r.error and r.error.detail.startswith(REFUSED)]
    if refused and len(refused) == len(rollouts):
        raise CandidateError(
            f"the model server refused all {len(rollouts)} attempts: {refused[0].detail}",
            reason="requests_refused",
            hint="change what the harness sends, or choose another model with --policy",
        )


def to_repeat(rollouts: Sequence[Rollout], *, whole: bool) -> list[int]:
    """Returns the indices of the rollouts to make once more, because machines lost them.

    These are the ones lost outside a sandbox. If over 5 % are lost, some of them in a sandbox, all
    rollouts are repeated, so that code in a sandbox cannot choose which. With `whole`, for engines
    that answer all rollouts together, all are repeated if over 5 % are lost, and else none.
    """
    missing = _lost(rollouts)
    outside = [at for at in missing if _detail(rollouts[at]).startswith(_OUTSIDE)]
    many = len(missing) > LOST_SHARE * len(rollouts)
    if many and (whole or outside != missing):
        return list(range(len(rollouts)))
    return [] if whole else outside


class Again(Runner):
    """A runner that repeats, once and with the same random numbers, rollouts that machines lost."""

    def run(self, plan: Sequence[PlannedRollout], **how: Any) -> list[Rollout]:
        rollouts = super().run(plan, **how)
        lost = to_repeat(rollouts, whole=False)
        redone = super().run([plan[at] for at in lost], **how) if lost else []
        for at, rollout in zip(lost, redone, strict=True):
            rollouts[at] = rollout
        return rollouts


def require_measured(rollouts: Sequence[Rollout], what: str) -> None:
    """Raises InfrastructureError if machines lost too large a share of an evaluation's rollouts.

    One lost rollout is always tolerated. `what` names the evaluation in the message.
    """
    missing = _lost(rollouts)
    if len(missing) <= max(1, LOST_SHARE * len(rollouts)):
        return
    raise InfrastructureError(
        f"machine failures lost {len(missing)} of {len(rollouts)} attempts of {what}, also "
        f"when repeated; at most {LOST_SHARE:.0%}, or one, may be lost: "
        f"{_detail(rollouts[missing[0]])[:300]}",
        hint="run the same command again; meta-agent doctor --live or meta-agent tasks check "
        "FILE may show the cause",
    )


def _lost(rollouts: Sequence[Rollout]) -> list[int]:
    return [
        at for at, rollout in enumerate(rollouts) if rollout.error and rollout.error.kind == "infra"
    ]


def _detail(rollout: Rollout) -> str:
    return rollout.error.detail if rollout.error else ""


def shard_reference(shard: ShardRef) -> JSON:
    """Returns the name and hash of a stored file of rollouts, by which the ledger refers to it."""
    return {"name": shard.name, "sha256": shard.sha256}


def counted(
    shard: ShardRef, plan: Sequence[PlannedRollout], rollouts: Sequence[Rollout], seed: int
) -> JSON:
    """Returns an evaluation's counts and a reference to its rollouts, as the ledger stores them.

    `seed` is the training seed of the policy that acted.
    """
    solved = sum(bool(rollout.outcome) for rollout in rollouts)
    clean = sum(rollout.clean for rollout in rollouts)
    rollout_count = len(rollouts)
    return Evaluated(
        shard_reference(shard), len(plan), solved, clean, seed, rollout_count
    )._asdict()


def score(session: HarnessSession, rollouts: list[Rollout]) -> None:
    """Sets the harness's rewards and their weights in all rollouts that ended without an error."""
    scored = [rollout for rollout in rollouts if rollout.error is None]
    for rollout, rewards in zip(scored, session.reward(scored), strict=True):
        rollout.rewards, rollout.weights = rewards, dict(session.weights)
