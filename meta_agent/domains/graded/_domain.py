"""`GradedDomain`: task rows and a grader that a user wrote, as a domain.

Promises: the agent sees a task's prompt and tools, and nothing else of its row. Every attempt is
graded twice; two grades that differ raise `GraderError`. A score counts as solved from the user's
threshold on, and is stored beside the verdict. An error of the grader is a failure of the verifier,
never a score of zero. A grader that cannot grade an empty answer is refused while it is loaded.

Does not cover: what the grader reads outside its own folder, such as other packages or a server.
`evaluator_hash` changes with the rows, this code, and files that the grader has in its own folder.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.chat import ModelClient
from meta_agent.core.errors import ConfigError, InfrastructureError
from meta_agent.core.protocols import JSON, Ceilings, Environment, Outcome, Sampling, Sandbox, Task
from meta_agent.domains._identity import ReadTasks, code_hash, evaluator_hash
from meta_agent.domains.formats import TaskFile
from meta_agent.domains.formats.graded_sets import GradedRow, read_graded
from meta_agent.domains.formats.rows import Fields
from meta_agent.domains.graded._environment import WORK_SCHEMAS, GradedEnvironment
from meta_agent.domains.graded._judge import Judge, cases_of, measured
from meta_agent.domains.graded._workers import GRADE_SEC, TRY_ALONE, GraderError, Workers

CEILINGS: Final = Ceilings(
    max_turns=20, max_tokens_per_turn=8192, max_context_tokens=65_536, wall_sec=600.0
)
SAMPLING: Final = Sampling(temperature=0.7)
_SOURCES: Final = ("_domain.py", "_environment.py", "_judge.py", "grader_guest.py")
Rows = Callable[[Workers], TaskFile[GradedRow]]


class GradedDomain(ReadTasks):
    """A domain (tasks with a grader) whose grader is a user's function, run in its own process."""

    name = "graded"
    sampling = SAMPLING

    def __init__(
        self,
        spec: Mapping[str, JSON],
        rows: Rows,
        *,
        threshold: float | None = None,
        factory: Callable[[], Sandbox] | None = None,
        python: str = sys.executable,
        name: str = "graded",
        judge: str | None = None,
    ) -> None:
        self.name = name
        self._workers = Workers(spec, python)
        self._factory = factory
        self.judge = judge
        self._judge: Judge | None = None
        self.grader = str(spec.get("path") or spec.get("module"))
        try:
            self._load(rows, threshold)
        except GraderError as error:
            self.close()
            raise ConfigError(
                str(error), hint="meta-agent init --domain mine writes one that works"
            ) from error
        except BaseException:
            self.close()
            raise

    def _load(self, rows: Rows, threshold: float | None) -> None:
        with self._workers.leased() as worker:
            self.facts = worker.facts
        self._take(rows(self._workers))
        self.threshold = _threshold(threshold, self.facts["threshold"], self.grader)
        self.ceilings = _ceilings(self.facts["limits"], self.grader)
        with self._workers.leased() as worker:
            listed = [dict(row.row) for row in self.rows.values()]
            self._schemas = dict(
                zip(self.rows, worker.ask("schemas", 2 * GRADE_SEC, rows=listed), strict=True)
            )
        has_state = self.facts["files"] or any(self._schemas.values())
        self.open_at_once = 16 if has_state else None
        self._require_judge()
        nothing = self._grade(next(iter(self.rows.values())).row, {"answer": ""})
        if "rule" not in nothing:
            self._outcome(nothing)
        self.evaluator_hash = self._hash()

    def _require_judge(self) -> None:
        judged = self.facts.get("judged", False)
        if judged and self.judge is None:
            raise ConfigError(
                f"the grader {self.grader} asks a judge model, but none is set",
                hint="set --model judge=provider/model, and a cap: --max-usd judge=USD",
            )
        if self.judge is not None and not judged:
            raise ConfigError(
                f"--model judge={self.judge} has no effect: the grader {self.grader} asks no judge",
                hint="leave --model judge=... out, or write judge(task, answer) in place of grade",
            )

    def task(self, key: str) -> Task:
        """Returns the part of the task `key` that an agent may see. Raises KeyError if unknown."""
        row, schemas = self.rows[key], self._schemas[key]
        names = [schema["function"]["name"] for schema in schemas]
        work = WORK_SCHEMAS if self.facts["files"] else ()
        names += [schema["function"]["name"] for schema in work]
        view = {**row.view, "schemas": [*schemas, *work], "tools": [*names, "submit"]}
        return Task(self.name, key, row.split, row.content_hash, view)

    def open(self, task: Task) -> Environment:
        """Returns a new attempt's environment. The user's tools run in a process of their own."""
        row = dict(self.rows[task.key].row)
        names = [schema["function"]["name"] for schema in self._schemas[task.key]]
        files = bool(self.facts["files"])
        factory = self._factory if files else None
        return GradedEnvironment(self.graded, row, names, self._workers, factory, files=files)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        """Grades a stored attempt again. Raises GraderError if that fails or two grades differ."""
        return self.graded(dict(self.rows[task_key].row), verifier_inputs)

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(
            super().capabilities, solution=self.solution, judge=self.judge, judge_by=self.judge_by
        )

    def solution(self, key: str) -> tuple[str, str] | None:
        """Returns a task's prompt and reference if the grader accepts that answer, else None."""
        if self.facts["files"] or self.facts.get("judged"):
            return None
        reply = (self.reference(key) or {}).get("answer")
        if not isinstance(reply, str) or not self.regrade(key, {"answer": reply}).success:
            return None
        return self.rows[key].prompt, reply

    def reference(self, key: str) -> Mapping[str, JSON] | None:
        """Returns what an attempt that solves the task leaves: the grader's `reference`, or gold.

        A gold that is a list of texts is one answer or several: if the grader refuses the list, its
        first text counts that passes. Returns None if there is neither. Raises GraderError if the
        grader fails.
        """
        row: GradedRow = self.rows[key]
        if not self.facts["reference"]:
            return next(self._passing(row), row.gold)
        with self._workers.leased() as worker:
            return {"answer": str(worker.ask("reference", GRADE_SEC, row=dict(row.row)))}

    def _passing(self, row: GradedRow) -> Iterator[Mapping[str, JSON]]:
        """Yields the texts of a gold that is a list and that the grader refuses as a whole."""
        listed = row.row.get("gold")
        if not isinstance(listed, list) or self.facts.get("judged"):
            return
        texts = [text for text in listed if isinstance(text, str)]
        answers = [row.gold or {}, *({"answer": text} for text in texts)]
        yield from (answer for answer in answers if self.regrade(row.key, answer).success)

    def graded(self, row: Mapping[str, JSON], submission: Mapping[str, JSON]) -> Outcome:
        """Grades a submission, twice. Raises GraderError if grading fails or the grades differ."""
        grade = self._grade(row, submission)
        if "rule" not in grade:
            return self._outcome(grade)
        if self._judge is None:
            problem = f"the grader {self.grader} asks a judge model, which needs a run"
            raise InfrastructureError(
                problem, hint="grade in a run, which opens the judge: meta-agent evolve"
            )
        success = self._judge.passes(grade["rule"], str(submission.get("answer") or ""))
        return Outcome(success, {"verdict": _verdict(success), "judge": self._judge.model})

    def judge_by(self, client: ModelClient) -> str:
        """Makes a model the judge; returns how often it is right. ConfigError if under 90 %."""
        assert self.judge is not None
        judge = Judge(client, self.judge)
        cases = cases_of([row.row for row in self.rows.values()])
        measurement = measured(
            judge, cases, lambda case: self._grade(case.row, {"answer": case.answer}).get("rule")
        )
        self._judge = judge
        return measurement

    def _grade(self, row: Mapping[str, JSON], submission: Mapping[str, JSON]) -> dict[str, Any]:
        with self._workers.leased() as worker:
            first, second = (
                worker.ask("graded", GRADE_SEC, row=dict(row), submission=dict(submission))
                for _ in range(2)
            )
        if not _agree(first, second):
            raise GraderError(
                f"the grader {self.grader} gave {_grade_text(first)}, then {_grade_text(second)} "
                "for one answer: a grade must not depend on chance, the time or earlier answers",
                hint=TRY_ALONE,
            )
        return dict(first)

    def _outcome(self, grade: Mapping[str, Any]) -> Outcome:
        if "score" not in grade:
            detail = {"verdict": _verdict(grade["success"]), **(grade.get("detail") or {})}
            return Outcome(grade["success"], detail, tuple(grade.get("flags") or ()))
        if self.threshold is None:
            raise GraderError(
                f"the grader {self.grader} returned {grade['score']:g}, but no threshold says "
                "which score is a success: give --threshold, or set THRESHOLD in the file"
            )
        success = grade["score"] >= self.threshold
        detail = {"verdict": _verdict(success), "score": grade["score"]}
        detail["threshold"] = self.threshold
        return Outcome(success, {**(grade.get("detail") or {}), **detail})

    def close(self) -> None:
        """Ends the grader's processes."""
        self._workers.close()

    def _hash(self) -> str:
        return evaluator_hash(
            self,
            [row.content_hash + row.split for row in self.rows.values()],
            grader=self.facts["files_read"],
            about=self.facts["about"],
            code=code_hash(graded=_SOURCES),
            threshold=self.threshold,
            **({"judge": self.judge} if self.judge else {}),
        )


def _verdict(success: bool) -> str:
    return "solved" if success else "not_solved"


def _agree(first: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(first.get(name) == other.get(name) for name in ("success", "score", "flags", "rule"))


def _grade_text(grade: Mapping[str, Any]) -> str:
    return str(grade.get("score", grade.get("success", grade.get("rule"))))[:80]


def _threshold(requested: float | None, stated: JSON, grader: str) -> float | None:
    threshold = stated if requested is None else requested
    if threshold is not None and (
        isinstance(threshold, bool) or not isinstance(threshold, int | float)
    ):
        raise ConfigError(
            f"{grader}: THRESHOLD is {threshold!r}, but must be a number",
            hint="write for example THRESHOLD = 0.5",
        )
    return None if threshold is None else float(threshold)


def _ceilings(stated: Mapping[str, Any], grader: str) -> Ceilings:
    """Returns the usual limits of an attempt, changed by `LIMITS` of the grader's file."""
    ceilings = dataclasses.asdict(CEILINGS)
    for name, value in stated.items():
        usable = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        if name not in ceilings or not usable:
            raise ConfigError(
                f"{grader}: LIMITS sets {name} to {value!r}, which is not allowed",
                hint=f"LIMITS may hold positive numbers, by these names: {', '.join(ceilings)}",
            )
        ceilings[name] = type(ceilings[name])(value)
    return Ceilings(**ceilings)


def load_rows(path: Path | None, mapping: Mapping[str, str]) -> Rows:
    """Returns a function that reads the tasks of `path` or, if None, of the grader's `tasks()`."""

    def rows(workers: Workers) -> TaskFile[GradedRow]:
        if path is not None:
            return read_graded(path, mapping)
        with workers.leased() as worker:
            if not worker.facts["tasks"]:
                raise ConfigError("there are no tasks", hint="give a file of them: --tasks FILE")
            task_rows = worker.ask("tasks", 10 * GRADE_SEC)
        source = Path("tasks()")
        fields = [Fields(source, number, row) for number, row in enumerate(task_rows, 1)]
        return read_graded(source, mapping, fields)

    return rows
