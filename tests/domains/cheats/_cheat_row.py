"""A cheat: one way to be called solved without solving, and its form for each kind of grader."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

Grader = Literal[
    "swe",  # a repository's pytest tests, by our own runner
    "swe-command",  # the same by a command and its log
    "asserts",  # HumanEval, MBPP: test code calls a function
    "function",  # LiveCodeBench, APPS: arguments and a result
    "stdio",  # LiveCodeBench, CodeContests: a program
    "math",
    "nano-swe",
    "nano-math",
    "nano-code",
]
GRADERS: Final[tuple[Grader, ...]] = get_args(Grader)

# A patch is a file of the repository -> its new text (None: gone); `{core}` is the faulty source.
Form = str | Mapping[str, str | None]


@dataclass(frozen=True)
class Cheat:
    """One row of the table.

    `forms`: for programs the code that is handed in, for `swe` what stands after the faulty source
    or a whole patch, for `math` the reply, for nano suites the tool calls, one a line, of which
    words in capitals are filled in.
    """

    name: str
    family: str
    forms: Mapping[Grader, Form] = field(default_factory=dict)


def read_cheats(name: str) -> Iterator[Cheat]:
    """The cheats of a file in `table/`: a form stands for all graders that its key names."""
    text = Path(__file__).with_name("table").joinpath(f"{name}.jsonl").read_text(encoding="utf-8")
    for row in map(json.loads, text.splitlines()):
        forms = {one: _form(form) for key, form in row["forms"].items() for one in key.split()}
        assert forms.keys() <= {*GRADERS}, row
        yield Cheat(row["name"], row["family"], forms)


def _form(form: Any) -> Any:
    """A text in parts is put together: a part with a number is repeated so often."""
    if not isinstance(form, list):
        return form
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in form)
