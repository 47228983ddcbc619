"""What a training takes, told from a folder whose weights are never read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.policies.training import TrainSettings
from meta_agent.policies.training.memory import GIB, predict, require_fit, shape_of
from tests.training._shapes import QWEN3_4B, write
from tests.training._shapes import folder as folder

LORA = TrainSettings(16, "bfloat16", 8192)


def test_shapes_come_from_headers(folder: Path) -> None:
    shape = shape_of(folder)
    assert shape.parameters == pytest.approx(4.02e9, rel=0.01)
    assert 16 * shape.adapted == pytest.approx(33e6, rel=0.01), "a rank-16 adapter has 33M numbers"
    assert (shape.attention, shape.window) == ((32 + 2 * 8) * 128, 40_960)


def test_parts_follow_rank_and_precision(folder: Path) -> None:
    shape = shape_of(folder)
    whole = predict(shape, TrainSettings(0, "float32", 8192), row=2000)
    assert whole.weights == whole.gradients == whole.optimizer // 2 == 4 * shape.parameters
    assert (whole.weights + whole.gradients + whole.optimizer) / GIB == pytest.approx(
        59.9, rel=0.01
    )
    small = predict(shape, LORA, row=2000)
    assert small.weights < 0.52 * whole.weights and small.optimizer < whole.optimizer / 100
    assert predict(shape, LORA, row=2000, trained=True).weights > 1.9 * small.weights


def test_ranks_part_what_is_trained_whole(folder: Path) -> None:
    shape = shape_of(folder)
    one = predict(shape, TrainSettings(0, "float32", 8192), row=2000)
    four = predict(shape, TrainSettings(0, "float32", 8192, ranks=4, sharded=True), row=2000)
    assert four.optimizer == one.optimizer // 4
    assert one.weights < four.weights < 1.6 * one.weights, "one more beside it, to sample with"
    assert four.total < 0.7 * one.total
    assert predict(shape, replace(LORA, ranks=4), row=2000) == predict(shape, LORA, row=2000)


def test_activations_are_those_that_were_measured(folder: Path) -> None:
    shape = shape_of(folder)
    told = predict(shape, TrainSettings(0, "float32", 1), row=1)
    layer = told.per_token - 4 * shape.layers * shape.hidden  # without the inputs that are kept
    assert shape.layers * layer / (1 << 20) == pytest.approx(10.28, rel=0.06)


def test_a_frozen_policy_needs_no_memory_for_gradients(folder: Path) -> None:
    shape = shape_of(folder)
    frozen = predict(shape, replace(LORA, trains=False), row=2000)
    trained = predict(shape, LORA, row=2000)
    assert frozen.gradients == frozen.optimizer == 0
    assert 0 < frozen.weights <= trained.weights and frozen.total < trained.total


def test_a_row_longer_than_a_pass_is_one(folder: Path) -> None:
    shape = shape_of(folder)
    short, long = (predict(shape, LORA, row=row).activations for row in (100, 16_384))
    assert long == 2 * short


def test_what_does_not_fit_is_refused_with_what_does(folder: Path) -> None:
    shape, whole = shape_of(folder), TrainSettings(0, "float32", 8192)
    asked = {"row": 2000, "trained": False}
    with pytest.raises(ConfigError) as refused:
        require_fit("hf:x", shape, whole, **asked, available=40 * GIB)
    said, hint = str(refused.value), refused.value.hint or ""
    assert "rows of 2,000 tokens needs " in said and "40.00 GiB are available" in said
    assert "optimizer 29.9" in said and hint.startswith("--lora-rank 16 --precision bfloat16 needs")
    fits = TrainSettings(16, "bfloat16", 8192)
    require_fit("hf:x", shape, fits, **asked, available=40 * GIB)
    with pytest.raises(ConfigError) as refused:
        require_fit("hf:x", shape, whole, row=32_768, trained=True, available=24 * GIB)
    assert "--limits max_context_tokens=8192 --tokens-per-pass 8192 fits" in (
        refused.value.hint or ""
    )
    shorter = TrainSettings(16, "bfloat16", 8192)
    require_fit("hf:x", shape, shorter, row=8192, trained=True, available=24 * GIB)
    with pytest.raises(ConfigError) as refused:
        require_fit("hf:x", shape, whole, **asked, available=GIB)
    assert "nothing here fits" in (refused.value.hint or "")


@pytest.mark.parametrize("name", ["config.json", "a.safetensors"])
def test_a_folder_that_does_not_tell_its_sizes_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_4B))
    write(tmp_path / "a.safetensors", {})
    (tmp_path / name).write_bytes(b"\xff" * 20)
    with pytest.raises(ConfigError, match="cannot be read"):
        shape_of(tmp_path)
