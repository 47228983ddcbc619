"""Attempts that are made away from the task's environment, by an agent in a sandbox of its own.

A session whose harness is a command stages the task's files there, and hands the sandbox over when
the agent has ended; the environment takes what it grades from it. A ceiling that is reached on the
way ends the agent first and the row afterwards, or the work would be lost.

These calls come from a session on the host. Their kinds are members of an enumeration and not
text, so that no frame of a sandbox can carry one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from meta_agent.core.capabilities import AwayEnvironment, WitnessEnvironment
from meta_agent.core.errors import BudgetError, IntegrityError
from meta_agent.core.protocols import Sandbox, ToolEvent
from meta_agent.core.rollouts._attempt import BYTES_PER_TOKEN, Attempt

MAX_OUTPUT_CHARS = 4000


class HostCall(Enum):
    """What a session on the host may ask of an attempt, beside what a guest may."""

    LEAVE = "leave"  # answered by `Departure`, or None where the attempt is over
    RETURN = "return"  # with an `AgentEnd`: the row gets its ending
    LOST = "lost"  # with a detail: machines failed


@dataclass(frozen=True, slots=True)
class Departure:
    """What an agent takes along."""

    files: Mapping[str, bytes]
    wall_sec: float
    max_turns: int
    max_conversation_bytes: int


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """How a command ended. Without a sandbox there is nothing left to grade but the start."""

    argv: tuple[str, ...]
    exit_code: int
    output: str
    sandbox: Sandbox | None
    killed: str = ""  # why it did not end by itself
    late: bool = False  # because its time was up

    @property
    def summary(self) -> str:
        """For the record: one line and the end of its output."""
        how = f"{self.killed}, " if self.killed else ""
        return f"[{how}exit {self.exit_code}]\n{self.output[-MAX_OUTPUT_CHARS:]}"


def serve(attempt: Attempt, call: Mapping[str, Any]) -> object:
    """Answers a call of the host's own session."""
    if attempt.over:
        return None
    if call["kind"] is HostCall.LEAVE:
        return leave(attempt)
    if call["kind"] is HostCall.RETURN:
        come_back(attempt, call["end"])
    else:
        attempt.fail("infra", str(call["detail"]))
    return None


def leave(attempt: Attempt) -> Departure | None:
    """The files to start from. An environment that cannot be left is the harness's mistake."""
    env: object = attempt.env
    limits = attempt.terms.ceilings
    if not isinstance(env, AwayEnvironment):
        attempt.fail("policy", f"tasks of {attempt.terms.domain.name} are not for command agents")
        return None
    attempt.away = True
    room = limits.max_context_tokens * BYTES_PER_TOKEN
    return Departure(env.start_files(), limits.wall_sec, limits.max_turns, room)


def come_back(attempt: Attempt, end: AgentEnd) -> None:
    """Takes the work in, notes how the agent ended, and gives the row its ending."""
    event = ToolEvent(
        max(0, attempt.turn - 1),
        "agent",
        {"command": " ".join(end.argv)[:500]},
        end.summary,
        end.exit_code == 0,
    )
    attempt.row.tool_events.append(event)
    try:
        brought = end.sandbox is not None and collected(attempt, end.sandbox)
    except (BudgetError, IntegrityError):
        raise
    except Exception as error:
        attempt.fail("infra", f"collect: {type(error).__name__}: {error}")
        return
    attempt.away = False
    if end.late and attempt.ending is None:
        attempt.ending = "wall_limit"
    attempt.done = brought and end.exit_code == 0
    if attempt.ending is None and not brought and end.exit_code != 0:
        attempt.fail("policy", f"the agent {end.summary}")
    else:
        attempt.end({"err": None})


def collected(attempt: Attempt, sandbox: Sandbox) -> bool:
    """Whether the environment found anything to grade."""
    env: object = attempt.env
    if isinstance(env, WitnessEnvironment):
        env.saw(attempt.row.messages)
    return isinstance(env, AwayEnvironment) and env.collect(sandbox)
