"""A policy trained by adapters is an adapter of the model that it was given."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the train extra")

from meta_agent.core.errors import ConfigError, IntegrityError
from meta_agent.policies.training import PolicyChild, TrainJob, open_checkpoint
from meta_agent.policies.training.adapter import CONFIG, WEIGHTS, keep
from meta_agent.policies.training.handover import hand_over, hand_over_adapter, room_for
from tests.models import _bpe, _nano
from tests.training import _host

pytestmark = [
    pytest.mark.train,
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # peft reads what transformers renamed
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _bpe.write(tmp_path_factory.mktemp("hf") / "tiny")


@pytest.fixture(scope="module")
def chain(shared_child: PolicyChild, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trainings, the second from what the first made, as a run that trains on."""
    folder = tmp_path_factory.mktemp("chain")
    start: str | Path = f"hf:{base}"
    for number, extra in enumerate(({"lora_r": 2}, {"lora_r": 3, "lora_alpha": 12})):
        shared_child.load(start)
        recipe = _host.RECIPE | extra | {"learning_rate": 0.05}
        job = TrainJob(recipe, steps=2, seed=1, output=folder / str(number))
        shared_child.train(job, _host.provider(shared_child))
        start = folder / str(number)
    return folder


def logits(folder: Path, base: Path | None = None) -> Any:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base or folder, dtype=torch.float32)
    model = PeftModel.from_pretrained(model, str(folder)) if base else model
    with torch.no_grad():
        return model.eval()(torch.arange(3, 23)[None]).logits


def test_the_adapter_on_its_base_is_what_the_whole_weights_are(
    tmp_path: Path, base: Path, chain: Path
) -> None:
    import torch

    for number in ("0", "1"):
        kept = {path.name for path in (chain / number).iterdir()}
        assert kept == {CONFIG, WEIGHTS, "manifest.json"}
        served = hand_over_adapter(chain / number, tmp_path / number, f"hf:{base}", [("a", "b")])
        assert served == (
            f"vllm serve {base} --enable-lora --max-lora-rank 8 "
            f"--lora-modules {number}={tmp_path / number}"
        )
        names = {path.name for path in (tmp_path / number).iterdir()}
        assert names == {CONFIG, WEIGHTS, "README.md"}
        hand_over(chain / number, tmp_path / f"whole-{number}", [])
        apart = logits(tmp_path / number, base)
        assert torch.allclose(apart, logits(tmp_path / f"whole-{number}"), atol=1e-4)
        assert not torch.allclose(apart, logits(base), atol=1e-2), "it was trained"
    card = (tmp_path / "1/README.md").read_text()
    was = open_checkpoint(base, foreign=True).policy
    assert f"**adapter**: LoRA of rank 5 on {base}, which was {was}" in card
    assert f"base_model: {base}" in card and "library_name: peft" in card


def test_an_adapter_is_a_policy_to_start_from(
    shared_child: PolicyChild, tmp_path: Path, base: Path, chain: Path
) -> None:
    import torch

    mine = tmp_path / "mine"
    hand_over_adapter(chain / "0", mine, f"hf:{base}", [])
    identity = shared_child.load(f"hf:{mine}")
    assert shared_child.generate([_nano.request("k", "fox")])[0].completion_tokens > 0
    shared_child.finish(["k"])
    job = TrainJob(_host.RECIPE | {"lora_r": 2}, steps=1, seed=1, output=tmp_path / "on")
    shared_child.train(job, _host.provider(shared_child))
    assert "hf@" not in (tmp_path / "on" / CONFIG).read_text()
    assert not torch.allclose(logits(tmp_path / "on", base), logits(mine, base), atol=1e-2)
    other = shutil.copytree(base, tmp_path / "other")
    _named(mine, str(other))
    assert shared_child.load(f"hf:{mine}") == identity, "equal bases by another path"
    with (other / "model.safetensors").open("r+b") as stream:
        stream.seek(-4, os.SEEK_END)
        stream.write(b"\x00\x00\x00\x40")
    assert shared_child.load(f"hf:{mine}") != identity, "the base is part of what it is"


def _named(folder: Path, base: str | None, **more: Any) -> None:
    told = json.loads((folder / CONFIG).read_text())
    told |= {"base_model_name_or_path": base, **more}
    (folder / CONFIG).write_text(json.dumps(told))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no base": (lambda f: _named(f, None), "does not say which model"),
    "a base that is gone": (lambda f: _named(f, "./gone"), "is an adapter of ./gone"),
    "not LoRA": (lambda f: _named(f, "x", peft_type="IA3"), "of type 'IA3'"),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), f"without {WEIGHTS}"),
    "no json": (lambda f: (f / CONFIG).write_text("{"), "cannot be read"),
    "on itself": (lambda f: _named(f, str(f)), "which is an adapter itself"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_adapter_that_stands_on_nothing_is_a_sentence(
    shared_child: PolicyChild, tmp_path: Path, base: Path, chain: Path, case: str
) -> None:
    harm, words = BROKEN[case]
    mine = tmp_path / "mine"
    hand_over_adapter(chain / "0", mine, f"hf:{base}", [])
    harm(mine)
    with pytest.raises(ConfigError) as refused:
        shared_child.load(f"hf:{mine}")
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_weights_without_an_adapter_hand_none_over(
    shared_child: PolicyChild, tmp_path: Path, base: Path, chain: Path
) -> None:
    shared_child.load(f"hf:{base}")
    job = TrainJob(_host.RECIPE, steps=1, seed=1, output=tmp_path / "whole")
    shared_child.train(job, _host.provider(shared_child))
    with pytest.raises(ConfigError, match="has no adapter") as refused:
        hand_over_adapter(tmp_path / "whole", tmp_path / "out", f"hf:{base}", [])
    assert "--lora-rank" in str(refused.value.hint)
    other = _bpe.write(tmp_path / "other", template=_bpe.FORGETFUL)
    with pytest.raises(ConfigError, match="was trained on hf@"):
        hand_over_adapter(chain / "0", tmp_path / "out", f"hf:{other}", [])
    assert not (tmp_path / "out").exists()


def test_an_adapter_is_kept_as_it_is_without_torch_and_peft(
    tmp_path: Path, base: Path, chain: Path
) -> None:
    program = """
import sys
for name in ("torch", "peft", "transformers", "safetensors"):
    sys.modules[name] = None
from pathlib import Path
from meta_agent.policies.training.handover import hand_over_adapter
hand_over_adapter(Path(sys.argv[1]), Path(sys.argv[2]), f"hf:{sys.argv[3]}", [])
"""
    argv = [sys.executable, "-c", program, str(chain / "0"), str(tmp_path / "a"), str(base)]
    subprocess.run(argv, check=True)
    kept = (tmp_path / "a" / WEIGHTS).read_bytes()
    assert kept == (chain / "0" / WEIGHTS).read_bytes()


def test_an_adapter_of_a_rank_that_no_server_takes_is_not_handed_over() -> None:
    assert [room_for(rank) for rank in (1, 2, 48, 512)] == [1, 8, 64, 512]
    with pytest.raises(ConfigError, match="has rank 513, but vLLM serves at most 512"):
        room_for(513)


def test_the_base_of_a_checkpoint_is_looked_at_by_who_loads_it(
    shared_child: PolicyChild, tmp_path: Path, base: Path, chain: Path
) -> None:
    mine, other = shutil.copytree(chain / "1", tmp_path / "mine"), tmp_path / "other"
    _named(mine, str(shutil.copytree(base, other)))
    known = open_checkpoint(mine)
    assert known.policy == open_checkpoint(chain / "1").policy, "equal bases by another path"
    assert known.base == open_checkpoint(base, foreign=True).policy
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"rope_theta": 1.0}))
    with pytest.raises(IntegrityError, match=r"base/config\.json has changed"):
        shared_child.load(mine)
    shutil.rmtree(other)
    with pytest.raises(
        ConfigError, match=r"is an adapter of .*other, and there is no model folder"
    ):
        shared_child.load(mine)
    assert open_checkpoint(mine, alone=True) == known


def test_two_adapters_are_one_and_what_is_no_sum_is_left(tmp_path: Path, base: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model, earlier = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval(), None
    for rank, alpha in ((2, 4), (3, 12)):
        adapted = get_peft_model(
            model, LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear")
        )
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(weight, std=0.1)
        assert keep(adapted, tmp_path / str(rank), base=str(base), earlier=earlier)
        with torch.no_grad():
            wanted = adapted.eval()(torch.arange(3, 23)[None]).logits
        assert torch.allclose(logits(tmp_path / str(rank), base), wanted, atol=1e-4)
        earlier = tmp_path / str(rank)
        model = adapted.merge_and_unload()
    _named(earlier, str(base), use_dora=True)
    assert not keep(adapted, tmp_path / "none", base=str(base), earlier=earlier)
    assert not any((tmp_path / "none").iterdir())
