"""Checkpoints: whole or absent, named by their contents, refused when they changed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from meta_agent.core.errors import ConfigError, IntegrityError
from meta_agent.core.protocols import Checkpoint
from meta_agent.policies.training import OpenedPolicy, open_checkpoint, write_checkpoint


def write(path: Path, weights: bytes = b"weights", seed: int = 1) -> Checkpoint:
    def fill(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(weights)
        (folder / "config.json").write_text("{}")

    return write_checkpoint(path, fill, kind="nano", steps=3, seed=seed)


def test_what_was_written_opens(tmp_path: Path) -> None:
    written = write(tmp_path / "a")
    opened = open_checkpoint(tmp_path / "a")
    assert (opened.policy, opened.kind, opened.steps, opened.seed) == (written.policy, "nano", 3, 1)
    assert written.policy.startswith("nano@") and len(written.policy) == len("nano@") + 12


def test_the_identity_is_that_of_the_contents(tmp_path: Path) -> None:
    same = write(tmp_path / "a", seed=1).policy, write(tmp_path / "b", seed=2).policy
    other = write(tmp_path / "c", weights=b"other").policy
    assert same[0] == same[1] != other


def test_an_hf_policy_is_another_one_where_conversations_are_rendered_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sealed(name: str) -> str:
        fill = lambda folder: (folder / "config.json").write_text("{}")  # noqa: E731
        return write_checkpoint(tmp_path / name, fill, kind="hf", steps=1, seed=0).policy

    before = sealed("a")
    monkeypatch.setattr("meta_agent.policies.training.checkpoint.RENDERING", "messages-2")
    assert sealed("b") != before
    with pytest.raises(
        IntegrityError, match="rendered by the rules messages-1, but the rules are now"
    ):
        open_checkpoint(tmp_path / "a")


def _flip(path: Path) -> None:
    (path / "model.safetensors").write_bytes(b"Weights")


def _lose(path: Path) -> None:
    (path / "config.json").unlink()


def _add(path: Path) -> None:
    (path / "generation_config.json").write_text("{}")


def _rename(path: Path) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["policy"] = "nano@000000000000"
    (path / "manifest.json").write_text(json.dumps(manifest))


def _cut(path: Path) -> None:
    (path / "manifest.json").write_text('{"schema_version": 1, "fil')


def _future(path: Path) -> None:
    (path / "manifest.json").write_text('{"schema_version": 2}')


def _unseal(path: Path) -> None:
    (path / "manifest.json").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_flip, "model.safetensors has changed"),
        (_lose, "config.json is missing"),
        (_add, "generation_config.json is not in the manifest"),
        (_rename, "says that its weights are nano@000000000000"),
        (_cut, "not a manifest"),
        (_future, "schema_version is 2"),
        (_unseal, "not a finished checkpoint"),
    ],
)
def test_a_damaged_checkpoint_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    write(tmp_path / "a")
    damage(tmp_path / "a")
    with pytest.raises(IntegrityError, match=message):
        open_checkpoint(tmp_path / "a")


def test_a_write_that_fails_leaves_no_checkpoint_and_can_be_repeated(tmp_path: Path) -> None:
    def crash(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        write_checkpoint(tmp_path / "a", crash, kind="nano", steps=1, seed=1)
    assert not (tmp_path / "a").exists()
    write(tmp_path / "a")
    open_checkpoint(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


FILLS: Final = """
import subprocess, sys
from pathlib import Path
import numpy as np
from safetensors.numpy import save_file
from meta_agent.core.errors import InfrastructureError
from meta_agent.policies.training import write_checkpoint
place = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", place], check=True)
weights = {"w": np.zeros(1 << 18)}
try:
    write_checkpoint(place / "out", lambda folder: save_file(weights, folder / "model.safetensors"),
                     kind="hf", steps=1, seed=0)
except InfrastructureError as error:
    print(error, error.exit_code, list(place.iterdir()))
"""


@pytest.mark.skipif(
    subprocess.run(["unshare", "-rm", "true"], check=False).returncode != 0,
    reason="needs a mount namespace",
)
def test_a_full_disk_is_a_sentence_and_leaves_room(tmp_path: Path) -> None:
    """What the weights' own writer raises is no OSError."""
    ran = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", FILLS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout == f"the disk that holds {tmp_path}/out is full 5 []\n", ran.stderr


def test_a_checkpoint_is_never_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "a")
    with pytest.raises(IntegrityError, match="exists"):
        write(tmp_path / "a")


def test_a_foreign_directory_opens_only_as_such(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"theirs")
    with pytest.raises(IntegrityError):
        open_checkpoint(tmp_path)
    assert open_checkpoint(tmp_path, foreign=True).policy.startswith("hf@")


def test_a_missing_directory_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no policy at"):
        open_checkpoint(tmp_path / "nowhere")


def test_an_adapter_stands_on_the_base_that_was_read_not_on_what_lies_there_by_then(
    tmp_path: Path,
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text("{}")
    (base / "model.safetensors").write_bytes(b"weights")
    told = {"peft_type": "LORA", "base_model_name_or_path": str(base)}

    def fill(folder: Path) -> None:
        (folder / "adapter_config.json").write_text(json.dumps(told))
        (folder / "adapter_model.safetensors").write_bytes(b"adapter")

    def written(name: str, trained: OpenedPolicy) -> Checkpoint:
        return write_checkpoint(tmp_path / name, fill, kind="hf", steps=1, seed=0, trained=trained)

    on = open_checkpoint(base, foreign=True)
    first = written("a", on)
    assert open_checkpoint(tmp_path / "a").base == on.policy
    (base / "model.safetensors").write_bytes(b"Weights")
    again = [written("b", on), written("c", open_checkpoint(tmp_path / "a", alone=True))]
    assert [one.policy for one in again] == [first.policy] * 2
    with pytest.raises(IntegrityError, match=r"base/model\.safetensors has changed"):
        open_checkpoint(tmp_path / "b")
