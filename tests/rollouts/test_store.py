"""Shards of rollouts: what was written is read, and damage is named."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.errors import IntegrityError
from meta_agent.core.protocols import Rollout, TokenRecord
from meta_agent.core.rollouts import RolloutStore

from ._foreign import ours

TOKENS = TokenRecord([1], [2, 3], [1, 1], [-0.5, -0.25])


def rollouts(count: int) -> Iterator[Rollout]:
    for index in range(count):
        yield ours(0, index, tokens=TOKENS if index % 2 else None)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    ref = store.write("run-1/g1/search", rollouts(5))
    assert ref.count == 5
    assert (tmp_path / ref.path).stat().st_size == ref.bytes
    assert store.read(ref, tokens=True) == list(rollouts(5))
    bare = store.read("run-1/g1/search")
    assert [row.sample_idx for row in bare] == [0, 1, 2, 3, 4]
    assert {row.tokens is None for row in bare} == {True}
    assert store.find("run-1/g1/search") == ref
    assert store.find("run-1/g2") is None
    assert store.names() == ["run-1/g1/search"]


def test_an_empty_shard_is_a_shard(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    ref = store.write("none", [])
    assert (ref.count, ref.tokens, store.read("none", tokens=True)) == (0, None, [])


def test_writing_again_replaces_the_shard_and_the_same_rollouts_make_the_same(
    tmp_path: Path,
) -> None:
    store = RolloutStore(tmp_path)
    first = store.write("a", rollouts(3))
    assert store.write("a", rollouts(3)) == first
    store.write("a", rollouts(2))
    assert len(store.read("a", tokens=True)) == 2
    assert len(list(tmp_path.iterdir())) == 3, "rows, tokens, manifest: nothing of the old shard"


def test_a_write_that_fails_leaves_the_old_shard_and_no_litter(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    store.write("a", rollouts(3))
    before = sorted(path.name for path in tmp_path.iterdir())

    def breaks() -> Iterator[Rollout]:
        yield ours()
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        store.write("a", breaks())
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert len(store.read("a")) == 3


def test_without_its_manifest_a_shard_is_not_there(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    store.write("a", rollouts(3))
    (tmp_path / "a.shard.json").unlink()
    assert store.find("a") is None
    with pytest.raises(IntegrityError, match=r"a\.shard\.json"):
        store.read("a")


@pytest.mark.parametrize("kind", ["rollouts", "tokens"])
@pytest.mark.parametrize("damage", ["flipped byte", "truncated", "missing"])
def test_damage_is_named(tmp_path: Path, kind: str, damage: str) -> None:
    store = RolloutStore(tmp_path)
    store.write("a", rollouts(3))
    (path,) = tmp_path.glob(f"*.{kind}.jsonl.zst")
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(data[:-1])
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    with pytest.raises(IntegrityError, match=path.name):
        next(store.iter("a", tokens=True))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 9}'])
def test_a_broken_manifest_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.shard.json").write_text(text)
    with pytest.raises(IntegrityError, match=r"a\.shard\.json"):
        RolloutStore(tmp_path).read("a")


def test_a_manifest_that_lies_about_the_count_is_caught(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    store.write("a", rollouts(3))
    path = tmp_path / "a.shard.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "count": 4}))
    with pytest.raises(IntegrityError, match="3"):
        store.read("a")


@pytest.mark.parametrize("name", ["", "/etc/x", "a/../b", "a//b", ".hidden", "a b", "a/"])
def test_names_stay_inside_the_store(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError):
        RolloutStore(tmp_path).write(name, [])


def test_streaming_needs_no_more_memory_for_more_rows(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    text = {"role": "tool", "content": "x" * 2000}

    def peak(count: int) -> int:
        store.write("big", (ours(0, i, messages=[text]) for i in range(count)))
        tracemalloc.start()
        for _ in store.iter("big"):
            pass
        high = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return high

    peak(10)
    assert peak(2000) < peak(500) + (1 << 20)
