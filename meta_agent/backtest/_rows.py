"""What a lab asks of rollouts and harnesses on the way: heard, lost, scored, named, accepted."""

from __future__ import annotations

from collections.abc import Sequence

from meta_agent.errors import CandidateError, ConfigError
from meta_agent.harness import HarnessSession, Recipe
from meta_agent.models.api_gateway import REFUSED
from meta_agent.protocols import JSON, Rollout
from meta_agent.rollouts import ShardRef
from meta_agent.training import PolicyChild
from meta_agent.training.run import settings_of


def accepted_recipe(child: PolicyChild, session: HarnessSession) -> Recipe:
    """The harness's recipe, which neither we nor TRL refuse."""
    try:
        recipe = session.recipe
        child.check_recipe(settings_of(recipe))
    except ConfigError as error:
        raise CandidateError(str(error), reason="recipe_refused") from error
    return recipe


def require_heard(rollouts: Sequence[Rollout]) -> None:
    """A model server that refuses every rollout's request measures nothing."""
    refused = [r.error for r in rollouts if r.error and r.error.detail.startswith(REFUSED)]
    if refused and len(refused) == len(rollouts):
        raise CandidateError(
            f"of {len(rollouts)} rollouts none was answered: {refused[0].detail}",
            reason="requests_refused",
        )


def lost(rollouts: Sequence[Rollout]) -> int:
    return sum(rollout.error is not None and rollout.error.kind == "infra" for rollout in rollouts)


def named(shard: ShardRef) -> JSON:
    return {"name": shard.name, "sha256": shard.sha256}


def score(session: HarnessSession, rollouts: list[Rollout]) -> None:
    """Fills in what the harness's own reward says, so that the gate can compare it to the truth."""
    scored = [rollout for rollout in rollouts if rollout.error is None]
    for rollout, rewards in zip(scored, session.reward(scored), strict=True):
        rollout.rewards, rollout.weights = rewards, dict(session.weights)
