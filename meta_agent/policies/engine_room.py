"""Plans the GPUs and memory of a run's engines (its own vLLM servers) before anything is loaded.

Not covered: memory beside the weights and the cache of one conversation. An engine writes to its
log what it needs when it starts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
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
"""How many rollouts run at once with engines, which take as many calls as they can."""
SHARE: Final = 0.45
"""The share of a GPU's memory that an engine takes if the trainer uses the same GPU."""
_CPU_CACHE_VARIABLE: Final = "VLLM_CPU_KVCACHE_SPACE"


class Seats(NamedTuple):
    """Which GPUs a run's engines (vLLM servers) and its trainings use; an empty tuple: the CPU."""

    devices: tuple[str, ...] = ()  # one value of CUDA_VISIBLE_DEVICES for each engine
    for_trainings: tuple[str, ...] = ()
    share: float | None = None  # of a GPU's memory that an engine takes; None: vLLM's default
    bytes_each: int = 0  # free memory of an engine's GPUs


def engines_for(config: RunConfig, policy: str, domain: Domain, logs: Path) -> Engines | None:
    """Returns the settings that start a run's engines (vLLM servers), or None if it uses none.

    `policy` is the run's base policy, `logs` the folder of log files. Raises PreflightError without
    vLLM, and ConfigError if GPUs, memory or the policy do not fit.
    """
    if not config.engines:
        return None
    require_vllm()
    folder, _ = place_of(policy)
    require_servable(folder, adapters=config.lora_rank > 0)
    place = base_place(folder) if adapter.is_adapter(folder) else folder
    seats, model_config = seats_of(config, devices()), config_of(place)
    context = _context(config, model_config, domain)
    _require_room(config, place, model_config, context, seats)
    launch = VllmLaunch(
        logs=logs,
        context_tokens=context,
        count=config.engines,
        precision=config.precision,
        devices=seats.devices,
        gpus_each=config.gpus_per_engine,
        memory_share=seats.share,
    )
    rank = room_for(config.lora_rank) if config.lora_rank else 0
    return Engines(launch, config.engines, context, rank)


def seats_of(config: RunConfig, gpus_seen: Sequence[Device]) -> Seats:
    """Returns which GPUs a run's engines (vLLM servers) use, the last ones, and which train.

    A single GPU serves one engine and the trainings. Raises ConfigError if there are too few GPUs.
    """
    gpus = [gpu for gpu in gpus_seen if gpu.name]
    each, engine_gpus = config.gpus_per_engine, config.engines * config.gpus_per_engine
    if not gpus or not engine_gpus:
        return Seats(for_trainings=tuple(gpu.name for gpu in gpus))
    if len(gpus) == 1 and engine_gpus == 1:
        (only,) = gpus
        return Seats((only.name,), (only.name,), SHARE, int(SHARE * only.free_bytes))
    if engine_gpus >= len(gpus):
        raise ConfigError(
            f"{config.engines} engines of {each} GPUs and a trainer need {engine_gpus + 1} GPUs, "
            f"but only {len(gpus)} are visible",
            hint=f"use --engines {max(1, (len(gpus) - 1) // each)} --gpus-per-engine {each}",
        )
    names = [gpu.name for gpu in gpus]
    mine, for_trainings = names[-engine_gpus:], tuple(names[:-engine_gpus])
    split = tuple(",".join(mine[at : at + each]) for at in range(0, engine_gpus, each))
    return Seats(
        split, for_trainings, None, each * min(gpu.free_bytes for gpu in gpus[-engine_gpus:])
    )


def _context(config: RunConfig, model_config: JSON, domain: Domain) -> int:
    window, ceiling = window_of(model_config), domain.ceilings.max_context_tokens
    context_tokens = config.context_tokens or min(window, ceiling)
    if context_tokens > window:
        raise ConfigError(
            f"--context-tokens is {context_tokens:,}, but the model takes at most {window:,}",
            hint=f"use --context-tokens {window}",
        )
    return context_tokens


def _require_room(
    config: RunConfig, place: Path, model_config: dict[str, JSON], context: int, seats: Seats
) -> None:
    """Raises ConfigError if the cache of an engine cannot hold one whole conversation."""
    short = 2 if config.precision == "bfloat16" else 4
    bytes_per_token, what = short * _cached_numbers(model_config), "its cache"
    if seats.devices:
        room = seats.bytes_each - short * shape_of(place).parameters
        what = "its GPU, beside the weights"
    else:
        room = int(os.environ.get(_CPU_CACHE_VARIABLE) or 1) * GIB
    if context * bytes_per_token <= room:
        return
    fits = max(0, room) // bytes_per_token
    raise ConfigError(
        f"a conversation of {context:,} tokens takes {gib(context * bytes_per_token)} of an "
        f"engine, but only {gib(max(0, room))} are free in {what}",
        hint=f"--context-tokens {fits} fits" if fits > 16 else "use a smaller model",
    )


def _cached_numbers(model_config: dict[str, JSON]) -> int:
    """Returns how many numbers the keys and values of one token take in all layers."""
    text = model_config.get("text_config")
    shape = {**model_config, **(text if isinstance(text, dict) else {})}
    try:
        heads = int(shape["num_attention_heads"])
        width = int(shape.get("head_dim") or shape["hidden_size"] // heads)
        pairs = 2 * int(shape.get("num_key_value_heads") or heads)
        return int(shape["num_hidden_layers"]) * pairs * width
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"a size of the model is missing or wrong in its config.json: {error!r}",
            hint="give the folder that save_pretrained wrote",
        ) from error
