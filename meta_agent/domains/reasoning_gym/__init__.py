"""Tasks of the library reasoning-gym: its generators make them, its verifiers grade answers.

`tasks_of` makes a task file. `--domain reasoning-gym --tasks FILE` opens it. Both need the library
in the Python of `--python`; only `reasoning_gym_guest.py` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from meta_agent.core.distribution import install
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON
from meta_agent.domains._options import DomainOptions
from meta_agent.domains.graded import GradedDomain, GraderError, load_rows
from meta_agent.domains.graded._workers import GRADE_SEC, Workers

GUEST: Final = Path(__file__).with_name("reasoning_gym_guest.py")
FORM: Final = "reasoning-gym:NAME[:PARAMETER=VALUE...][,NAME...]"


def open_domain(options: DomainOptions) -> GradedDomain:
    """Opens a file of reasoning-gym's tasks. That library grades the answers."""
    return GradedDomain(
        _spec(),
        load_rows(options.tasks, {}),
        threshold=options.threshold,
        python=options.python,
        name="reasoning-gym",
    )


def tasks_of(generators: str, python: str) -> list[dict[str, JSON]]:
    """Returns the tasks of generators, such as `chain_sum:num_terms=2,leg_counting`.

    `python` must have the library reasoning-gym. Raises ConfigError if it refuses a generator.
    """
    spec = _spec(generators=[_generator(text) for text in generators.split(",")])
    rows: list[dict[str, JSON]] = _answer(
        spec, python, lambda worker: worker.ask("tasks", 10 * GRADE_SEC)
    )
    return rows


def generators(python: str) -> Mapping[str, Mapping[str, JSON]]:
    """Returns the parameters, with defaults, of every task generator of reasoning-gym by name."""
    names: Mapping[str, Mapping[str, JSON]] = _answer(
        _spec(listed=True), python, lambda worker: worker.facts["about"]["generators"]
    )
    return names


def _answer(spec: Mapping[str, JSON], python: str, question: Any) -> Any:
    workers = Workers(spec, python)
    try:
        with workers.leased() as worker:
            return question(worker)
    except GraderError as error:
        missing = "is not installed" in str(error)
        hint = f"{install('reasoning-gym')}, or --python PATH of a Python that has it"
        raise ConfigError(
            str(error), hint=hint if missing else "meta-agent tasks list reasoning-gym"
        ) from error
    finally:
        workers.close()


def _spec(**setup: JSON) -> dict[str, JSON]:
    return {"name": "reasoning-gym", "path": str(GUEST), "setup": setup or {"listed": False}}


def _generator(text: str) -> dict[str, JSON]:
    name, *options = text.split(":")
    pairs = [option.partition("=") for option in options]
    if not name or not all(key and value for key, _, value in pairs):
        raise ConfigError(f"--tasks reasoning-gym:{text} is not valid", hint=FORM)
    return {"name": name, "options": {key: value for key, _, value in pairs}}
