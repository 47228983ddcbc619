"""Attempts by a command, such as a coding agent, that works in a sandbox apart from the task's.

If a harness is a command, its session copies the task's files into that sandbox. When the agent has
ended, the session hands the sandbox over, and the environment collects from it what it grades. A
ceiling that is reached meanwhile first ends the agent and then the row, or the work would be lost.

These calls come from a session on the host. Their kinds are members of an enumeration instead of
text, so that no frame from a sandbox can carry one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from meta_agent.core.capabilities import AwayEnvironment, WitnessEnvironment
from meta_agent.core.chat import AGENT_TOOL
from meta_agent.core.errors import BudgetError, IntegrityError
from meta_agent.core.protocols import Sandbox, ToolEvent
from meta_agent.core.rollouts._attempt import BYTES_PER_TOKEN, Attempt

MAX_OUTPUT_CHARS = 4000


class HostCall(Enum):
    """The kinds of report on a command (a coding agent) that attempts a task in its own sandbox."""

    LEAVE = "leave"  # it starts; answered by `Departure`, or None if the attempt is over
    RETURN = "return"  # it has ended, as an `AgentEnd` says
    LOST = "lost"  # a machine failed, as a detail says


@dataclass(frozen=True, slots=True)
class Departure:
    """What a command gets to attempt a task in its own sandbox: the task's files, and limits."""

    files: Mapping[str, bytes]
    wall_sec: float
    max_turns: int
    max_conversation_bytes: int


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """How an agent's command ended, and the sandbox that holds its work.

    If `sandbox` is None, the task's files are graded as they were at the start.
    """

    argv: tuple[str, ...]
    exit_code: int
    output: str
    sandbox: Sandbox | None
    killed: str = ""  # why the command was killed, if it was
    late: bool = False  # True if its time was up

    @property
    def summary(self) -> str:
        """Returns a text for the rollout's record: exit code, last part of the output."""
        how = f"{self.killed}, " if self.killed else ""
        return f"[{how}exit {self.exit_code}]\n{self.output[-MAX_OUTPUT_CHARS:]}"


def serve(attempt: Attempt, call: Mapping[str, Any]) -> object:
    """Handles a report (`HostCall`) on a command that attempts a task, and returns the answer.

    The answer is the command's `Departure` when it starts, else None.
    """
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
    """Returns the files and limits for a command that now attempts the task in its own sandbox.

    Fails the attempt and returns None if the task's environment does not support commands.
    """
    env: object = attempt.env
    limits = attempt.terms.ceilings
    if not isinstance(env, AwayEnvironment):
        attempt.fail("policy", f"no command can attempt tasks of {attempt.terms.domain.name}")
        return None
    attempt.away = True
    room = limits.max_context_tokens * BYTES_PER_TOKEN
    return Departure(env.start_files(), limits.wall_sec, limits.max_turns, room)


def come_back(attempt: Attempt, end: AgentEnd) -> None:
    """Ends the attempt of a command: records how it ended, collects its work and grades it."""
    event = ToolEvent(
        max(0, attempt.turn - 1),
        AGENT_TOOL,
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
    """Lets the environment read the agent's work from a sandbox; returns False if there is none."""
    env: object = attempt.env
    if isinstance(env, WitnessEnvironment):
        env.saw(attempt.row.messages)
    return isinstance(env, AwayEnvironment) and env.collect(sandbox)
