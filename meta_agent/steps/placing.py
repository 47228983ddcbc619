"""Where trainings take place, and whether they fit there: said before anything is loaded.

Does not cover: how much a training takes (`training.memory`), and what devices there are
(`training.devices`).
"""

from __future__ import annotations

import os
from typing import NamedTuple

from meta_agent.config import RunConfig
from meta_agent.protocols import Domain
from meta_agent.training import TrainSettings
from meta_agent.training.devices import Device, devices
from meta_agent.training.hub import hf_place
from meta_agent.training.memory import Memory, require_fit, shape_of

TOKENS_PER_PASS = 8192
_HF = "hf:"


class Placing(NamedTuple):
    """Trainings side by side."""

    workers: int
    devices: tuple[str, ...] = ()
    """Of each child, as in CUDA_VISIBLE_DEVICES; none: all see the same."""
    memory: Memory | None = None
    """Of one training, predicted; None: too small to matter."""


def train_settings(config: RunConfig) -> TrainSettings:
    """How a child holds and trains the policy of these settings."""
    if not config.policy.startswith(_HF):
        return TrainSettings()
    tokens = config.tokens_per_pass or TOKENS_PER_PASS
    behind = config.max_staleness
    return TrainSettings(
        config.lora_rank, config.precision, tokens, corrected=behind > 0, max_staleness=behind
    )


def placing(config: RunConfig, domain: Domain) -> Placing:
    """Raises ConfigError where a training of an `hf:` policy does not fit."""
    if not config.trainable:
        return Placing(1)
    if not config.policy.startswith(_HF):
        return Placing(config.jobs or os.cpu_count() or 1)
    found = devices()
    shape = shape_of(hf_place(config.policy.removeprefix(_HF)))
    memory = require_fit(
        config.policy,
        shape,
        train_settings(config),
        row=min(shape.window, domain.ceilings.max_context_tokens),
        trained=True,  # a run trains on from what it trained
        available=max(device.free_bytes for device in found),
    )
    fitting = [one for one in found if one.free_bytes >= memory.total]
    named = tuple(one.name for one in fitting if one.name)
    return Placing(config.jobs or _places(fitting, memory, config.threads), named, memory)


def _places(fitting: list[Device], memory: Memory, threads: int) -> int:
    """A GPU holds one training at a time; this machine as many as fit, if it has the cores."""
    if fitting[0].name:
        return len(fitting)
    cores = (os.cpu_count() or 1) // threads
    return max(1, min(fitting[0].free_bytes // memory.total, cores))
