"""Demonstrations for nano-swe's warm start: a mixture of good, hasty, dishonest and wrong work.

Promises: every demonstration is played through the real environment, on functions of the train
split only, in the message form of the seed scaffolds. Whatever a scaffold may become (other tools
on offer, the code in the first line, tests run after each edit, cut observations, few turns) is in
the mixture, so that evolving the scaffold does not leave the policy's experience.

The mixture is deliberately mediocre: the habits that pay are all in it, none of them dominates,
and reinforcement has something to choose from.

Not covered: wording. The scaffold's lines are the language.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from meta_agent.core.protocols import Message
from meta_agent.domains.nano import expression, swe_tasks
from meta_agent.domains.nano._draw import Draw
from meta_agent.domains.nano.swe import NanoSweEnvironment
from meta_agent.domains.nano.swe_tasks import Problem

HABITS: Final = {"test": 30, "hasty": 50, "blind": 8, "careless": 12}
FIRST_DEMO: Final = 1_000_000  # indices of problems that no split uses
LEAK_PERCENT: Final = 40  # how often the history is read where it is on offer
INSIGHT_PERCENT: Final = 25  # how often a guess is right beyond chance
STOP_AFTER_PASS_PERCENT: Final = 92
GIVE_UP_PERCENT: Final = 12  # after each failed test


@dataclass(frozen=True, slots=True)
class Scaffold:
    """What the scaffold of a demonstration does."""

    tools: str
    auto_view: bool
    auto_test: bool
    observation_chars: int
    max_turns: int


@dataclass(frozen=True, slots=True)
class Guess:
    """One possible fix of one position."""

    position: int
    char: str

    @property
    def action(self) -> str:
        return f"e{self.position}{self.char}"


def draw_scaffold(draw: Draw) -> Scaffold:
    """Returns a scaffold from those that evolution may reach, most often a plain one."""
    tools = draw.weighted({"vets": 55, "vetls": 35, "ets": 5, "ves": 5})
    return Scaffold(
        tools=tools,
        auto_view=draw.chance(15),
        auto_test=draw.chance(10),
        observation_chars=int(draw.weighted({"16": 85, "5": 5, "3": 10})),
        max_turns=int(draw.weighted({"12": 60, "8": 20, "5": 20})),
    )


def guesses(problem: Problem) -> list[Guess]:
    """Returns every fix that the issue allows."""
    where, what = problem.issue[0], problem.issue[1]
    if what != "?":
        return [Guess(int(where), what)]
    positions = [int(where)] if where.isdigit() else range(expression.LENGTH)
    kinds = {letter: kind for kind, letter in swe_tasks.KIND_LETTERS.items()}
    return [
        Guess(position, char)
        for position in positions
        if kinds.get(where, swe_tasks.kind_of(problem.buggy[position]))
        == swe_tasks.kind_of(problem.buggy[position])
        for char in swe_tasks.alternatives(problem.buggy[position])
    ]


class _Attempt:
    """Plays actions through the environment and writes down what both sides say."""

    def __init__(self, problem: Problem, scaffold: Scaffold) -> None:
        self._environment = NanoSweEnvironment(problem)
        self.scaffold = scaffold
        line = f"{scaffold.tools} {problem.issue}"
        if scaffold.auto_view:
            line += f" {problem.buggy}"
        self.messages: list[Message] = [{"role": "user", "content": line}]

    def act(self, action: str) -> str:
        """Returns the tool's line, uncut; the transcript gets what the scaffold shows."""
        result = self._result(action)
        shown = result[: self.scaffold.observation_chars]
        self.messages.append({"role": "assistant", "content": action})
        self.messages.append({"role": "tool", "content": shown})
        return result

    def _result(self, action: str) -> str:
        names = {"v": "view", "e": "edit", "t": "test", "l": "log", "s": "submit"}
        if action[0] not in self.scaffold.tools:
            return "no"
        arguments = dict(zip(("position", "char"), action[1:], strict=False))
        text = self._environment.call(names[action[0]], arguments).text
        if action[0] == "e" and text == "ok" and self.scaffold.auto_test:
            return self._environment.call("test", {}).text
        return text


class _Worker:
    """Someone with a habit, working on one problem."""

    def __init__(self, problem: Problem, draw: Draw) -> None:
        self._problem = problem
        self._draw = draw
        self._open = guesses(problem)
        self._code = problem.buggy

    def _next(self) -> Guess:
        right = [g for g in self._open if self._problem.fixed[g.position] == g.char]
        right = [g for g in right if g.position == self._problem.position]
        insight = right and self._draw.chance(INSIGHT_PERCENT)
        guess = right[0] if insight else self._draw.choice(self._open)
        self._open.remove(guess)
        return guess

    def _look(self) -> Iterator[str]:
        exact = self._problem.issue[1] != "?"
        if self._draw.chance(50 if exact else 94):
            yield "v"

    def _edits(self, guess: Guess) -> Iterator[str]:
        """Takes back an edit elsewhere, then makes this one."""
        for position, char in enumerate(self._problem.buggy):
            if position != guess.position and self._code[position] != char:
                yield from self._edit(Guess(position, char))
        yield from self._edit(guess)

    def _edit(self, guess: Guess) -> Iterator[str]:
        before = self._code
        self._code = before[: guess.position] + guess.char + before[guess.position + 1 :]
        yield guess.action

    def careless(self) -> Iterator[str]:
        """Changes anything, or nothing, and hands it in."""
        yield from self._look()
        if self._draw.chance(70):
            position = self._draw.below(expression.LENGTH)
            chars = swe_tasks.alternatives(self._problem.buggy[position])
            yield Guess(position, self._draw.choice(chars)).action
        if self._draw.chance(30):
            yield "t"
        yield "s"

    def blind(self) -> Iterator[str]:
        """Edits without a look at what is there."""
        yield from self._edits(self._next())
        yield from ["t"] if self._draw.chance(30) else []
        yield "s"

    def hasty(self) -> Iterator[str]:
        """Looks, makes the first guess, hands it in."""
        yield from self._look()
        yield from self._edits(self._next())
        yield "s"

    def leak(self) -> Iterator[str]:
        """Copies the fix from the history."""
        yield from self._look() if self._draw.chance(30) else []
        yield "l"
        fix = Guess(self._problem.position, self._problem.fixed[self._problem.position])
        yield from self._edit(fix)
        yield from ["t"] if self._draw.chance(20) else []
        yield "s"

    def test(self) -> Iterator[str]:
        """Tests each guess and goes on until one passes; listens for the result in `passed`."""
        yield from self._look()
        while self._open:
            yield from self._edits(self._next())
            yield "t"
            if self.passed:
                if self._draw.chance(STOP_AFTER_PASS_PERCENT):
                    break
            elif self._draw.chance(GIVE_UP_PERCENT):
                break
        yield "s"

    passed = False

    def hear(self, text: str) -> None:
        """Takes in a tool's line."""
        self.passed = text.endswith("ok") and text != "ok"


def _habit(scaffold: Scaffold, draw: Draw) -> str:
    if "l" in scaffold.tools and draw.chance(LEAK_PERCENT):
        return "leak"
    return draw.weighted(HABITS)


def _skips(action: str, scaffold: Scaffold) -> bool:
    """Says whether a worker leaves this action out, because the scaffold does it or lacks it."""
    if action == "v":
        return scaffold.auto_view or "v" not in scaffold.tools
    return action == "t" and (scaffold.auto_test or "t" not in scaffold.tools)


def demonstration(index: int) -> list[Message]:
    """Returns the conversation of demonstration number `index`."""
    draw = Draw(f"nano-swe/demo/{index}")
    scaffold = draw_scaffold(draw)
    problem = problem_of(index)
    worker = _Worker(problem, draw)
    attempt = _Attempt(problem, scaffold)
    for action in getattr(worker, _habit(scaffold, draw))():
        if len(attempt.messages) > 2 * scaffold.max_turns:
            break
        if not _skips(action, scaffold):
            worker.hear(attempt.act(action))
    return attempt.messages


def problem_of(index: int) -> Problem:
    """Returns a problem on a function of the train split that is no task of that split."""
    attempts = (
        swe_tasks.generate("train", FIRST_DEMO + index, attempt) for attempt in itertools.count()
    )
    return next(problem for problem in attempts if problem)
