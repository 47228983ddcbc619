"""The language models of a run, where its settings name some."""

from __future__ import annotations

from meta_agent.core.errors import ConfigError
from meta_agent.core.loop.run import Run
from meta_agent.proposers import LlmTeam


def llm_team(run: Run) -> LlmTeam | None:
    """The language models of this run; None where rules propose."""
    if run.config.meta_model == "rules":
        return None
    if run.models is None:
        raise ConfigError(
            f"--meta-model {run.config.meta_model}: this run was opened without a model client",
            hint="meta-agent evolve --meta-model rules",
        )
    return LlmTeam(
        run.models,
        run=run.id,
        model_of=run.config.model_of,
        prompts=run.config.workspace / "prompts",
    )
