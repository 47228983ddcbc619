"""Rollouts (attempts at tasks): their record, the runner that makes them, the store on disk."""

from meta_agent.core.rollouts._attempt import Stamp
from meta_agent.core.rollouts.record import (
    from_json,
    to_json,
    to_line,
    tokens_from_json,
    tokens_to_json,
)
from meta_agent.core.rollouts.runner import GRACE_SEC, Runner
from meta_agent.core.rollouts.store import RolloutStore, ShardRef

__all__ = [
    "GRACE_SEC",
    "RolloutStore",
    "Runner",
    "ShardRef",
    "Stamp",
    "from_json",
    "to_json",
    "to_line",
    "tokens_from_json",
    "tokens_to_json",
]
