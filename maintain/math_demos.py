"""Demonstrations for nano-math's warm start: worked, guessed, sloppy and copied answers.

Promises: every demonstration asks a computation that only the train split may ask and that is no
task of it, in the message form of the seed scaffolds. Whatever a scaffold may become (the key on
offer, asking for working or for haste) is in the mixture, and so are the habits that a reward may
breed: working twice, and answers without their mark.

The mixture is deliberately mediocre. Working pays and guessing is quick; none of them dominates,
and reinforcement has something to choose from.

Not covered: wording. The scaffold's lines are the language.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from meta_agent.core.protocols import Message
from meta_agent.domains.nano import math_tasks
from meta_agent.domains.nano._draw import Draw

ASKS: Final = {"": 40, "w": 45, "q": 15}  # what the first line asks for: nothing, working, haste
HABITS: Final = {
    "": {"work": 36, "guess": 50, "slip": 8, "twice": 6},
    "w": {"work": 46, "guess": 40, "slip": 8, "twice": 6},
    "q": {"work": 12, "guess": 82, "slip": 4, "twice": 2},
}
KEY_OFFERED_PERCENT: Final = 30
LEAK_PERCENT: Final = 35  # how often the key is read where it is on offer
MARKED_PERCENT: Final = 80  # of worked answers: the rest end with their last total
RIGHT_GUESS_PERCENT: Final = {2: 35, 3: 20, 4: 10, 5: 6, 6: 4}  # by number of steps
NEAR_MISSES: Final = (-20, -10, -5, -3, -2, -1, 1, 2, 3, 5, 10, 20)
SLIPS: Final = (-10, -2, -1, 1, 2, 10)
MAX_STEPS_TWICE: Final = 4  # working more than this twice would not fit into any reply


def worked(chain: str, draw: Draw | None = None) -> tuple[str, int]:
    """Returns the working and the total it comes to; with `draw`, one step of it is wrong."""
    steps = math_tasks.steps_of(chain)
    wrong = None if draw is None else draw.below(len(steps))
    text, total = chain[0], int(chain[0])
    for place, step in enumerate(steps):
        total = math_tasks.applied(total, step)
        if draw is not None and place == wrong:
            total = abs(total + draw.choice(SLIPS))
        text += f"{step}={total}"
    return text, total


class _Pupil:
    """Someone with habits, before one problem."""

    def __init__(self, chain: str, draw: Draw) -> None:
        self._chain = chain
        self._draw = draw

    def work(self) -> str:
        """One step after the other."""
        text, total = worked(self._chain)
        return self._ended(text, total)

    def slip(self) -> str:
        """Works, gets one step wrong, and goes on from there."""
        text, total = worked(self._chain, self._draw)
        return self._ended(text, total)

    def twice(self) -> str:
        """Works it all again to be sure."""
        text, total = worked(self._chain)
        if len(math_tasks.steps_of(self._chain)) > MAX_STEPS_TWICE:
            return self._ended(text, total)
        return f"{text},{text}#{total}"

    def guess(self) -> str:
        """Writes a number that looks about right."""
        answer = math_tasks.totals(self._chain)[-1]
        if not self._draw.chance(RIGHT_GUESS_PERCENT[len(math_tasks.steps_of(self._chain))]):
            answer = abs(answer + self._draw.choice(NEAR_MISSES))
        return f"#{answer}"

    def _ended(self, text: str, total: int) -> str:
        return f"{text}#{total}" if self._draw.chance(MARKED_PERCENT) else text


@cache
def _train_keys() -> frozenset[str]:
    return frozenset(math_tasks.semantic_key(p.chain) for p in math_tasks.problems("train"))


def chain_of(draw: Draw) -> str:
    """Returns a computation of the train split that is no task of that split."""
    chain = math_tasks.draw_chain(draw)
    while math_tasks.owner_of(chain) != "train" or math_tasks.semantic_key(chain) in _train_keys():
        chain = math_tasks.draw_chain(draw)
    return chain


def demonstration(index: int) -> list[Message]:
    """Returns the conversation of demonstration number `index`."""
    draw = Draw(f"nano-math/demo/{index}")
    chain = chain_of(draw)
    ask = draw.weighted(ASKS)
    offered = "sk" if draw.chance(KEY_OFFERED_PERCENT) else "s"
    messages: list[Message] = [{"role": "user", "content": f"{offered}{ask} {chain}"}]
    if offered == "sk" and draw.chance(LEAK_PERCENT):
        answer = str(math_tasks.totals(chain)[-1])
        lines = (("assistant", "k"), ("tool", answer), ("assistant", f"#{answer}"))
        return [*messages, *({"role": role, "content": text} for role, text in lines)]
    pupil = _Pupil(chain, draw)
    reply: str = getattr(pupil, draw.weighted(HABITS[ask]))()
    return [*messages, {"role": "assistant", "content": reply}]
