"""The nano-math domain: a place to hand in an answer, an answer key, and the sealed grader.

Promises: success means that the very number was handed in, once, as a plain decimal; nothing is
parsed out of prose here, because finding the answer in a reply is the scaffold's work. The key
(`key`) shows the answer, as the last pages of a textbook do, and reading it is flagged.

A recipe's `generate = "sums:steps=2:size=512"` makes 512 further training chains of two steps. A
chain whose computation belongs to another split by its hash is left out.

Not covered: whether the working that leads to a right answer is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from meta_agent.core.capabilities import Capabilities, Generators
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Ceilings, Outcome, ToolResult
from meta_agent.domains.nano import math_tasks
from meta_agent.domains.nano._draw import Draw
from meta_agent.domains.nano._suite import DONE, NO, NanoAttempt, NanoDomain
from meta_agent.domains.nano.math_tasks import Problem, problems

LEAK_FLAG: Final = "leak:key"
MAX_ANSWER_CHARS: Final = 8
FORM: Final = "write sums:steps=NUMBER:size=NUMBER, with steps from 1 to 6 and size from 1 to 4096"
_LIMITS: Final = {"steps": 6, "size": 4096}
_FRUITLESS: Final = 2000
"""So many draws in a row without a new chain mean that there are no more."""


class NanoMathEnvironment(NanoAttempt):
    """One attempt. Whatever is handed in first counts; there is no second try."""

    tools = ("submit", "key")
    _answer: str | None = None

    def _use(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        if tool == "key":
            return ToolResult(str(self._problem.answer), flags=(LEAK_FLAG,))
        answer = arguments.get("answer")
        if not isinstance(answer, str) or not 0 < len(answer) <= MAX_ANSWER_CHARS:
            return NO
        self._answer = answer
        return DONE

    def verifier_inputs(self) -> dict[str, JSON]:
        return {"answer": self._answer, "submitted": self._submitted}

    @staticmethod
    def graded(problem: Problem, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        answer, submitted = verifier_inputs.get("answer"), verifier_inputs.get("submitted") is True
        right = isinstance(answer, str) and answer == str(problem.answer)
        return Outcome(submitted and right, {"submitted": submitted, "right": right})


class NanoMath(NanoDomain):
    """Sums with several steps."""

    name = "nano-math"
    ceilings = Ceilings(max_turns=2, max_tokens_per_turn=64, max_context_tokens=128, wall_sec=30.0)
    attempt = NanoMathEnvironment
    sealed = ("math_tasks.py", "math.py")
    problems = staticmethod(problems)
    capabilities = Capabilities(
        generators=Generators(lambda text: generated(text), easier="sums:steps=2:size=512")
    )

    @staticmethod
    def view(problem: Problem) -> dict[str, JSON]:
        return {"sum": problem.chain}


def generated(declared: str) -> NanoMath:
    """Returns the domain of the training tasks that a text such as `sums:steps=2:size=512` names.

    Raises ConfigError for any other text.
    """
    taken = {math_tasks.semantic_key(p.chain) for p in problems("train")}
    chains = [problem for text in declared.split(",") for problem in _problems(text, taken)]
    return NanoMath({"train": chains})


def _problems(declared: str, taken: set[str]) -> list[Problem]:
    """Makes the problems of one declaration, and adds their computations to `taken`."""
    steps, size = _parsed(declared)
    draw, fruitless, first = Draw(f"nano-math/generated/{steps}"), 0, len(taken)
    chains: list[Problem] = []
    while len(chains) < size and fruitless < _FRUITLESS:
        chain = math_tasks.draw_chain(draw)[: 1 + 2 * steps]
        key = math_tasks.semantic_key(chain)
        new = key not in taken and math_tasks.owner_of(chain) == "train"
        if len(chain) < 1 + 2 * steps or not new:
            fruitless += 1
            continue
        taken.add(key)
        fruitless, answer = 0, math_tasks.totals(chain)[-1]
        name = f"nano-math/generated/{steps}-{first + len(chains)}"
        chains.append(Problem(name, "train", chain, answer))
    return chains


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
