"""A run's stored attempts at search tasks, as a map of versions against tasks.

Reads the stores of rollouts in a workspace. Attempts at confirm and vault tasks are left out, since
later runs of the workspace still prove their claims on those. A set that is missing, as in a
recording without attempts, is left out too. A page holds at most `MOST_CHARS` of conversations.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.errors import IntegrityError
from meta_agent.core.protocols import Message as Spoken
from meta_agent.core.protocols import Rollout
from meta_agent.core.rollouts import RolloutStore
from meta_agent.reports._format import number, one_line
from meta_agent.reports.sections import Attempt, Attempts, AttemptStatus, Message, TaskRow
from meta_agent.reports.state import RunState

MOST_VERSIONS: Final = 10
MOST_TASKS: Final = 120
MOST_CHARS: Final = 1_500_000
MOST_SETS: Final = 60
_MESSAGE_CHARS: Final = 6_000
_DETAILS: Final = ("score", "feedback")
"""What a page shows of a grader's detail; the rest may hold the answer."""
_CAPTION: Final = (
    "A line is a version, a square a task at the same place in each line, hardest last. A square "
    "leads to the attempts at its task, all versions beside each other. Attempts at confirm and "
    "vault tasks are not shown: later claims need them unseen."
)


class Attempted(NamedTuple):
    """What a page needs of one stored attempt."""

    harness: str
    policy: str
    task: str
    status: AttemptStatus
    words: str
    messages: Sequence[Message]


def attempts_of(state: RunState) -> Attempts:
    """Returns the map of a run's attempts; one without rows if no attempt is stored."""
    by_version: dict[str, dict[str, list[Attempted]]] = defaultdict(lambda: defaultdict(list))
    folder = str(Path(state.workspace) / "rollouts")
    for name in state.course.shards[-MOST_SETS:]:
        for attempt in _read(folder, name):
            by_version[_version(state, attempt)][attempt.task].append(attempt)
    versions = _chosen(by_version)
    prompts = [_common(by_version[version].values()) for version in versions]
    tasks = {task for version in versions for task in by_version[version]}
    order = sorted(tasks, key=lambda task: (-_solved(by_version, versions, task), task))
    rows, room = [], MOST_CHARS
    for task in order[:MOST_TASKS]:
        each = [by_version[version].get(task, []) for version in versions]
        cells = [
            _cell(attempts, len(prompt)) for attempts, prompt in zip(each, prompts, strict=True)
        ]
        room -= sum(_size(attempt) for cell in cells for attempt in cell)
        if room < 0:
            cells = [[attempt._replace(messages=()) for attempt in cell] for cell in cells]
        rows.append(TaskRow(task, _question(each, prompts), cells))
    return Attempts(versions, rows, prompts, _CAPTION)


def _version(state: RunState, attempt: Attempted) -> str:
    """Returns the name of what made an attempt: its harness, and its training if it had one."""
    course = state.course
    name = course.names.get(attempt.harness, attempt.harness[:8])
    steps = course.steps_of.get(attempt.policy)
    return f"{name}, {steps} steps" if steps else name


def _chosen(versions: Iterable[str]) -> list[str]:
    """Returns at most `MOST_VERSIONS` names: the first and the newest."""
    names = list(versions)
    return names if len(names) <= MOST_VERSIONS else [names[0], *names[1 - MOST_VERSIONS :]]


def _solved(
    by_version: Mapping[str, Mapping[str, Sequence[Attempted]]], versions: Sequence[str], task: str
) -> float:
    """Returns how many versions solve a task, each counted by its share of attempts."""
    every = (by_version[version].get(task, ()) for version in versions)
    return sum(
        sum(attempt.status == "solved" for attempt in each) / len(each) for each in every if each
    )


def _cell(attempts: Sequence[Attempted], prompt: int) -> list[Attempt]:
    """Returns the attempts of a cell: the first of each status with its conversation."""
    first = {attempt.status: attempt for attempt in reversed(attempts)}
    return [
        Attempt(
            attempt.status,
            attempt.words,
            attempt.messages[prompt:] if first[attempt.status] is attempt else (),
            place,
        )
        for place, attempt in enumerate(attempts, 1)
    ]


def _common(every: Iterable[Sequence[Attempted]]) -> list[Message]:
    """Returns the messages that all attempts begin with; none if there is one attempt alone."""
    conversations = [attempt.messages for attempts in every for attempt in attempts]
    if len(conversations) < 2:
        return []
    first, shortest = conversations[0], min(map(len, conversations)) - 1
    count = 0
    while count < shortest and all(each[count] == first[count] for each in conversations):
        count += 1
    return list(first[:count])


def _question(cells: Sequence[Sequence[Attempted]], prompts: Sequence[Sequence[Message]]) -> str:
    """Returns the first thing that the first attempt was asked after its prompt, on one line."""
    for cell, prompt in zip(cells, prompts, strict=True):
        questions = (
            text for each in cell for who, text in each.messages[len(prompt) :] if who == "user"
        )
        if question := next(questions, ""):
            return one_line(question, 160)
    return ""


def _size(attempt: Attempt) -> int:
    return sum(len(message.text) for message in attempt.messages)


# --- reading ------------------------------------------------------------------------------------


@lru_cache(maxsize=2 * MOST_SETS)
def _read(folder: str, name: str) -> tuple[Attempted, ...]:
    """Returns the attempts of a stored set; none if it is missing, changed or misnamed."""
    try:
        return tuple(map(_attempted, RolloutStore(Path(folder)).read(name)))
    except (IntegrityError, OSError, ValueError):
        return ()


def _attempted(rollout: Rollout) -> Attempted:
    words = [*rollout.flags]
    if rollout.error:
        words.append(f"{rollout.error.kind}: {rollout.error.detail}")
    if rollout.stop_reason not in ("returned", "submitted"):
        words.append(rollout.stop_reason)
    detail = rollout.outcome_detail
    words += [f"{name} {number(detail[name])}" for name in _DETAILS if name in detail]
    return Attempted(
        rollout.harness_commit,
        rollout.policy,
        rollout.task_key,
        _status(rollout),
        one_line(", ".join(words), 200),
        tuple(_message(message) for message in rollout.messages),
    )


def _status(rollout: Rollout) -> AttemptStatus:
    if rollout.outcome is None:
        return "lost"
    if rollout.flags:
        return "flagged"
    return "solved" if rollout.outcome else "failed"


def _message(message: Spoken) -> Message:
    content = message.get("content")
    parts = [content if isinstance(content, str) else _json(content)] if content else []
    calls = message.get("tool_calls") or []
    for call in calls if isinstance(calls, list) else [calls]:  # a stranger's store may hold any
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            parts.append(f"{function.get('name')}({_json_text(function.get('arguments'))})")
        else:
            parts.append(_json(call))
    text = "\n".join(parts)
    if len(text) > _MESSAGE_CHARS:
        text = f"{text[:_MESSAGE_CHARS]}\n… {len(text) - _MESSAGE_CHARS:,} more characters"
    return Message(str(message.get("role", "?")), text)


def _json_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else _json(arguments)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
