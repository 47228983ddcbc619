"""`hf:PATH`: a foreign BPE model trains by the same path, whole or by LoRA."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the train extra")

from meta_agent.core.errors import ConfigError
from meta_agent.policies import training
from meta_agent.policies.training import PolicyChild, TrainJob, TrainSettings, open_checkpoint
from meta_agent.policies.training.handover import hand_over
from tests.models import _bpe, _nano
from tests.training import _host

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _bpe.write(tmp_path_factory.mktemp("hf") / "tiny")


@pytest.mark.parametrize("extra", [{}, {"lora_r": 2, "learning_rate": 0.05}], ids=["full", "lora"])
def test_it_trains_and_the_checkpoint_is_a_policy_like_any_other(
    shared_child: PolicyChild, policy: Path, tmp_path: Path, extra: dict[str, Any]
) -> None:
    base = shared_child.load(f"hf:{policy}")
    metrics: list[Any] = []
    job = TrainJob(_host.RECIPE | extra, steps=2, seed=1, output=tmp_path / "out")
    made = shared_child.train(job, _host.provider(shared_child), metrics.append)
    assert base.startswith("hf@") and made.policy.startswith("hf@") and made.policy != base
    assert [m.step for m in metrics] == [1, 2] and metrics[0].values["grad_norm"] > 0
    assert open_checkpoint(tmp_path / "out").kind == "hf"
    assert (tmp_path / "out" / "adapter_config.json").exists() is ("lora_r" in extra)
    assert shared_child.load(tmp_path / "out") == made.policy
    assert shared_child.generate([_nano.request("k", "fox")])[0].completion_tokens > 0
    shared_child.finish(["k"])


@pytest.mark.parametrize("rank", [0, 2])
def test_in_bfloat16_what_is_trained_is_held_in_float32(
    policy: Path, tmp_path: Path, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file

    monkeypatch.setattr(training.policy, "ROWS_A_FRAME", 3)  # of eight: rows come in parts
    settings = TrainSettings(rank, "bfloat16", 64)
    recipe = _host.RECIPE | ({"lora_r": rank} if rank else {})
    with PolicyChild(threads=1, settings=settings) as child:
        child.load(f"hf:{policy}")
        job = TrainJob(recipe, steps=1, seed=1, output=tmp_path / "out")
        made = child.train(job, _host.provider(child))
        assert child.generate([_nano.request("k", "fox")])[0].completion_tokens > 0
    hand_over(made.path, tmp_path / "whole", [])  # merged, if by adapters
    after, before = (load_file(p / "model.safetensors") for p in (tmp_path / "whole", policy))
    moved = {n: (after[n].float() - value).abs().max().item() for n, value in before.items()}
    assert {str(value.dtype) for value in after.values()} == {"torch.float32"}
    # A step of 1e-3 is nothing to a weight of 0.3 in bfloat16, whose steps there are 1e-3 and more.
    assert 1e-6 < max(moved.values()) < 0.01


def test_training_twice_gives_the_same_bits(
    shared_child: PolicyChild, policy: Path, tmp_path: Path
) -> None:
    made = []
    for name in ("a", "b"):
        shared_child.load(f"hf:{policy}")
        job = TrainJob(_host.RECIPE | {"lora_r": 2}, steps=2, seed=1, output=tmp_path / name)
        made.append(shared_child.train(job, _host.provider(shared_child)).policy)
    assert made[0] == made[1]


def test_a_model_without_a_chat_template_is_refused(
    shared_child: PolicyChild, tmp_path: Path
) -> None:
    path = _bpe.write(tmp_path / "mute")
    (path / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="chat template"):
        shared_child.load(f"hf:{path}")


def _no_config(path: Path) -> None:
    (path / "config.json").unlink()


def _no_tokenizer(path: Path) -> None:
    for file in path.glob("tokenizer*"):
        file.unlink()


def _torn_weights(path: Path) -> None:
    (path / "model.safetensors").write_bytes(b"\x10")


@pytest.mark.parametrize("harm", [_no_config, _no_tokenizer, _torn_weights])
def test_a_folder_that_is_no_model_is_refused_in_a_sentence(
    shared_child: PolicyChild, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = _bpe.write(tmp_path / "harmed")
    harm(path)
    with pytest.raises(ConfigError) as refused:
        shared_child.load(f"hf:{path}")
    told = str(refused.value)
    assert str(path) in told and "\n" not in told and "Traceback" not in told


@pytest.mark.parametrize("harm", [_no_config, _no_tokenizer])
def test_so_is_one_whose_weights_another_engine_holds(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    from meta_agent.policies.training import _local

    path = _bpe.write(tmp_path / "harmed")
    harm(path)
    with pytest.raises(ConfigError, match=r"harmed"):
        _local.speaking(path, TrainSettings(), foreign=True)
