"""Decides where trainings run, with which images, and whether they fit, before anything is loaded.

Not covered: a training's memory (`policies.training.memory`) and devices (`.devices` beside it).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from meta_agent.core import registry
from meta_agent.core.config import RunConfig
from meta_agent.core.display import Display
from meta_agent.core.errors import ConfigError
from meta_agent.core.harness import parse_contract
from meta_agent.core.history import HarnessRepo
from meta_agent.core.lab.units import Executor
from meta_agent.core.protocols import Domain
from meta_agent.core.registry import Registry
from meta_agent.executors.cluster import open_cluster
from meta_agent.policies.engine_room import seats_of
from meta_agent.policies.training import TrainSettings
from meta_agent.policies.training.devices import Device, devices
from meta_agent.policies.training.hub import hf_place
from meta_agent.policies.training.memory import Memory, predict, require_fit, shape_of
from meta_agent.sandboxes import BASE_IMAGE, image_ids

TOKENS_PER_PASS: Final = 8192
CPU_TOKENS_PER_PASS: Final = 2048
"""Without a GPU a longer pass is no faster, and it computes more activations twice."""
_HF = "hf:"


class Placing(NamedTuple):
    """How many trainings run at once, and the GPUs that each of their child processes sees."""

    workers: int
    devices: tuple[str, ...] = ()
    """Each child process's CUDA_VISIBLE_DEVICES. If empty, all children see all devices."""
    memory: Memory | None = None
    """Predicted memory of a training on one device; None for a small policy."""


def train_settings(config: RunConfig, gpus: list[Device] | None = None) -> TrainSettings:
    """Returns how a child process loads and trains the policy.

    `gpus` are the devices to plan for; None means those of this machine.
    """
    if not config.policy.startswith(_HF):
        return TrainSettings(corrected=config.engines > 0)
    behind = config.max_staleness
    corrected = behind > 0 or config.engines > 0
    return TrainSettings(
        config.lora_rank,
        config.precision,
        config.tokens_per_pass or _usual_pass(gpus),
        corrected=corrected,
        max_staleness=behind,
        ranks=config.train_gpus,
        sharded=config.train_gpus > 1 and not config.lora_rank,
        trains=config.trainable,
    )


def _usual_pass(gpus: list[Device] | None) -> int:
    has_gpu = any(device.name for device in gpus or devices())
    return TOKENS_PER_PASS if has_gpu else CPU_TOKENS_PER_PASS


def _alone(config: RunConfig, gpus: list[Device] | None = None) -> TrainSettings:
    """Returns the settings of the child that trains. With engines no second child samples."""
    settings = train_settings(config, gpus)
    return replace(settings, max_staleness=0) if config.engines else settings


def threads_of(config: RunConfig) -> int:
    """Returns how many CPU threads one training uses, including a separate sampling process."""
    return config.threads * (config.train_gpus + (1 if _alone(config).max_staleness else 0))


def gpus_of(config: RunConfig) -> int:
    """Returns how many GPUs one training takes with its vLLM servers; 0 without an `hf:` policy.

    A training with only one GPU shares it with a single server.
    """
    if not config.policy.startswith(_HF):
        return 0
    engines = config.engines * config.gpus_per_engine
    return config.train_gpus + (engines if (config.train_gpus, engines) != (1, 1) else 0)


def placing(config: RunConfig, domain: Domain, planned: list[Device] | None = None) -> Placing:
    """Returns how many trainings run at once, and on which devices.

    Raises ConfigError if an `hf:` training does not fit into the memory of the `planned` devices,
    or else of this machine. With another executor, each node checks its own memory.
    """
    if not config.is_local:  # two evaluations would have twice the rollouts under way
        return Placing(1)
    if not config.policy.startswith(_HF):
        return Placing(config.jobs or (1 if config.engines else os.cpu_count()) or 1)
    shape = shape_of(hf_place(config.policy.removeprefix(_HF)))
    row = min(shape.window, domain.ceilings.max_context_tokens)
    trained = config.trainable  # a run trains on from what it trained
    if config.executor != "local":  # each node looks at its own memory (`composition.nodes`)
        return Placing(1, memory=predict(shape, _alone(config), row=row, trained=trained))
    gpus = _for_training(config, planned or devices())
    memory = require_fit(
        config.policy,
        shape,
        _alone(config, planned),
        row=row,
        trained=trained,
        available=_available(gpus, config.train_gpus),
    )
    fitting = [gpu for gpu in gpus if gpu.free_bytes >= memory.total]
    names = [gpu.name for gpu in fitting if gpu.name]
    starts = range(0, len(names) - config.train_gpus + 1, config.train_gpus)
    groups = tuple(",".join(names[at : at + config.train_gpus]) for at in starts)
    places = 1 if config.engines else len(groups) or _places_here(gpus[0], memory, config)
    if groups and (config.jobs or 1) > 1 and config.engines:
        raise ConfigError(
            f"--jobs is {config.jobs}, but the servers of --engines serve one training at a time",
            hint="use --jobs 1, or leave the flag out",
        )
    return Placing(config.jobs or places, groups, memory)


def _for_training(config: RunConfig, gpus: list[Device]) -> list[Device]:
    """Returns the GPUs that engines leave to trainings."""
    seats = seats_of(config, gpus)
    if not seats.devices:
        return gpus
    free = [gpu for gpu in gpus if gpu.name in seats.for_trainings]
    return [
        gpu._replace(free_bytes=gpu.free_bytes - (seats.bytes_each if seats.share else 0))
        for gpu in free
    ]


def _available(gpus: list[Device], count: int) -> int:
    """Returns the least free bytes of the best `count` devices. Raises ConfigError without them."""
    if not gpus[0].name:
        return gpus[0].free_bytes // count
    if len(gpus) < count:
        raise ConfigError(
            f"--train-gpus is {count}, but only {len(gpus)} GPUs are free for trainings",
            hint=f"give --train-gpus {len(gpus)}",
        )
    return sorted((device.free_bytes for device in gpus), reverse=True)[count - 1]


def _places_here(device: Device, memory: Memory, config: RunConfig) -> int:
    """Returns how many trainings fit into the memory and the cores of this machine."""
    cores = (os.cpu_count() or 1) // threads_of(config)
    return max(1, min(device.free_bytes // (memory.total * config.train_gpus), cores))


def images_of(repo: HarnessRepo, backend: str) -> dict[str, str]:
    """Returns the ids of a run's sandbox images by name, so that all machines use the same."""
    image = parse_contract(repo.tree(repo.head())).image
    return image_ids(backend, dict.fromkeys([BASE_IMAGE, *[image] * (image != "base")]))


EXECUTORS: Final = Registry[Callable[..., Executor]](
    "executor", registry.EXECUTORS, {"ray": open_cluster}
)
"""Factories of executors, by name. Each takes an address and the arguments of `open_cluster`."""


def executor_of(
    config: RunConfig,
    run_id: str,
    backend: str,
    images: Mapping[str, str],
    domain: Domain,
    display: Display,
    stopping: Callable[[], bool],
) -> Executor | None:
    """Returns the executor that the settings name, such as a Ray cluster; None for this machine."""
    if config.executor == "local":
        return None
    settings = {
        "config": config.to_json(),
        "run": run_id,
        "backend": backend,
        "images": dict(images),
    }
    name, _, address = config.executor.partition(":")
    return EXECUTORS[name](
        address,
        cpus=threads_of(config),
        gpus=gpus_of(config),
        build="meta_agent.composition.nodes:apparatus",
        settings=settings,
        domain=domain,
        shared=config.workspace / "shared" / run_id,
        tell=display.note,
        stopping=stopping,
    )
