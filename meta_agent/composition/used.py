"""Says which mode uses which flag, so that a flag without effect is refused instead of ignored.

Only flags on the command line are checked, because variables and a workspace's file are set for
many runs. Not covered: a replay, which takes its settings from its recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from meta_agent.core.config import RunConfig, asks_models
from meta_agent.core.errors import ConfigError
from meta_agent.core.loop.plan import UNPROVEN
from meta_agent.core.settings import flag_of


class Use(NamedTuple):
    """When a command-line flag has an effect: a test of the settings, and the same in words."""

    by: Callable[[RunConfig], bool]
    words: str


def _proves(config: RunConfig) -> bool:
    return config.strategy not in UNPROVEN


_TRAINED: Final = Use(lambda config: config.trainable, "a policy that is trained here (nano, hf:)")
_LOCAL: Final = Use(lambda config: config.is_local, "a policy whose weights are here (nano, hf:)")
_FROZEN: Final = Use(
    lambda config: not config.trainable, "a frozen policy (--policy P/MODEL, or --train-steps 0)"
)
_HF: Final = Use(lambda config: config.policy.startswith("hf:"), "a policy of the form hf:PATH")
_ENGINES: Final = Use(lambda config: config.engines > 0, "a run with --engines 1 or more")
_OWN: Final = Use(lambda config: config.own_tasks, "your own tasks (--tasks, --domain)")
_ASKING: Final = Use(asks_models, "a run that calls a model (--policy or --meta-model P/MODEL)")
_KEYED: Final = Use(
    lambda config: asks_models(config) or config.agent_is_asked,
    "a run that calls a model or a coding agent",
)

USES: Final[Mapping[str, Use]] = {
    "train_steps": _LOCAL,
    "warmup": _TRAINED,
    "threads": _LOCAL,
    "executor": _TRAINED,
    "lora_rank": _HF,
    "precision": _HF,
    "tokens_per_pass": _HF,
    "max_staleness": _HF,
    "train_gpus": _HF,
    "checkpoint_every": _HF,
    "engines": _TRAINED,
    "gpus_per_engine": _ENGINES,
    "context_tokens": _ENGINES,
    "prove": Use(
        lambda config: config.trainable and _proves(config),
        f"a policy that is trained here, with a --strategy other than {' and '.join(UNPROVEN)}",
    ),
    "hand_over": Use(_proves, f"a --strategy other than {' and '.join(UNPROVEN)}"),
    "samples": _FROZEN,
    "concurrency": _FROZEN,
    "replay_match": Use(lambda _: False, "--meta-model replay:RUN"),
    "threshold": _OWN,
    "map": _OWN,
    "python": _OWN,
    "base_urls": _ASKING,
    "key_env": _KEYED,
    "max_usd": _ASKING,
    "max_tokens": _ASKING,
    "role_max_usd": _ASKING,
    "role_max_tokens": _ASKING,
}
"""Maps settings to modes. A setting that is not listed applies to every mode."""


def require_used(config: RunConfig) -> None:
    """Raises ConfigError for the first flag on the command line that these settings ignore."""
    if config.meta_model.startswith("replay:"):
        return
    for field, use in USES.items():
        if config.origin.get(field, "").startswith("command line") and not use.by(config):
            raise ConfigError(
                f"{flag_of(field)} has no effect in this run: it applies only to {use.words}",
                hint="leave that flag out",
            )
