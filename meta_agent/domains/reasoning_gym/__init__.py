"""Tasks of the library reasoning-gym: its generators make them, its verifiers grade answers.

`tasks_of` makes a task file. `--domain reasoning-gym --tasks FILE` opens it. Both need the library
in the Python of `--python`; only `reasoning_gym_guest.py` uses it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from meta_agent.core.capabilities import Capabilities, Generators
from meta_agent.core.distribution import install
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, SandboxLimits
from meta_agent.domains._options import DomainOptions
from meta_agent.domains.formats.graded_sets import read_graded
from meta_agent.domains.formats.rows import Fields
from meta_agent.domains.graded import GradedDomain, GraderError, load_rows
from meta_agent.domains.graded._domain import Rows
from meta_agent.domains.graded._workers import Workers

GUEST: Final = Path(__file__).with_name("reasoning_gym_guest.py")
FORM: Final = "reasoning-gym:NAME[:PARAMETER=VALUE...][,NAME...]"
_LISTED: Final = "meta-agent tasks check reasoning-gym --list"
_MAKE_SEC: Final = 120.0
"""The time limit of making tasks; the memory limit is that of a sandbox."""
_GENERATED_SEED: Final = 1_000_000_000
"""Generated training tasks have seeds from here on, which no task file is likely to have."""
_MOST_GENERATED: Final = 4096
"""The most tasks that a recipe may have made by one generator."""


class ReasoningGymDomain(GradedDomain):
    """A domain of reasoning-gym's tasks, whose generators can make further training tasks."""

    def __init__(self, rows: Rows, threshold: float | None, python: str) -> None:
        self._threshold, self._python = threshold, python
        self._generated: dict[str, GradedDomain] = {}
        self._generating = threading.Lock()
        super().__init__(_spec(), rows, threshold=threshold, python=python, name="reasoning-gym")
        easier = {str(row.row["easier"]) for row in self.rows.values() if row.row.get("easier")}
        self._easier = ",".join(sorted(easier))

    @property
    def capabilities(self) -> Capabilities:
        generators = Generators(self.with_tasks_of, self._easier)
        return dataclasses.replace(super().capabilities, generators=generators)

    def with_tasks_of(self, declared: str) -> GradedDomain:
        """Returns a domain of new training tasks, which closes when this domain does.

        `declared` is NAME[:PARAMETER=VALUE...][,NAME...]. Questions of this domain's tasks are left
        out. Raises ConfigError if the library refuses a generator, or if no task is left.
        """
        with self._generating:  # trainings run in threads
            if declared not in self._generated:
                fields = self._new_rows(declared)
                self._generated[declared] = ReasoningGymDomain(
                    lambda _: read_graded(Path("generate"), {}, fields),
                    self._threshold,
                    self._python,
                )
            return self._generated[declared]

    def _new_rows(self, declared: str) -> list[Fields]:
        requests = [_generator(text) for text in declared.split(",")]
        for request in requests:
            if "seed" in request["options"]:
                raise ConfigError(
                    f"the recipe's generate sets the seed of {request['name']}",
                    hint="leave seed out: new tasks have seeds of their own",
                )
            size = str(request["options"].get("size", ""))
            if size.isdecimal() and int(size) > _MOST_GENERATED:
                raise ConfigError(
                    f"the recipe's generate asks for {size} tasks of {request['name']}",
                    hint=f"set size to {_MOST_GENERATED} at most",
                )
            request["options"]["seed"] = str(_GENERATED_SEED)
        questions = {row.prompt for row in self.rows.values()}
        rows = {row["prompt"]: row for row in _rows_of(requests, self._python)}
        new = [row for question, row in rows.items() if question not in questions]
        if not new:
            raise ConfigError(
                f"the recipe's generate is {declared!r}, which makes no task that is new",
                hint=f"choose other generators or parameters: {_LISTED}",
            )
        return [
            Fields(Path("generate"), at, {**row, "key": f"generated-{at}", "split": "train"})
            for at, row in enumerate(new, 1)
        ]

    def close(self) -> None:
        """Ends the processes of the grader, also those of the domains that `with_tasks_of` made."""
        for domain in self._generated.values():
            domain.close()
        super().close()


def open_domain(options: DomainOptions) -> GradedDomain:
    """Opens a file of tasks that reasoning-gym generated. The library also grades the answers."""
    return ReasoningGymDomain(load_rows(options.tasks, {}), options.threshold, options.python)


def tasks_of(generators: str, python: str) -> list[dict[str, JSON]]:
    """Returns the tasks of generators, such as `chain_sum:num_terms=2,leg_counting`.

    `python` must have reasoning-gym. Raises ConfigError if the library refuses a generator.
    """
    return _rows_of([_generator(text) for text in generators.split(",")], python)


def generators(python: str) -> Mapping[str, Mapping[str, JSON]]:
    """Returns, by name, all generators of reasoning-gym, as parameters with their defaults."""
    names: Mapping[str, Mapping[str, JSON]] = _answer(
        _spec(listed=True), python, lambda worker: worker.facts["about"]["generators"]
    )
    return names


def _rows_of(requests: list[JSON], python: str) -> list[dict[str, JSON]]:
    rows: list[dict[str, JSON]] = _answer(
        _spec(generators=requests, memory_mb=SandboxLimits().memory_mb),
        python,
        lambda worker: worker.ask("tasks", _MAKE_SEC),
    )
    return rows


def _answer(spec: Mapping[str, JSON], python: str, question: Any) -> Any:
    workers = Workers(spec, python)
    try:
        with workers.leased() as worker:
            return question(worker)
    except GraderError as error:
        missing = "is not installed" in str(error)
        hint = f"{install('reasoning-gym')}, or --python PATH of a Python that has it"
        raise ConfigError(str(error), hint=hint if missing else _LISTED) from error
    finally:
        workers.close()


def _spec(**setup: JSON) -> dict[str, JSON]:
    return {"name": "reasoning-gym", "path": str(GUEST), "setup": setup or {"listed": False}}


def _generator(text: str) -> dict[str, JSON]:
    name, *options = text.split(":")
    pairs = [option.partition("=") for option in options]
    if not name or not all(key and value for key, _, value in pairs):
        raise ConfigError(f"--tasks reasoning-gym:{text} is not valid", hint=f"write {FORM}")
    return {"name": name, "options": {key: value for key, _, value in pairs}}
