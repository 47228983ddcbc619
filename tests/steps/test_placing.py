"""How many trainings run side by side, and where."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.composition import placing
from meta_agent.composition.forecast import forecast
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.policies.engine_room import seats_of
from meta_agent.policies.training.devices import Device, planned
from meta_agent.policies.training.memory import GIB
from tests.training._shapes import folder as folder

LORA = {"lora_rank": 16, "precision": "bfloat16", "threads": 1}


def placed(
    monkeypatch: pytest.MonkeyPatch, policy: str, found: list[Device], row: int = 128, **more: Any
) -> placing.Placing:
    monkeypatch.setattr(placing, "devices", lambda: found)
    monkeypatch.setattr(placing.os, "cpu_count", lambda: 16)
    domain: Any = SimpleNamespace(ceilings=SimpleNamespace(max_context_tokens=row))
    return placing.placing(RunConfig(policy=policy, **more), domain)


def test_a_gpu_holds_one_training(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    found = [Device("0", 80 * GIB), Device("1", 4 * GIB), Device("3", 80 * GIB)]
    one = placed(monkeypatch, f"hf:{folder}", found, **LORA)
    assert (one.workers, one.devices) == (2, ("0", "3")), "a full one is left alone"
    assert placed(monkeypatch, f"hf:{folder}", found, jobs=1, **LORA).workers == 1


def test_a_training_may_take_several_gpus(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    found = [Device(str(at), 80 * GIB) for at in range(5)]
    two = placed(monkeypatch, f"hf:{folder}", found, train_gpus=2, **LORA)
    assert (two.workers, two.devices) == (2, ("0,1", "2,3"))
    with pytest.raises(ConfigError, match=r"--train-gpus.* 8.* 5 "):
        placed(monkeypatch, f"hf:{folder}", found, train_gpus=8, **LORA)
    here = placed(monkeypatch, f"hf:{folder}", [Device("", 80 * GIB)], train_gpus=2, **LORA)
    assert here.memory and here.workers == 80 * GIB // (2 * here.memory.total)


@pytest.mark.parametrize(
    ("engines", "each", "trains", "gpus"),
    [(0, 1, 1, 1), (0, 1, 2, 2), (1, 1, 1, 1), (1, 1, 2, 3), (4, 1, 1, 5), (1, 2, 1, 3)],
)
def test_a_node_gives_a_unit_the_gpus_of_its_engines_too(
    engines: int, each: int, trains: int, gpus: int, folder: Path
) -> None:
    wanted: Any = {"engines": engines, "gpus_per_engine": each, "train_gpus": trains}
    config = RunConfig(policy=f"hf:{folder}", executor="ray", **wanted)
    assert placing.gpus_of(config) == gpus
    seats = seats_of(config, [Device(str(at), 80 * GIB) for at in range(gpus)])
    assert len(seats.for_trainings) >= trains, "what the node sees is enough"


def test_a_machine_holds_what_its_memory_does(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    one = placed(monkeypatch, f"hf:{folder}", [Device("", 80 * GIB)], **LORA)
    assert one.memory and one.workers == 80 * GIB // one.memory.total > 1
    assert one.devices == ()
    many = placed(monkeypatch, f"hf:{folder}", [Device("", 8000 * GIB)], **{**LORA, "threads": 4})
    assert many.workers == 4, "sixteen cores, four threads each"


def test_a_training_with_rollouts_ahead_has_two_children(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    found = [Device("", 8000 * GIB)]
    alone, beside = (
        placed(monkeypatch, f"hf:{folder}", found, max_staleness=most, **LORA) for most in (0, 1)
    )
    assert (alone.workers, beside.workers) == (16, 8)
    assert alone.memory and beside.memory and beside.memory.engine == alone.memory.weights
    assert beside.memory.total == alone.memory.total + alone.memory.weights
    config = RunConfig(policy=f"hf:{folder}", max_staleness=1, **LORA)
    assert placing.train_settings(config).corrected
    assert placing.train_settings(RunConfig(max_staleness=1)).max_staleness == 0, "nano is alone"


def test_what_fits_nowhere_is_refused(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    with pytest.raises(ConfigError, match="30,000"):
        placed(monkeypatch, f"hf:{folder}", [Device("0", 10 * GIB)], row=30_000, **LORA)


def test_the_memory_of_nodes_is_not_that_of_the_driver(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    far = placed(monkeypatch, f"hf:{folder}", [Device("", GIB)], executor="ray", **LORA)
    assert far.memory and far.memory.total > GIB
    with pytest.raises(ConfigError):
        placed(monkeypatch, f"hf:{folder}", [Device("", GIB)], **LORA)


def test_the_page_says_what_a_run_asks_for(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/cluster.md").read_text("utf-8")
    sizes = re.search(r"([\d.]+) GiB at rows of 16k, ([\d.]+) GiB at 32k", page)
    assert sizes
    for size, row in zip(sizes.groups(), (16_384, 32_768), strict=True):
        found = [Device("0", 80 * GIB)]
        training = placed(monkeypatch, f"hf:{folder}", found, row, tokens_per_pass=16_384, **LORA)
        assert training.memory and f"{training.memory.total / GIB:.1f}" == size


def test_a_laptop_plans_for_another_machine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(placing, "devices", lambda: [Device("", GIB)])
    domain: Any = SimpleNamespace(ceilings=SimpleNamespace(max_context_tokens=128))
    config = RunConfig(policy=f"hf:{folder}", **LORA)
    place = placing.placing(config, domain, planned("2xH100"))
    assert place.devices == ("0", "1")
    with pytest.raises(ConfigError, match=r"4\.75 GiB"):
        placing.placing(config, domain, planned("5gib"))


@pytest.mark.parametrize("settings", [{}, {"policy": "hf:x", "executor": "ray"}])
def test_a_run_without_use_for_planned_gpus_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="--for"):
        forecast(RunConfig(**settings), planned("h100"))
