"""Arms as the ledger stores them, and the rows behind them.

An arm is one side of a comparison. A *shard* is a stored set of rollouts, recorded as `{"name",
"sha256"}`, or as a list of these if attempts were made at several times. If a file differs from the
recorded hash, reading it raises `IntegrityError`.

Not covered: making arms (`live`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from meta_agent.core.errors import IntegrityError
from meta_agent.core.gate import Arm, row_of
from meta_agent.core.harness import parse_contract
from meta_agent.core.protocols import JSON, HarnessTree, Rollout
from meta_agent.core.rollouts import RolloutStore


@dataclass(frozen=True, slots=True)
class ArmRef:
    """A reference to the stored rollouts of an arm (one side of a comparison), by training seed."""

    name: str
    planned: int
    reward_hash: str
    shards: Mapping[int, JSON]

    def to_json(self) -> JSON:
        return {
            "name": self.name,
            "planned": self.planned,
            "reward_hash": self.reward_hash,
            "shards": {str(seed): shard for seed, shard in self.shards.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> ArmRef:
        shards = {int(seed): shard for seed, shard in data["shards"].items()}
        return cls(data["name"], data["planned"], data["reward_hash"], shards)


def parts_of(shard: JSON) -> list[JSON]:
    """Returns the references to the files of `shard`, a stored set of rollouts."""
    return list(shard) if isinstance(shard, list) else [shard]


def load_shard(store: RolloutStore, shard: JSON, *, tokens: bool = False) -> list[Rollout]:
    """Returns the rollouts of a `shard`, a stored set. Raises IntegrityError if a file differs."""
    parts = parts_of(shard)
    return [rollout for part in parts for rollout in iter_shard(store, part, tokens=tokens)]


def iter_shard(store: RolloutStore, part: JSON, *, tokens: bool = False) -> Iterator[Rollout]:
    """Yields the rollouts of the file `part` (name, hash). Raises IntegrityError if it differs."""
    shard = store.find(part["name"])
    if shard is None or shard.sha256 != part["sha256"]:
        actual = f"have sha256 {shard.sha256[:12]}" if shard else "are missing"
        raise IntegrityError(
            f"the rollouts {part['name']} {actual}, but the ledger recorded them with sha256 "
            f"{part['sha256'][:12]}",
            hint="restore the workspace from a copy, or start a new one with --workspace DIR",
        )
    return store.iter(shard, tokens=tokens)


def load_arm(store: RolloutStore, ref: ArmRef) -> Arm:
    """Returns the outcome rows of an arm (one side of a comparison), from its stored rollouts."""
    rows = {
        seed: tuple(row_of(rollout, training_seed=seed) for rollout in load_shard(store, shard))
        for seed, shard in ref.shards.items()
    }
    return Arm(ref.name, rows, ref.planned, ref.reward_hash)


def behaviour_hash(tree: HarnessTree) -> str:
    """Returns a hash of a harness without its diagnostics (metrics), which change no attempt."""
    watching = set(parse_contract(tree).files_of("diagnostics", tree))
    return _digest(tree, (path for path in tree.files if path not in watching))


def reward_hash(tree: HarnessTree) -> str:
    """Returns a hash of the reward code, so that rewards on different scales are never compared."""
    return _digest(tree, parse_contract(tree).files_of("reward", tree))


def _digest(tree: HarnessTree, paths: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.encode() + b"\0" + hashlib.sha256(tree.files[path]).digest())
    return digest.hexdigest()
