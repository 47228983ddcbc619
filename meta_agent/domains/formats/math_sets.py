"""Readers of math data sets: GSM8K, MATH and MATH-500, Big-Math, DAPO-17k, AIME, plain pairs.

Promises: a row that comes out has a problem and the gold answer as its file states it. A row whose
file states none is refused by line. The same problem twice is one task, counted; the same problem
with two golds is no task at all, counted. The row states its split, or a hash of the problem does.

Does not cover: whether a gold can be graded, which `domains.math` decides, or whether it is right.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.protocols import JSON, Split
from meta_agent.domains.formats.boxes import last_box
from meta_agent.domains.formats.rows import (
    Fields,
    RefusedRowError,
    TaskFile,
    collected,
    split_of,
    stream_rows,
)

_EXTRA: Final = (
    *("level", "subject", "type", "domain", "llama8b_solve_rate", "data_source", "source"),
)
# DAPO wraps every problem in the same two sentences; a problem is what stands between them.
_DAPO_FRAME: Final = re.compile(
    r"\ASolve the following math problem step by step\..*?\n\n"
    r"(.*?)\n\nRemember to put your answer.*\Z",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class MathRow:
    """A math problem. `gold` is the right answer as the file states it; no agent ever sees it."""

    key: str
    problem: str
    gold: str
    split: Split
    line: int
    source: str
    extra: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def semantic_key(self) -> str:
        return problem_key(self.problem)


def problem_key(problem: str) -> str:
    """Returns a SHA-256 hash of a problem's text that ignores spacing; equal problems share it."""
    return hashlib.sha256(" ".join(problem.split()).encode()).hexdigest()


class _Form(NamedTuple):
    """A published form of math rows: the fields of problem, gold and key, and how they are read."""

    name: str
    problem: str
    gold: str
    key: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    problem_of: Callable[[Fields, str], str] = lambda fields, name: fields.text(name)
    gold_of: Callable[[Fields, str], str | None] = lambda fields, name: _answer(fields, name)

    def row(self, fields: Fields) -> MathRow:
        """Returns a row as a math problem. Raises RefusedRowError if the row has no gold answer."""
        problem, gold = self.problem_of(fields, self.problem), self.gold_of(fields, self.gold)
        if gold is None or not gold.strip():
            raise RefusedRowError("the row has no gold answer: add one, or drop the row")
        extra = {name: fields.row[name] for name in _EXTRA if fields.row.get(name) is not None}
        semantic = problem_key(problem)
        label = re.sub(r"[^A-Za-z0-9._-]+", "-", fields.label(*self.key) or "").strip("-.")[:80]
        key = f"{label}-{semantic[:8]}" if label else f"{self.name}-{semantic[:12]}"
        split = split_of(fields, semantic)
        return MathRow(key, problem, gold.strip(), split, fields.line, self.name, extra)


def read_math(path: Path, mapping: Mapping[str, str] | None = None) -> TaskFile[MathRow]:
    """Returns a file's problems; `mapping` renames fields. Raises ConfigError if it has none."""
    forms: list[_Form] = []

    def read(fields: Fields) -> MathRow:
        forms[:] = forms or [_form_of(fields)]
        return forms[0].row(fields)

    rows = stream_rows(path, mapping)
    task_file = collected(
        path,
        rows,
        read,
        lambda row: row.semantic_key,
        lambda row: row.problem,
        _refuse_contradiction,
    )
    task_file.rows = [row for row in task_file.rows if row.line not in task_file.refused]
    return task_file


def _refuse_contradiction(task_file: TaskFile[MathRow], first: MathRow, row: MathRow) -> None:
    """Refuses both rows if they have other golds: nobody knows which one is right."""
    if first.gold != row.gold and first.line not in task_file.refused:
        reason = "the same problem with another gold"
        task_file.refused |= {row.line: reason, first.line: reason}


# --- the forms -----------------------------------------------------------------------------------


def _answer(fields: Fields, name: str) -> str | None:
    value = fields.row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise fields.need(name, "a string or a number")
    return str(value)


def _answer_or_after_hashes(fields: Fields, name: str) -> str | None:
    return (_answer(fields, name) or "").rpartition("####")[2] or None


def _boxed(fields: Fields, name: str) -> str | None:
    return fields.optional_text("answer") or last_box(fields.text(name))


def _dapo_problem(fields: Fields, name: str) -> str:
    prompt = fields.row.get(name)
    messages = [m for m in prompt if isinstance(m, dict)] if isinstance(prompt, list) else []
    if not messages:
        raise fields.need(name, "a list of messages beside reward_model")
    problem = str(messages[-1].get("content", ""))
    framed = _DAPO_FRAME.match(problem)
    return framed[1] if framed else problem


def _dapo_gold(fields: Fields, name: str) -> str | None:
    model = fields.nested(name)
    return _answer(model, "ground_truth") if model else None


# The first form whose fields are all there.
_FORMS: Final = (
    _Form("dapo", "prompt", "reward_model", problem_of=_dapo_problem, gold_of=_dapo_gold),
    _Form("gsm8k", "question", "answer", gold_of=_answer_or_after_hashes),
    _Form("aime", "user_prompt", "ground_truth"),
    _Form("big-math", "problem", "answer", ("id", "idx"), ("llama8b_solve_rate",)),
    _Form("math", "problem", "solution", ("unique_id",), gold_of=_boxed),
    _Form("aime", "Problem", "Answer", ("ID", "id")),
    _Form("pairs", "problem", "answer", ("id", "idx")),
    _Form("pairs", "prompt", "gold", ("id", "idx")),
)
# By `--map`: what it names is read as it stands, whatever other forms the row resembles.
_PROBLEMS: Final = ("prompt", "problem", "question")
_GOLDS: Final = ("gold", "answer")


def _form_of(fields: Fields) -> _Form:
    if fields.mapped & {*_PROBLEMS, *_GOLDS} and (mapped := _mapped_form(fields)):
        return mapped
    for form in _FORMS:
        if all(name in fields.row for name in (form.problem, form.gold, *form.marks)):
            return form
    forms = "; ".join(f"{f.name} ({', '.join((f.problem, f.gold, *f.marks))})" for f in _FORMS)
    raise fields.refused(
        f"no known math data set has the fields {fields.names}",
        hint=f"known forms: {forms}; other names: --map QUESTION=prompt,ANSWER=gold",
    )


def _mapped_form(fields: Fields) -> _Form | None:
    """Returns the form that `--map` describes, or None. Other fields have their usual names."""
    sides = []
    for names in (_PROBLEMS, _GOLDS):
        present = [name for name in names if name in fields.row]
        sides.append(min(present, key=lambda name: name not in fields.mapped, default=None))
    problem, gold = sides
    if not problem or not gold:
        return None
    return _Form("pairs", problem, gold, ("id", "idx"), gold_of=_answer_or_after_hashes)
