"""Lower ceilings on stored rollouts: what a limit on turns or tokens would have cut.

A lower ceiling can be replayed, since what happened before it happened either way: the record ends
there, and so does the attempt. A cut attempt counts as not solved; where the grader judges the
state an attempt was left in, some may have been solved by then, so the loss is *at most* what is
reported. What an attempt would have done with the fewer turns, had it known, nobody can say.

A higher ceiling cannot be replayed at all: attempts that ended at a limit are counted as unknown.
Tokens are known by attempt, not by turn: a limit on them cuts at the share of the turns that fits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.lab.cell_records import shortened
from meta_agent.core.protocols import JSON
from meta_agent.core.replay._lines import Slim

AT_A_LIMIT: Final = frozenset({"turn_limit", "token_limit", "length", "wall_limit"})
LIMIT: Final = (
    "a lower ceiling only: what the attempts that ended at a limit would have done with more is "
    "not stored, and a policy that knows of a limit acts otherwise"
)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Limits to try. `max_tokens` counts what the policy wrote in the whole attempt."""

    max_turns: int | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("turns", self.max_turns), ("tokens", self.max_tokens)):
            if value is not None and value < 1:
                raise ConfigError(f"--max-{name} {value}: a ceiling is at least 1")

    def turns_left(self, record: Slim) -> int | None:
        """How many turns of the attempt remain; None where it stays whole."""
        turns = record.turns
        if self.max_turns is not None:
            turns = min(turns, self.max_turns)
        if self.max_tokens is not None and record.tokens > self.max_tokens:
            turns = min(turns, int(record.turns * self.max_tokens / record.tokens))
        return turns if turns < record.turns else None

    def cut(self, record: Slim) -> Slim:
        """The record under the ceiling; the very same where it is not touched."""
        turns = self.turns_left(record)
        if turns is None:
            return record
        by_turns = self.max_turns is not None and turns == self.max_turns
        stop = "turn_limit" if by_turns else "token_limit"
        whole = shortened(json.loads(record.line), turns, stop)
        whole |= {"outcome": False, "rewards": {}, "advantage": None}
        line = json.dumps(whole, separators=(",", ":")).encode() + b"\n"
        return record._replace(
            line=line, outcome=False, clean=False, turns=turns, stop_reason=stop, rewards={}
        )


@dataclass(slots=True)
class Cut:
    """What a ceiling did to a stream of records."""

    ceiling: Ceiling
    attempts: int = 0
    cut: int = 0
    clean: int = 0
    clean_cut: int = 0
    at_a_limit: int = 0  # ended at a limit already: with a higher one, nobody knows
    longest: int = 0
    turns: int = 0
    turns_left: int = 0

    def add(self, before: Slim, after: Slim) -> None:
        self.attempts += 1
        self.clean += before.clean
        self.at_a_limit += before.stop_reason in AT_A_LIMIT
        self.longest = max(self.longest, before.turns)
        self.turns += before.turns
        self.turns_left += after.turns
        if after is not before:
            self.cut += 1
            self.clean_cut += before.clean

    def to_json(self) -> dict[str, JSON]:
        return {
            "max_turns": self.ceiling.max_turns,
            "max_tokens": self.ceiling.max_tokens,
            "attempts": self.attempts,
            "cut": self.cut,
            "clean": self.clean,
            "clean_lost_at_most": self.clean_cut,
            "turns_saved": self.turns - self.turns_left,
            "turns": self.turns,
            "longest_turns": self.longest,
            "ended_at_a_limit": self.at_a_limit,
            "unknowable": self._unknowable(),
            "limit": LIMIT,
        }

    def _unknowable(self) -> str | None:
        """Returns why nothing can be said if no attempt has more turns than the ceiling."""
        max_turns = self.ceiling.max_turns
        if self.cut or max_turns is None or max_turns < self.longest:
            return None
        return (
            f"no attempt has more than {self.longest} turns; what {self.at_a_limit} of "
            f"{self.attempts} that ended at a limit would have done with {max_turns} cannot be "
            "known"
        )
