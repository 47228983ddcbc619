"""The engines of a run, and whether they can be had: said before anything is loaded.

Does not cover: what an engine needs beside weights and the cache of one conversation; it says so in
its log when it starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Domain
from meta_agent.policies.fleet.launch import VllmLaunch
from meta_agent.policies.served.vllm_server import config_of, require_vllm, window_of
from meta_agent.policies.served_engines import Engines
from meta_agent.policies.training import adapter
from meta_agent.policies.training.devices import Device, devices
from meta_agent.policies.training.handover import room_for
from meta_agent.policies.training.hub import base_place
from meta_agent.policies.training.memory import GIB, gib, shape_of
from meta_agent.policies.training.policy import place_of
from meta_agent.policies.training.serving.publishing import require_servable

ROLLOUTS: Final = 128
"""Under way at once with engines, which take as many of their calls as they can."""
SHARE: Final = 0.45
"""Of a GPU's memory that an engine takes where the trainer has the same one."""
_CPU_CACHE_VARIABLE: Final = "VLLM_CPU_KVCACHE_SPACE"


class Seats(NamedTuple):
    """The GPUs of a run's engines; none: the CPU."""

    devices: tuple[str, ...] = ()  # of each engine, as in CUDA_VISIBLE_DEVICES
    left: tuple[str, ...] = ()  # for trainings
    share: float | None = None  # of memory, where both are on one
    bytes_each: int = 0


def engines_for(
    config: RunConfig, policy: str, domain: Domain, logs: Path, tell: Callable[[str], None]
) -> Engines | None:
    """How a run's engines are started; None where it has none. ConfigError: they do not fit."""
    if not config.engines:
        return None
    require_vllm()
    folder, _ = place_of(policy)
    require_servable(folder, adapters=config.lora_rank > 0)
    place = base_place(folder) if adapter.is_adapter(folder) else folder
    seats, told = seats_of(config, devices()), config_of(place)
    context = _context(config, told, domain)
    _require_room(config, place, told, context, seats)
    launch = VllmLaunch(
        logs=logs,
        context_tokens=context,
        count=config.engines,
        precision=config.precision,
        devices=seats.devices,
        gpus_each=config.gpus_per_engine,
        memory_share=seats.share,
        tell=tell,
    )
    rank = room_for(config.lora_rank) if config.lora_rank else 0
    return Engines(launch, config.engines, context, rank)


def seats_of(config: RunConfig, found: Sequence[Device]) -> Seats:
    """Which GPUs engines take: the last ones; the only one is shared."""
    gpus = [one for one in found if one.name]
    each, wanted = config.gpus_per_engine, config.engines * config.gpus_per_engine
    if not gpus or not wanted:
        return Seats(left=tuple(one.name for one in gpus))
    if len(gpus) == 1 and wanted == 1:
        (only,) = gpus
        return Seats((only.name,), (only.name,), SHARE, int(SHARE * only.free_bytes))
    if wanted >= len(gpus):
        raise ConfigError(
            f"{config.engines} engines of {each} GPUs and a trainer need {wanted + 1}, and "
            f"{len(gpus)} are visible",
            hint=f"--engines {max(1, (len(gpus) - 1) // each)} with --gpus-per-engine {each}",
        )
    names = [one.name for one in gpus]
    mine, left = names[-wanted:], tuple(names[:-wanted])
    split = tuple(",".join(mine[at : at + each]) for at in range(0, wanted, each))
    return Seats(split, left, None, each * min(one.free_bytes for one in gpus[-wanted:]))


def _context(config: RunConfig, told: JSON, domain: Domain) -> int:
    window, ceiling = window_of(told), domain.ceilings.max_context_tokens
    wanted = config.context_tokens or min(window, ceiling)
    if wanted > window:
        raise ConfigError(
            f"an engine is to hold {wanted:,} tokens, and the model was made for {window:,}",
            hint=f"--context-tokens {window}",
        )
    return wanted


def _require_room(
    config: RunConfig, place: Path, told: dict[str, JSON], context: int, seats: Seats
) -> None:
    """One conversation has to fit in the cache, beside the weights on a GPU."""
    short = 2 if config.precision == "bfloat16" else 4
    each, what = short * _cached_numbers(told), "its cache"
    if seats.devices:
        room = seats.bytes_each - short * shape_of(place).parameters
        what = "its GPU, beside the weights"
    else:
        room = int(os.environ.get(_CPU_CACHE_VARIABLE) or 1) * GIB
    if context * each <= room:
        return
    fits = max(0, room) // each
    raise ConfigError(
        f"a conversation of {context:,} tokens takes {gib(context * each)} of an engine, and "
        f"{gib(max(0, room))} are available in {what}",
        hint=f"--context-tokens {fits} fits" if fits > 16 else "take a smaller model",
    )


def _cached_numbers(told: dict[str, JSON]) -> int:
    """Keys and values of one token."""
    text = told.get("text_config")
    shape = {**told, **(text if isinstance(text, dict) else {})}
    try:
        heads = int(shape["num_attention_heads"])
        width = int(shape.get("head_dim") or shape["hidden_size"] // heads)
        pairs = 2 * int(shape.get("num_key_value_heads") or heads)
        return int(shape["num_hidden_layers"]) * pairs * width
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"the model's config.json does not tell its sizes: {error!r}") from error
