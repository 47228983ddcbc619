"""Further training tasks of nano-math: chains with a stated number of steps.

`sums:steps=2:size=512` are 512 chains of two steps. A chain whose computation belongs to another
split by its hash is left out, so no task of an evaluation is made.

Not covered: further tasks of nano-swe and nano-code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from meta_agent.core.capabilities import Capabilities, Generators
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import Split, Task
from meta_agent.domains.nano import math_tasks
from meta_agent.domains.nano._draw import Draw
from meta_agent.domains.nano.math import NanoMath

FORM: Final = "write sums:steps=NUMBER:size=NUMBER, with steps from 1 to 6 and size from 1 to 4096"
_LIMITS: Final = {"steps": 6, "size": 4096}
_FRUITLESS: Final = 2000
"""So many draws in a row without a new chain mean that there are no more."""


class GeneratingNanoMath(NanoMath):
    """The domain nano-math, with generators of further training tasks in its `capabilities`."""

    capabilities = Capabilities(
        generators=Generators(lambda declared: _Generated(declared), easier="sums:steps=2:size=512")
    )


class _Generated(NanoMath):
    """The domain of the training tasks that a declaration such as `sums:steps=2:size=512` names."""

    def __init__(self, declared: str) -> None:
        super().__init__()
        taken = {math_tasks.semantic_key(p.chain) for p in math_tasks.problems("train")}
        problems = [problem for text in declared.split(",") for problem in _problems(text, taken)]
        self._problems = {problem.key: problem for problem in problems}

    def tasks(self, split: Split) -> Sequence[Task]:
        problems = self._problems.values() if split == "train" else ()
        return [Task(self.name, p.key, "train", p.content_hash, {"sum": p.chain}) for p in problems]


def _problems(declared: str, taken: set[str]) -> list[math_tasks.Problem]:
    """Makes the problems of one declaration, and adds their computations to `taken`."""
    steps, size = _parsed(declared)
    draw, fruitless, first = Draw(f"nano-math/generated/{steps}"), 0, len(taken)
    problems: list[math_tasks.Problem] = []
    while len(problems) < size and fruitless < _FRUITLESS:
        chain = math_tasks.draw_chain(draw)[: 1 + 2 * steps]
        key = math_tasks.semantic_key(chain)
        new = key not in taken and math_tasks.owner_of(chain) == "train"
        if len(chain) < 1 + 2 * steps or not new:
            fruitless += 1
            continue
        taken.add(key)
        fruitless, answer = 0, math_tasks.totals(chain)[-1]
        name = f"nano-math/generated/{steps}-{first + len(problems)}"
        problems.append(math_tasks.Problem(name, "train", chain, answer))
    return problems


def _parsed(declared: str) -> tuple[int, int]:
    """Returns the number of steps and of tasks. Raises ConfigError for any other declaration."""
    name, *pairs = declared.split(":")
    values = {"steps": 0, "size": 256}
    for key, _, text in (pair.partition("=") for pair in pairs):
        if key not in _LIMITS or not text.isdecimal() or not 0 < int(text) <= _LIMITS[key]:
            raise ConfigError(
                f"the recipe's generate is {declared!r}: {key}={text} is not allowed", hint=FORM
            )
        values[key] = int(text)
    if name != "sums" or not values["steps"]:
        raise ConfigError(
            f"the recipe's generate is {declared!r}, which nano-math cannot make", hint=FORM
        )
    return values["steps"], values["size"]
