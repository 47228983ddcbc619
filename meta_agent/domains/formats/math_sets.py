"""Readers of math data sets: GSM8K, MATH and MATH-500, Big-Math, DAPO-17k, AIME, plain pairs.

Promises: a row that comes out has a problem and the gold answer as its file states it; a row whose
file states none (or, in MATH, none in a box) is refused by line; the same problem twice is one
task, counted; the same problem with two different golds is no task at all, counted. The split is
stated by the row, or hashed from the problem's text.

Does not cover: whether a gold can be graded (`domains.math` decides that, and counts), or is right.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Split
from meta_agent.domains.formats._fields import Fields
from meta_agent.domains.formats._rows import stream_rows
from meta_agent.domains.formats._splits import explicit_split, hashed_split
from meta_agent.domains.formats._task_file import TaskFile
from meta_agent.domains.formats.boxes import last_box


@dataclass(frozen=True, slots=True)
class MathRow:
    """One problem. `gold` is the answer as the file states it, never shown to an agent."""

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


Parts = tuple[str | None, str, str | None]  # key, problem, gold


def read_math(path: Path, mapping: Mapping[str, str] | None = None) -> TaskFile[MathRow]:
    """All problems of a file in any of the known forms; `ConfigError` where it has none."""
    found = TaskFile[MathRow](path)
    place: dict[str, int] = {}
    reader: Callable[[Fields], Parts] | None = None
    for fields in stream_rows(path, mapping):
        found.read += 1
        if reader is None:
            found.source, reader = _form(fields)
        _take(found, place, fields, reader)
    found.rows = [row for row in found.rows if row.line not in found.refused]
    if not found.rows:
        raise ConfigError(f"{path} holds no usable problem: {'; '.join(found.notes) or 'no rows'}")
    return found


def problem_key(problem: str) -> str:
    """What makes two problems the same: their words and signs, not their spacing."""
    return hashlib.sha256(" ".join(problem.split()).encode()).hexdigest()


def _take(
    found: TaskFile[MathRow],
    place: dict[str, int],
    fields: Fields,
    reader: Callable[[Fields], Parts],
) -> None:
    key, problem, gold = reader(fields)
    if gold is None or not gold.strip():
        found.refused[fields.line] = "no gold answer in it"
        return
    semantic = problem_key(problem)
    if semantic in place:
        _repeated(found, place[semantic], fields.line, gold.strip())
        return
    place[semantic] = len(found.rows)
    stated = _stated_split(fields)
    found.splits_stated |= stated is not None
    found.rows.append(
        MathRow(
            key=_key(key, semantic, found.source),
            problem=problem,
            gold=gold.strip(),
            split=stated or hashed_split(semantic),
            line=fields.line,
            source=found.source,
            extra={n: fields.row[n] for n in _KEPT if fields.row.get(n) is not None},
        )
    )


def _repeated(found: TaskFile[MathRow], at: int, line: int, gold: str) -> None:
    """A repetition with another gold makes both worthless: nobody knows which one is right."""
    found.duplicates += 1
    first = found.rows[at]
    if first.gold != gold and first.line not in found.refused:
        found.refused[line] = "the same problem with another gold"
        found.refused[first.line] = "the same problem with another gold"


_KEPT = ("level", "subject", "type", "domain", "llama8b_solve_rate", "data_source", "source")


def _stated_split(fields: Fields) -> Split | None:
    """Public sets say `train` and `test` of their own; only our four names state a split."""
    return explicit_split(fields) if fields.row.get("split") != "test" else None


def _key(given: str | None, semantic: str, source: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", given or "").strip("-.")[:80]
    return f"{name}-{semantic[:8]}" if name else f"{source}-{semantic[:12]}"


# --- the forms -----------------------------------------------------------------------------------


def _gsm8k(fields: Fields) -> Parts:
    solution = fields.text("answer")
    _, mark, gold = solution.rpartition("####")
    return None, fields.text("question"), gold if mark else None


def _math(fields: Fields) -> Parts:
    stated = fields.optional_text("answer")
    key = fields.optional_text("unique_id")
    return key, fields.text("problem"), stated or last_box(fields.text("solution"))


def _pairs(fields: Fields) -> Parts:
    return _label(fields, "id", "idx"), fields.text("problem"), _answer(fields, "answer")


def _dapo(fields: Fields) -> Parts:
    prompt, model = fields.row.get("prompt"), fields.nested("reward_model")
    said = [m for m in prompt if isinstance(m, dict)] if isinstance(prompt, list) else []
    if not said or model is None:
        raise fields.error("prompt", "a list of messages beside reward_model")
    problem = str(said[-1].get("content", ""))
    return None, _undressed(problem), _answer(model, "ground_truth")


def _rlve(fields: Fields) -> Parts:
    return None, fields.text("user_prompt"), _answer(fields, "ground_truth")


def _capital(fields: Fields) -> Parts:
    return _label(fields, "ID", "id"), fields.text("Problem"), _answer(fields, "Answer")


# DAPO wraps every problem in the same two sentences; a problem is what stands between them.
_DRESS = re.compile(
    r"\ASolve the following math problem step by step\..*?\n\n"
    r"(.*?)\n\nRemember to put your answer.*\Z",
    re.DOTALL,
)


def _undressed(problem: str) -> str:
    found = _DRESS.match(problem)
    return found[1] if found else problem


def _answer(fields: Fields, name: str) -> str | None:
    value = fields.row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise fields.error(name, "a string or a number")
    return str(value)


def _label(fields: Fields, *names: str) -> str | None:
    return next((str(fields.row[n]) for n in names if fields.row.get(n) is not None), None)


# (name, the fields that tell it, reader): the first form whose fields are all there.
_FORMS: tuple[tuple[str, tuple[str, ...], Callable[[Fields], Parts]], ...] = (
    ("dapo", ("prompt", "reward_model"), _dapo),
    ("gsm8k", ("question", "answer"), _gsm8k),
    ("aime", ("user_prompt", "ground_truth"), _rlve),
    ("big-math", ("problem", "answer", "llama8b_solve_rate"), _pairs),
    ("math", ("problem", "solution"), _math),
    ("aime", ("Problem", "Answer"), _capital),
    ("pairs", ("problem", "answer"), _pairs),
)


def _form(fields: Fields) -> tuple[str, Callable[[Fields], Parts]]:
    for name, wanted, reader in _FORMS:
        if all(field in fields.row for field in wanted):
            return name, reader
    forms = "; ".join(f"{name} ({', '.join(wanted)})" for name, wanted, _ in _FORMS)
    raise ConfigError(
        f"{fields.path}:{fields.line}: no known math data set; it has the fields "
        f"{', '.join(sorted(fields.row)[:12])}",
        hint=f"known forms: {forms}",
    )
