"""Summarises the record of one rollout for the checks that read records, in a few hundred bytes.

Records are long (a real agent's is 100 kB) and two arms hold thousands. So each is read once and
its text dropped.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import NamedTuple

from meta_agent.core.gate.validity._transcripts import conduct_of
from meta_agent.core.protocols import JSON, Rollout


@dataclass(frozen=True, slots=True)
class Look:
    """The summary of one rollout's record: the facts that the validity checks compare."""

    name: str
    task_key: str
    outcome: bool | None
    conduct: tuple[tuple[str, str], ...]  # code, and the words that show it
    submission: bytes  # digest of what was graded; empty where nothing was
    attempt: bytes  # digest of all that a reward may depend on; empty without a reward
    reward: float
    flagged: bool = False


class Regraded(NamedTuple):
    """A stored attempt that was graded again, and whether the grader confirmed its outcome."""

    name: str
    task_key: str
    outcome: bool
    confirmed: bool


def look_of(rollout: Rollout, view: str | None = None) -> Look:
    """Returns the summary of a rollout. `view` is the text of its task as the agent reads it."""
    graded = rollout.outcome is not None and rollout.verifier_inputs
    return Look(
        name=f"{rollout.task_key} sample {rollout.sample_idx} seed {rollout.seed}",
        task_key=rollout.task_key,
        outcome=rollout.outcome,
        conduct=conduct_of(rollout, view) if rollout.outcome else (),
        submission=_digest([rollout.task_key, rollout.verifier_inputs]) if graded else b"",
        attempt=_attempt(rollout),
        reward=round(rollout.total_reward, 9),
        flagged=bool(rollout.flags),
    )


def _attempt(rollout: Rollout) -> bytes:
    """Returns a digest that is equal for attempts with the same messages and the same ending."""
    if not (rollout.rewards and rollout.messages):
        return b""
    ending = [rollout.outcome, rollout.stop_reason, rollout.turns, *rollout.flags]
    return _digest([rollout.task_key, rollout.messages, ending])


def _digest(value: JSON) -> bytes:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
