"""Whether the engines of a run can be had, and where."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.policies import engine_room as engines
from meta_agent.policies.fleet.launch import processors
from meta_agent.policies.training.devices import Device
from meta_agent.policies.training.memory import GIB

GPUS = [Device(name, 80 * GIB) for name in "01234567"]


def seats(found: list[Device], count: int, each: int = 1) -> engines.Seats:
    return engines.seats_of(RunConfig(engines=count, gpus_per_engine=each), found)


def test_engines_take_the_last_gpus_and_trainings_the_rest() -> None:
    assert seats(GPUS, 3, 2)[:2] == (("2,3", "4,5", "6,7"), ("0", "1"))
    assert seats(GPUS, 0).for_trainings == tuple("01234567")
    assert seats([Device("", GIB)], 2).devices == ()  # the CPU's


def test_one_gpu_is_shared() -> None:
    only = seats(GPUS[:1], 1)
    assert only[:3] == (("0",), ("0",), engines.SHARE) and only.bytes_each == int(36 * GIB)


@pytest.mark.parametrize(("found", "count", "each"), [(2, 2, 1), (8, 4, 2)])
def test_engines_that_leave_no_gpu_to_train_on_are_refused(
    found: int, count: int, each: int
) -> None:
    with pytest.raises(ConfigError, match=rf"{count * each + 1} .*{found} "):
        seats(GPUS[:found], count, each)


@pytest.mark.parametrize(("count", "found", "threads"), [(4, 2, "1"), (2, 8, "4"), (1, 8, None)])
def test_engines_without_gpus_share_the_processors(
    monkeypatch: pytest.MonkeyPatch, count: int, found: int, threads: str | None
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert processors(count, found).get("OMP_NUM_THREADS") == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert processors(count, found) == {}, "who set it has decided"


MODEL = {
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
}


def opened(
    monkeypatch: pytest.MonkeyPatch, folder: Path, found: list[Device], **more: Any
) -> engines.Engines | None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(MODEL))
    monkeypatch.setattr(engines, "require_vllm", lambda: "python")
    monkeypatch.setattr(engines, "devices", lambda: found)
    monkeypatch.setattr(engines, "shape_of", lambda _: SimpleNamespace(parameters=4_000_000_000))
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    config = RunConfig(policy=f"hf:{folder}", **{"engines": 1, "precision": "float32", **more})
    domain: Any = SimpleNamespace(ceilings=SimpleNamespace(max_context_tokens=32_768))
    return engines.engines_for(config, config.policy, domain, folder)


def test_a_context_that_the_model_was_not_made_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="40,960") as refused:
        opened(monkeypatch, tmp_path / "m", GPUS, context_tokens=65_536)
    assert "--context-tokens 40960" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("found", "fits"), [([Device("", 64 * GIB)], 3640), ([Device("0", 40 * GIB)], 11_282)]
)
def test_a_context_that_an_engine_cannot_hold_is_refused_with_one_that_fits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: list[Device], fits: int
) -> None:
    with pytest.raises(ConfigError, match=r"32,768 .*9\.00 GiB") as refused:
        opened(monkeypatch, tmp_path / "m", found)
    assert f"--context-tokens {fits}" in str(refused.value.hint)
    made = opened(monkeypatch, tmp_path / "m", found, context_tokens=fits)
    assert made is not None and made.context_tokens == fits
