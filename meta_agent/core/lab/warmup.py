"""Rows of a warm-up: clean successes at training tasks, which a policy imitates before it explores.

An attempt of the run is graded again by what its environment recorded. A row of a file is played
again in the task's environment, which grades it, so that no file can state a success. A row of any
split but `train` is left out. The reference of a training task is rendered by the harness itself:
it runs with a gateway that replies with the reference, and the grader decides.

Not covered: agents that are programs, whose work leaves no tool calls to play again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from meta_agent.core.capabilities import Capabilities, WitnessEnvironment
from meta_agent.core.harness import HarnessSession
from meta_agent.core.lab.arms import iter_shard
from meta_agent.core.lab.measured import LabSettings
from meta_agent.core.protocols import (
    JSON,
    Domain,
    GenerateReply,
    GenerateRequest,
    Outcome,
    PlannedRollout,
    Rollout,
    Task,
    TokenRecord,
)
from meta_agent.core.rollouts import RolloutStore, Runner, Stamp

MOST_ROWS: Final = 512
NEAR_ZERO: Final = 0.1
"""A run offers its own successes for a warm-up only below this share of clean success."""
_ROWS: Final = "rows"


def clean_successes(
    domain: Domain, rollouts: Iterable[Rollout], *, replay: bool
) -> tuple[list[Rollout], dict[str, int]]:
    """Returns the rollouts that solve a training task cleanly, and counts the others by reason.

    The domain grades each again. With `replay` it plays a rollout's tool calls again for that, and
    trusts nothing else that the rollout says.
    """
    task_of, rows, left_out = _Tasks(domain), list[Rollout](), Counter[str]()
    for rollout in rollouts:
        task = task_of(rollout)
        full = len(rows) == MOST_ROWS
        reason = _fault(domain, rollout, task, replay=replay, full=full)
        if reason or task is None:
            left_out[reason] += 1
            continue
        rows.append(rollout if not replay else _as_attempt(rollout, task))
    return rows, dict(left_out)


def _as_attempt(rollout: Rollout, task: Task) -> Rollout:
    """Returns a row of a file as an attempt at a task, with the tools that the task offers."""
    facts: dict[str, Any] = {"domain": task.domain, "split": "train", "outcome": True}
    detail = {**rollout.outcome_detail, "schemas": task.view.get("schemas")}
    facts |= {"task_key": task.key, "task_hash": task.content_hash, "outcome_detail": detail}
    return replace(rollout, tokens=None, **facts)


class _References:
    """A gateway that answers an attempt's first call with a reply that solves its task."""

    policy, lock_step = "references", True

    def __init__(self, replies: Mapping[str, str]) -> None:
        self._replies = replies
        self.asked: dict[str, JSON] = {}
        """What a warm-up has to know of an attempt's first call, by task."""

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        return [self._reply(request) for request in requests]

    def _reply(self, request: GenerateRequest) -> GenerateReply:
        if request.turn:
            return GenerateReply("", "stop", 0, 0)
        facts = {"schemas": request.tools, "prompt_messages": len(request.messages)}
        self.asked[request.task_key] = facts
        return GenerateReply(self._replies[request.task_key], "stop", 0, 0)

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        return [None] * len(keys)


def references(
    domain: Domain, session: HarnessSession, stamp: Stamp, most: int = MOST_ROWS
) -> list[Rollout]:
    """Returns up to `most` references of training tasks as clean attempts under a harness.

    A reference is left out if the harness or the grader makes something else of it.
    """
    solve, tasks = Capabilities.of(domain).solution, domain.tasks("train")
    solutions = ((task, pair[1]) for task in tasks if (pair := solve(task.key)))
    replies = list(islice(solutions, most))
    gateway = _References({task.key: reply for task, reply in replies})
    plan = [PlannedRollout(task, 0, 0, f"train/{task.key}") for task, _ in replies]
    rows = Runner(domain, session, gateway, stamp).run(plan) if plan else []
    return [
        replace(row, outcome_detail={**row.outcome_detail, **gateway.asked[row.task_key]})
        for row in rows
        if row.clean and row.turns == 1
    ]


def write_rows(settings: LabSettings, rows: Iterable[Rollout]) -> str:
    """Stores the rollouts that a run's warm-ups imitate and returns their file's SHA-256."""
    return _store(settings).write(_ROWS, rows).sha256


def read_rows(settings: LabSettings, sha256: str) -> list[Rollout]:
    """Returns stored warm-up rollouts with tokens. Raises IntegrityError if the hash differs."""
    part: JSON = {"name": _ROWS, "sha256": sha256}
    return list(iter_shard(_store(settings), part, tokens=True))


def _store(settings: LabSettings) -> RolloutStore:
    """Returns the store beside the run's checkpoints, where a node of a cluster finds it too."""
    return RolloutStore(settings.checkpoints / settings.run / "warmup")


class _Tasks:
    """Finds the training task of a rollout: by its key, or by the text of its first request."""

    def __init__(self, domain: Domain) -> None:
        self._by_key = {task.key: task for task in domain.tasks("train")}
        texts = [(text, task) for task in self._by_key.values() for text in _texts(task.view)]
        counts = Counter(text for text, _ in texts)
        self._by_text = {text: task for text, task in texts if counts[text] == 1}

    def __call__(self, rollout: Rollout) -> Task | None:
        requests = (m for m in rollout.messages if m["role"] == "user")
        text = str(next(requests, {"content": ""})["content"]).strip()
        return self._by_key.get(rollout.task_key) or self._by_text.get(text)


def _texts(view: Mapping[str, JSON]) -> Iterator[str]:
    yield from (value.strip() for value in view.values() if isinstance(value, str))


def _fault(domain: Domain, rollout: Rollout, task: Task | None, *, replay: bool, full: bool) -> str:
    """Returns why a rollout is no row, or ""."""
    if task is None:
        return "not of a training task"
    if not any(message["role"] == "assistant" for message in rollout.messages):
        return "without a reply"
    if full:
        return f"above the limit of {MOST_ROWS}"
    if not (replay or rollout.outcome):
        return "not solved"
    inputs = {} if replay else rollout.verifier_inputs
    graded = domain.regrade(task.key, inputs) if inputs else _replayed(domain, rollout, task)
    if not graded.success:
        return "not solved"
    return "flagged" if graded.flags or rollout.flags else ""


def _replayed(domain: Domain, rollout: Rollout, task: Task) -> Outcome:
    """Plays a rollout's tool calls again and grades the end. Its last words are its answer."""
    replies = [m for m in rollout.messages if m["role"] == "assistant" and m.get("content")]
    flags, done = set[str](), False
    with closing(domain.open(task)) as environment:
        calls = [(event.tool, event.arguments) for event in rollout.tool_events]
        if replies and "submit" not in (tool for tool, _ in calls):
            calls.append(("submit", {"answer": replies[-1]["content"]}))
        for tool, arguments in calls:
            if tool in environment.tools and not done:
                result = environment.call(tool, arguments)
                done, flags = result.done, flags | set(result.flags)
        if isinstance(environment, WitnessEnvironment):
            environment.saw(rollout.messages)
        outcome = environment.grade()
    return replace(outcome, flags=(*outcome.flags, *sorted(flags)))
