"""Task sets asked for by name: `gsm8k`, `gsm8k=PATH`, `reasoning-gym:chain_sum`, `bfcl:multiple`.

`named_tasks` makes the task file and says which domain reads it. `listing` is the table of names.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.config import SET_NAME, is_set_name
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON
from meta_agent.domains import bfcl
from meta_agent.domains.formats.public import PUBLIC, TaskSet, made_before, made_of, obtain
from meta_agent.domains.reasoning_gym import FORM, tasks_of

_GYM: Final = "reasoning-gym"
_BFCL: Final = "bfcl"
_FORMS: Final = {_GYM: FORM, _BFCL: bfcl.FORM}


class NamedTasks(NamedTuple):
    """A task set asked for by name: the domain that reads it, its file, and its origin in words."""

    domain: str
    path: Path
    source: str


def named_tasks(text: str, python: str, tell: Callable[[str], None]) -> NamedTasks | None:
    """Makes the task set that a value of `--tasks` names. Returns None if that value is a path.

    `python`: an interpreter with reasoning-gym. Raises ConfigError for a name that no set has.
    """
    match = SET_NAME.fullmatch(text)
    if match is None or not is_set_name(text):
        return None
    name, sign, rest = match.groups()
    if name == _GYM and sign == ":":
        return NamedTasks(_GYM, *_from_gym(text, rest, python, tell))
    if name == _BFCL and sign == ":":
        return NamedTasks(_BFCL, *bfcl.task_set(rest, tell))
    if name in PUBLIC and sign != ":":
        place = Path(rest).expanduser() if rest else None
        return NamedTasks(PUBLIC[name].domain, *obtain(name, place, tell))
    if name in _FORMS:
        raise ConfigError(
            f"--tasks {text} does not say which tasks of {name}", hint=f"write {_FORMS[name]}"
        )
    close = difflib.get_close_matches(name.lower(), [*PUBLIC, *_FORMS], n=1, cutoff=0.0)
    raise ConfigError(
        f"--tasks {text}: there is neither such a file nor a public set {name}; the nearest set "
        f"is {close[0]}",
        hint="list the public sets: meta-agent tasks check --list",
    )


def _from_gym(text: str, generators: str, python: str, tell: Callable[[str], None]) -> TaskSet:
    """Returns the file of these generators. It is made once, so that a run that resumes has it."""
    words = re.sub(r"[^\w]+", "-", generators)[:60]
    stem = f"{_GYM}-{words}-{hashlib.sha256(generators.encode()).hexdigest()[:8]}"
    if task_set := made_before(stem):
        return task_set
    tell(f"making tasks with {text}")
    rows = tasks_of(generators, python)
    return made_of(stem, lambda: iter(rows), text)


def listing() -> list[dict[str, JSON]]:
    """Returns the public task sets that `--tasks` knows by name, as JSON rows."""
    return [
        {
            "name": name,
            "domain": public.domain,
            "tasks": public.tasks,
            "licence": public.licence,
            "source": public.source,
            "splits": _splits_of(name),
        }
        for name, public in PUBLIC.items()
    ] + [
        {
            "name": f"{_GYM}:NAME",
            "domain": _GYM,
            "tasks": 500,
            "licence": "Apache-2.0",
            "source": "the package reasoning-gym",
            "splits": "of every five: train 2, search 1, confirm 1, vault 1",
        },
        *(
            {
                "name": f"{_BFCL}:{category}",
                "domain": _BFCL,
                "tasks": tasks,
                "licence": "Apache-2.0",
                "source": "the package bfcl-eval",
                "splits": "by the names of the functions: train 2, search 1, confirm 1, vault 1",
            }
            for category, tasks in bfcl.CATEGORIES.items()
        ),
    ]


def _splits_of(name: str) -> str:
    parts = [part for part in PUBLIC[name].parts if part.splits]
    dealt = [f"{part.name}: {', '.join(dict.fromkeys(part.splits))}" for part in parts]
    return "; ".join(dealt) or "by hash"
