"""Demonstrations for nano-code's warm start: a mixture of good, hasty, dishonest and wrong work.

Promises: every demonstration is played through the real environment, on functions that no task
asks for, in the message form of the seed scaffolds. Whatever a scaffold may become
(other tools on offer, fewer examples, the call left out, programs run as they are written, cut
observations, few turns) is in the mixture, and so are the habits that a reward may breed: tables
of the visible examples, which pass them all and know nothing else.

The mixture is deliberately mediocre: the habits that pay are all in it, none of them dominates,
and reinforcement has something to choose from.

Not covered: wording. The scaffold's lines are the language.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from meta_agent.core.protocols import Message
from meta_agent.domains.nano import code_tasks
from meta_agent.domains.nano._draw import Draw
from meta_agent.domains.nano.code import NanoCode, NanoCodeEnvironment, cases_text
from meta_agent.domains.nano.code_language import PRINT, RETURN
from meta_agent.domains.nano.code_tasks import Case, Problem

HABITS: Final = {"tries": 40, "hasty": 32, "table": 22, "careless": 6}
LEAK_PERCENT: Final = 40  # how often the hidden tests are read where they are on offer
INSIGHT_PERCENT: Final = 30  # how often a guess is right beyond what the examples say
SLIP_PERCENT: Final = 35  # a guess that does not fit the examples
GIVE_UP_PERCENT: Final = 8  # after each failed run
ELSEWHERE_PERCENT: Final = {"f": 4, "l": 25}  # a first program whose result goes elsewhere
NAMES: Final = {"r": "run", "p": "peek", "s": "submit"}


@dataclass(frozen=True, slots=True)
class Scaffold:
    """What the scaffold of a demonstration does."""

    tools: str
    shown: int
    tells_call: bool
    auto_run: bool
    observation_chars: int
    max_turns: int


def draw_scaffold(draw: Draw) -> Scaffold:
    """Returns a scaffold from those that evolution may reach, most often a plain one."""
    return Scaffold(
        tools=draw.weighted({"wrs": 68, "wrps": 24, "ws": 8}),
        shown=int(draw.weighted({"1": 25, "2": 40, "3": 35})),
        tells_call=draw.chance(92),
        auto_run=draw.chance(12),
        observation_chars=int(draw.weighted({"16": 88, "6": 6, "3": 6})),
        max_turns=int(draw.weighted({"10": 70, "6": 15, "4": 15})),
    )


class _Attempt:
    """Plays actions through the environment and writes down what both sides say."""

    def __init__(self, problem: Problem, scaffold: Scaffold) -> None:
        self._environment = NanoCodeEnvironment(problem)
        self.scaffold = scaffold
        call = f" {problem.call}" if scaffold.tells_call else ""
        examples = cases_text(problem.visible[: scaffold.shown])
        line = f"{scaffold.tools}{call} {problem.sketch} {examples}"
        self.messages: list[Message] = [{"role": "user", "content": line}]

    @property
    def full(self) -> bool:
        """Whether another action and its answer might not fit into the context."""
        written = sum(len(m["content"]) + 1 for m in self.messages)
        return (
            written + NanoCode.ceilings.max_tokens_per_turn + 12
            > NanoCode.ceilings.max_context_tokens
        )

    def act(self, action: str) -> str:
        """Returns the tool's line as the scaffold shows it."""
        shown = self._result(action)[: self.scaffold.observation_chars]
        self.messages.append({"role": "assistant", "content": action})
        self.messages.append({"role": "tool", "content": shown})
        return shown

    def _result(self, action: str) -> str:
        if action not in NAMES:
            text = self._environment.call("write", {"code": action}).text
            ran = text == "ok" and self.scaffold.auto_run
            return self._environment.call("run", {}).text if ran else text
        if action not in self.scaffold.tools:
            return "no"
        return self._environment.call(NAMES[action], {}).text


class _Author:
    """Someone with a habit, working on one problem."""

    def __init__(self, problem: Problem, scaffold: Scaffold, draw: Draw) -> None:
        self._problem = problem
        self._draw = draw
        self._open = code_tasks.fillings(problem.sketch)
        self._known: list[Case] = list(problem.visible[: scaffold.shown])
        self._tried: set[str] = set()
        self._special = False
        right = RETURN if problem.call == "f" else PRINT
        elsewhere = ELSEWHERE_PERCENT[problem.call] if scaffold.tells_call else 50
        self._mark = (RETURN + PRINT).replace(right, "") if draw.chance(elsewhere) else right
        self.heard = ""

    def _guess(self) -> str:
        """Returns the next function to try."""
        options = [b for b in self._open if b not in self._tried] or list(self._open)
        fitting = [b for b in options if code_tasks.fits(b, tuple(self._known))]
        right = self._problem.body
        if not fitting or self._draw.chance(SLIP_PERCENT):
            guess = self._draw.choice(options)
        elif right in fitting and self._draw.chance(INSIGHT_PERCENT):
            guess = right
        else:
            guess = self._draw.choice(fitting)
        self._tried.add(guess)
        return guess

    def _learn(self) -> None:
        """Takes in what a failed run said."""
        case, told_so, got = self.heard.partition("~")
        argument, _, wanted = case.partition(">")
        if told_so and not got and not (self._special and (argument, wanted) not in self._known):
            self._mark = (RETURN + PRINT).replace(self._mark, "")
        if wanted and (argument, wanted) in self._problem.visible:
            self._known = list(dict.fromkeys([*self._known, (argument, wanted)]))

    def tries(self) -> Iterator[str]:
        """Writes what fits, runs it, and goes on until it passes."""
        body = self._guess()
        for _ in range(5):
            yield self._mark + body
            yield "r"
            if self.heard == "ok" or self._draw.chance(GIVE_UP_PERCENT):
                break
            before = self._mark
            self._learn()
            body = body if self._mark != before else self._guess()
        yield "s"

    def hasty(self) -> Iterator[str]:
        """Writes what fits and hands it in."""
        yield self._mark + self._guess()
        yield "s"

    def table(self) -> Iterator[str]:
        """Writes down the examples themselves, and those that failed as well."""
        self._special = True
        for _ in range(4):
            yield self._mark + cases_text(self._known)
            yield from ["r"] if self._draw.chance(70) else []
            if not self.heard.count("~"):
                break
            self._learn()
        yield "s"

    def careless(self) -> Iterator[str]:
        """Writes anything, and hands it in."""
        yield self._mark + self._draw.choice(self._open)
        yield from ["r"] if self._draw.chance(30) else []
        yield "s"

    def leak(self) -> Iterator[str]:
        """Copies the hidden tests into a table."""
        yield "p"
        right = RETURN if self._problem.call == "f" else PRINT
        yield right + self.heard
        yield "s"


def _habit(scaffold: Scaffold, draw: Draw) -> str:
    whole = scaffold.observation_chars >= 16
    if "p" in scaffold.tools and whole and draw.chance(LEAK_PERCENT):
        return "leak"
    return draw.weighted(HABITS)


def demonstration(index: int) -> list[Message]:
    """Returns the conversation of demonstration number `index`."""
    draw = Draw(f"nano-code/demo/{index}")
    scaffold = draw_scaffold(draw)
    problem = problem_of(index)
    author = _Author(problem, scaffold, draw)
    attempt = _Attempt(problem, scaffold)
    for action in getattr(author, _habit(scaffold, draw))():
        if len(attempt.messages) > 2 * scaffold.max_turns or attempt.full:
            break
        if action != "r" or (not scaffold.auto_run and "r" in scaffold.tools):
            author.heard = attempt.act(action)
    return attempt.messages


def problem_of(index: int) -> Problem:
    """Returns a problem on a function that no split may ask for."""
    key = f"nano-code/demo/{index}"
    return code_tasks.generate("train", Draw(key), key, owner="demos")
