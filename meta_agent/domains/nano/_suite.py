"""What the nano suites share: a domain of generated problems, and one attempt at a problem.

`evaluator_hash` changes with anything that could change a measurement: problems, splits, tools,
graders, sampling, ceilings.

Not covered: keeping a harness from *offering* a tool that shows the answer; that is conduct, and
the gate judges it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any, Final, Protocol

from meta_agent.core.protocols import (
    JSON,
    SPLITS,
    Ceilings,
    Outcome,
    Sampling,
    Split,
    Task,
    ToolResult,
)

SAMPLING: Final = Sampling(temperature=1.0, top_p=1.0)
NO: Final = ToolResult("no", ok=False)
DONE: Final = ToolResult("done", done=True)


class Problem(Protocol):
    """A problem of a suite, with its answer: it never leaves the domain."""

    @property
    def key(self) -> str: ...

    @property
    def split(self) -> Split: ...

    @property
    def content_hash(self) -> str: ...


class NanoAttempt:
    """One attempt. Tools answer in one short line; what they refuse, they answer with `no`."""

    tools: Sequence[str] = ()

    def __init__(self, problem: Any) -> None:
        self._problem = problem
        self._submitted = False

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        if self._submitted or tool not in self.tools:
            return ToolResult("no", ok=False, done=self._submitted)
        result = self._use(tool, arguments)
        self._submitted = result.done
        return result

    def grade(self) -> Outcome:
        return self.graded(self._problem, self.verifier_inputs())

    def close(self) -> None:
        """Nothing is held: an attempt is one string in memory."""

    def _use(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        raise NotImplementedError

    def verifier_inputs(self) -> dict[str, JSON]:
        raise NotImplementedError

    @staticmethod
    def graded(problem: Any, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        """Grades what was submitted. Inputs are stored data: nothing is trusted."""
        raise NotImplementedError


class NanoDomain:
    """A suite of generated problems with an exact grader."""

    name: str
    ceilings: Ceilings
    sampling = SAMPLING
    attempt: type[NanoAttempt]
    sealed: tuple[str, ...]
    """The suite's source files that decide a measurement."""

    def __init__(self, problems: Mapping[Split, Sequence[Problem]] | None = None) -> None:
        suite: Any = type(self)
        self.evaluator_hash = _evaluator_hash(suite)
        self._splits = problems or {split: self.problems(split) for split in SPLITS}
        self._by_key = {p.key: p for split in self._splits.values() for p in split}

    @staticmethod
    def problems(split: Split) -> Sequence[Problem]:
        """Returns the problems of a split."""
        raise NotImplementedError

    @staticmethod
    def view(problem: Any) -> dict[str, JSON]:
        """Returns what an agent sees of a problem."""
        raise NotImplementedError

    def tasks(self, split: Split) -> Sequence[Task]:
        return [
            Task(self.name, p.key, p.split, p.content_hash, self.view(p))
            for p in self._splits.get(split, ())
        ]

    def open(self, task: Task) -> Any:
        return self.attempt(self._by_key[task.key])

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        return self.attempt.graded(self._by_key[task_key], verifier_inputs)


@cache
def _evaluator_hash(suite: Any) -> str:
    digest = hashlib.sha256()
    for name in ("_draw.py", "_suite.py", *suite.sealed):
        digest.update(files("meta_agent.domains.nano").joinpath(name).read_bytes())
    for split in SPLITS:
        digest.update("".join(p.content_hash for p in suite.problems(split)).encode())
    digest.update(json.dumps([asdict(suite.sampling), asdict(suite.ceilings)]).encode())
    return digest.hexdigest()
