"""How a training's weights come to its engines, spoken to over real sockets."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError, InfrastructureError
from meta_agent.policies.engines.talks import NanoTalks
from meta_agent.policies.fleet import EngineGateway, Fleet, Patience, Served
from meta_agent.policies.training import adapter
from meta_agent.policies.training._wire import TrainSettings, published_folder
from meta_agent.policies.training.serving.publishing import EnginePublisher, served_as
from meta_agent.policies.training.serving.untied import untied
from tests.loopback._engine import LoopbackEngine
from tests.models import _nano

LORA = {"peft_type": "LORA", "r": 8, "bias": "none"}


def write(folder: Path, base: Path | None = None, **more: Any) -> Path:
    """Something like a model or, with a base, an adapter."""
    folder.mkdir(parents=True)
    if base is None:
        (folder / "config.json").write_text('{"tie_word_embeddings": false}')
        return folder
    told = {**LORA, "base_model_name_or_path": str(base), **more}
    (folder / adapter.CONFIG).write_text(json.dumps(told))
    (folder / adapter.WEIGHTS).write_bytes(b"")
    return folder


class Trained:
    """A child that trains, as far as publishing asks it."""

    policy = "hf@1"

    def __init__(self, base: Path | None) -> None:
        self._base = base
        self.settings = TrainSettings(lora_rank=8 if base else 0)

    def write(self, path: Path) -> None:
        write(path, self._base)


class Post:
    """A fleet of one engine and a publisher to it."""

    def __init__(self, place: Path, *, adapters: bool) -> None:
        self.base = write(place / "base")
        self.engines: list[LoopbackEngine] = []
        quick = Patience(poll_sec=0.01, update_sec=30.0)
        self.place = place
        self.fleet = Fleet(self.launch, 1, Served("hf@1", self.base), rank=8, patience=quick)
        self.gateway = EngineGateway(self.fleet, NanoTalks(256), "hf@1", 256)
        child: Any = Trained(self.base if adapters else None)
        self.publisher = EnginePublisher(child, self.fleet, self.gateway, place / "out")

    def launch(self, number: int, weights: Path, rank: int) -> LoopbackEngine:
        self.engines.append(LoopbackEngine(self.place / f"{len(self.engines)}.sock", weights))
        return self.engines[-1]

    def said(self, key: str) -> str:
        return self.gateway.generate([_nano.request(key, key)])[0].content

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in published_folder(self.place / "out").iterdir())


@pytest.fixture(params=[True, False], ids=["adapters", "whole"])
def post(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Post]:
    made = Post(tmp_path, adapters=request.param)
    yield made
    made.fleet.close()


def test_each_step_is_served_by_its_name_and_old_files_go(post: Post) -> None:
    for step in range(4):
        assert post.publisher.publish(step) == post.gateway.policy == f"hf@1+{step}"
        assert post.said(f"at {step}") == str(step)
    assert [name for name in post.files if name != "untied"] == ["2", "3"]
    assert post.publisher.metrics["unpublished"] == 0


@pytest.mark.parametrize("post", [True], ids=["adapters"], indirect=True)
def test_an_adapter_that_is_not_taken_leaves_the_one_before_and_is_counted(post: Post) -> None:
    post.publisher.publish(0)
    post.engines[0].failing.add("/v1/load_lora_adapter")
    assert [post.publisher.publish(step) for step in (1, 2)] == ["hf@1+0"] * 2
    assert post.publisher.metrics["unpublished"] == 2 and post.said("now") == "0"
    with pytest.raises(InfrastructureError, match=r"refused the weights hf@1\+3 3 times in a row"):
        post.publisher.publish(3)


@pytest.mark.parametrize("post", [True], ids=["adapters"], indirect=True)
def test_a_training_does_not_begin_on_weights_of_another(post: Post) -> None:
    post.engines[0].failing.add("/v1/load_lora_adapter")
    with pytest.raises(InfrastructureError, match=r"they serve hf@1$"):
        post.publisher.publish(5)


@pytest.mark.parametrize("post", [False], ids=["whole"], indirect=True)
def test_an_engine_that_dies_starts_on_the_newest_weights(post: Post) -> None:
    post.publisher.publish(0)
    post.publisher.publish(1)
    post.engines[0].die()
    assert post.said("after") in ("", "1")  # lost with it, or made by the next
    assert post.said("later") == "1" and post.engines[1].weights.name == "1"


@pytest.mark.parametrize("odd", [{"use_dora": True}, {"bias": "all"}, {"r": 1024}])
def test_an_adapter_that_vllm_cannot_serve_is_refused(tmp_path: Path, odd: dict[str, Any]) -> None:
    base = write(tmp_path / "base")
    odd_one, plain = write(tmp_path / "odd", base, **odd), write(tmp_path / "plain", base)
    with pytest.raises(ConfigError, match="vLLM"):
        served_as("it", odd_one, adapters=True, scratch=tmp_path)
    assert served_as("it", plain, adapters=True, scratch=tmp_path).rank == 8
    with pytest.raises(ConfigError, match="whole weights"):
        served_as("it", plain, adapters=False, scratch=tmp_path)


def safetensors(path: Path, **tensors: bytes) -> None:
    header, at = {}, 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    head = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(tensors.values()))


def test_a_head_that_shares_the_embeddings_weights_gets_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "tied"
    folder.mkdir()
    (folder / "config.json").write_text('{"tie_word_embeddings": true, "vocab_size": 3}')
    safetensors(
        folder / "model.safetensors", **{"model.norm": b"no", "model.embed_tokens.weight": b"yes"}
    )
    made = untied(folder, tmp_path / "made")
    assert json.loads((made / "config.json").read_bytes()) == {
        "tie_word_embeddings": False,
        "vocab_size": 3,
    }
    assert (made / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    safetensors(tmp_path / "head", **{"lm_head.weight": b"yes"})
    assert (made / "lm_head.safetensors").read_bytes() == (tmp_path / "head").read_bytes()
    assert untied(made, tmp_path / "again") == made
