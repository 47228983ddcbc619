"""A policy that is trained on one's own file: what a run says before it starts is of that file."""

import json
from pathlib import Path

import pytest

from tests.training._shapes import QWEN3_4B, write

from ._command import Runner

SPLITS = {"train": 20, "search": 17, "confirm": 14, "vault": 9}


@pytest.fixture
def sixty(tmp_path: Path) -> Path:
    """Sixty sums, in splits of four sizes."""
    names = [name for name, count in SPLITS.items() for _ in range(count)]
    rows = [
        {"id": f"t{at}", "problem": f"{at}+{at + 1}?", "answer": f"{2 * at + 1}", "split": name}
        for at, name in enumerate(names)
    ]
    file = tmp_path / "sixty.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Sizes of one small layer, without weights: enough to tell what a training takes."""
    place = tmp_path / "model"
    place.mkdir()
    (place / "config.json").write_text(json.dumps({**QWEN3_4B, "num_hidden_layers": 1}))
    write(place / "one.safetensors", {"model.layers.0.q": (4096, 256)})
    return place


def test_the_dry_run_counts_the_files_tasks_and_what_they_can_prove(
    meta_agent: Runner, sixty: Path, model: Path
) -> None:
    words = ("evolve", "--dry-run", "--domain", "math", "--policy", f"hf:{model}")
    told = meta_agent(*words, "--tasks", str(sixty), "--json", cwd=sixty.parent).document
    assert {name: told["plan"][name] for name in SPLITS} == SPLITS
    said = told["estimate"]["effect_assumes"]
    assert "14 confirm tasks" in said and "nano-swe" not in said
    suite = meta_agent("evolve", "--dry-run", "--json", cwd=sixty.parent).document
    assert "nano-swe" in suite["estimate"]["effect_assumes"]
    assert told["estimate"]["smallest_effect"] > 2 * suite["estimate"]["smallest_effect"] > 0
