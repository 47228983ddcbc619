"""The race of a frozen policy: which edit gets the next attempts, and which one the tip builds on.

Where nothing is trained an attempt is cheap and tells little, and most edits do nothing. So an edit
gets attempts in blocks of eight, against the *tip* (the start and all that was accepted so far),
and loses its place as soon as a gain worth having is unlikely. One that is accepted is the new
tip; it gets fresh attempts, since the ones it won by are those that flattered it, and is taken back
where they do not bear it out. Which blocks are bought and what follows is decided here alone, so
that a simulation of the race is a simulation of what the loop does (`benchmarks/race.py`).

**Model.** logit P(task t is solved under version v) = a[t] + b[v], over all attempts that were ever
made: those at edits long dropped still say how hard a task is, and how good their parent was. a[t]
is normal about the tasks' mean, b[v] about its parent's; the posterior is Laplace's. What an edit
does to its parent gets a spike-and-slab prior (Mitchell and Beauchamp, JASA 83, 1988): nothing at
all, or normal.

**What it does not promise.** Its chances are as good as the prior, and versions that help some
kinds of tasks and harm others are outside the model. Nothing here is a proof: that is the exam's,
on tasks and attempts that the race never saw.

Shapes: T tasks, V versions (0 is the start). Effects are logits, gains shares of attempts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

Matrix = NDArray[np.float64]
EXAM: Final = 0.2
"""Of all attempts, the share that is kept for the exam."""
BLOCK: Final = 8
"""Attempts that are bought at once, each at a task of its own."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is declared before the race. Tuned by simulation on seeds that no table reports."""

    worth: float = 0.02
    """A gain is worth having above this (a share)."""
    drop: float = 0.3
    """Below this chance of such a gain an edit is dropped, unless edits are scarce."""
    hopeless: float = 0.05
    """Below this one it is dropped even then."""
    accept: float = 0.6
    """Above it the edit is the new tip."""
    keep: float = 0.3
    """A tip whose chance falls below it on fresh attempts is taken back."""
    settle: float = 0.02
    """Of the race's attempts, what a new tip gets, and at least one at every task."""
    most: float = 0.1
    """Of the race's attempts, after which an undecided edit is dropped."""
    null: float = 0.4
    """The spike: the share of edits that are expected to do nothing."""
    slab: float = 0.8
    """Deviation of the effects of the others (logits)."""
    tasks: float = 1.5
    """Deviation of the tasks' difficulties (logits)."""
    chain: float = 0.4
    """Deviation about its parent of the edit that is asked about (logits)."""
    accepted: float = 1.5
    """The same of those that it builds on: were it narrow, part of what a strong edit brought would
    be taken for the next one's."""
    dropped: float = 0.15
    """The same of one that was dropped: nearer to the spike, so that what was spent on it still
    says how good its parent is."""


TERMS: Final = Terms()
Kind = Literal["screen", "settle"]
Word = Literal["more", "dropped", "accepted", "kept", "taken back"]


class Buy(NamedTuple):
    """The next attempts: one at each of these tasks, by their places in the order."""

    version: int
    sample: int
    tasks: range
    kind: Kind


class Chance(NamedTuple):
    """What the model says of a version against its parent."""

    gain: float
    """Expected gain, in shares of attempts."""
    worth: float
    """Chance that the gain is worth having."""


class Field:
    """The logistic model over all attempts."""

    def __init__(self, tasks: int, terms: Terms = TERMS) -> None:
        self._terms = terms
        self._tried = np.zeros((tasks, 32))
        self._solved = np.zeros((tasks, 32))
        self._level = np.zeros(tasks)  # a[t]
        self._effect = np.zeros(32)  # b[v]; the start's is 0
        self._parent = [0]

    def enter(self, parent: int) -> int:
        """Adds a version that builds on `parent`, and returns the number of the new version."""
        at = len(self._parent)
        if at == self._effect.size:
            self._tried = np.pad(self._tried, ((0, 0), (0, at)))
            self._solved = np.pad(self._solved, ((0, 0), (0, at)))
            self._effect = np.pad(self._effect, (0, at))
        self._parent.append(parent)
        self._effect[at] = self._effect[parent]
        return at

    def add(self, version: int, task: int, solved: bool) -> None:
        self._tried[task, version] += 1
        self._solved[task, version] += solved

    def forget(self, version: int) -> None:
        """Removes the attempts of a version, so that they say nothing about its parent."""
        self._tried[:, version] = self._solved[:, version] = 0.0

    def comparable(self, version: int) -> bool:
        """Returns True if the version has a parent with attempts. The start has no parent."""
        return version > 0 and bool(self._tried[:, self._parent[version]].any())

    def chance(self, version: int) -> Chance:
        """Returns what the model says of a version against its parent."""
        terms, parent = self._terms, self._parent[version]
        variance = self._fit(version)
        mean = self._effect[version] - self._effect[parent]
        precision = max(1 / variance - 1 / terms.chain**2, 1e-6)  # what the data say, alone
        rates = self._level + self._effect[parent]
        slope = float((expit(rates) * expit(-rates)).mean())
        return _shrunk(float(mean / variance / precision), 1 / precision, slope, terms)

    def _fit(self, version: int) -> float:
        """Fits by Newton's method from the last fit. Returns the variance of the version's gain."""
        count, terms = len(self._parent), self._terms
        tried, solved = self._tried[:, :count], self._solved[:, :count]
        a, b, parent = self._level, self._effect[:count], np.array(self._parent)
        tree = _Tree(parent, version, terms)
        for _ in range(8):
            rate = expit(a[:, None] + b)
            off = solved - tried * rate
            inverse = tree.inverse(tried * rate * (1 - rate))
            step_a, step_b = tree.step(inverse, off.sum(1), off.sum(0), a, b)
            largest = max(float(np.abs(step_a).max()), float(np.abs(step_b).max()))
            scale = min(1.0, 2.0 / largest) if largest else 1.0
            a += scale * step_a
            b += scale * step_b
            if largest < 0.02:
                break
        return tree.variance(inverse, version)


class _Tree:
    """The Newton step where each version is normal about its parent.

    Most versions are leaves: edits that were dropped. They meet nothing but the tasks and their
    parent, so they are eliminated one by one, and what is inverted is as small as the tasks and
    the few versions that have children (Schur's complement).
    """

    def __init__(self, parent: NDArray[np.int64], version: int, terms: Terms) -> None:
        inner = np.zeros(parent.size, bool)
        inner[parent] = inner[version] = inner[0] = True
        self._parent, self._tasks = parent, 1 / terms.tasks**2  # precisions, of a[t] and of b[v]
        self._edits = np.where(inner, 1 / terms.accepted**2, 1 / terms.dropped**2)
        self._edits[version] = 1 / terms.chain**2
        self._edits[0] = 0.0
        self._inner, self._leaves = np.flatnonzero(inner), np.flatnonzero(~inner)
        self._place = np.cumsum(inner) - 1  # of an inner version among the inner ones
        self._children = np.bincount(parent, self._edits, minlength=parent.size)

    def inverse(self, weight: Matrix) -> Matrix:
        """Inverts the negative Hessian without the leaves. `weight` is tried * p * (1 - p)."""
        count, inner, leaves = len(weight), self._inner, self._leaves
        whole = np.zeros((count + inner.size,) * 2)
        spot = np.arange(count)
        whole[spot, spot] = weight.sum(1) + self._tasks
        whole[:count, :count] -= self._tasks / count
        whole[:count, count:] = weight[:, inner]
        whole[count:, :count] = weight[:, inner].T
        at = count + np.arange(inner.size)
        whole[at, at] = weight.sum(0)[inner] + self._edits[inner] + self._children[inner]
        kids = inner[inner > 0]
        rows, columns = count + self._place[kids], count + self._place[self._parent[kids]]
        whole[rows, columns] -= self._edits[kids]
        whole[columns, rows] -= self._edits[kids]
        whole[count, count] = 1e9  # the start is the origin
        self._diagonal = weight.sum(0)[leaves] + self._edits[leaves]
        self._across = np.zeros((len(whole), leaves.size))
        self._across[:count] = weight[:, leaves]
        above = count + self._place[self._parent[leaves]]
        self._across[above, np.arange(leaves.size)] = -self._edits[leaves]
        return np.linalg.inv(whole - (self._across / self._diagonal) @ self._across.T)

    def step(
        self, inverse: Matrix, off_a: Matrix, off_b: Matrix, a: Matrix, b: Matrix
    ) -> tuple[Matrix, Matrix]:
        """Returns the Newton step of a and of b. `off_a`, `off_b`: sums of solved - tried * p."""
        pull = self._edits * (b - b[self._parent])
        grad_b = off_b - pull + np.bincount(self._parent, pull, minlength=b.size)
        grad_b[0] = 0.0
        first = np.concatenate((off_a - self._tasks * (a - a.mean()), grad_b[self._inner]))
        last = grad_b[self._leaves]
        solution = inverse @ (first - self._across @ (last / self._diagonal))
        step_b = np.empty(b.size)
        step_b[self._inner] = solution[a.size :]
        step_b[self._leaves] = (last - self._across.T @ solution) / self._diagonal
        return solution[: a.size], step_b

    def variance(self, inverse: Matrix, version: int) -> float:
        """Returns the variance of b[version] - b[parent of the version]."""
        count = len(inverse) - self._inner.size
        place, parent_place = (
            count + self._place[version],
            count + self._place[self._parent[version]],
        )
        return float(
            inverse[place, place]
            + inverse[parent_place, parent_place]
            - 2 * inverse[place, parent_place]
        )


def _shrunk(likely: float, variance: float, slope: float, terms: Terms) -> Chance:
    """Spike and slab behind an estimate with this variance; `slope` turns logits into shares."""
    wide = variance + terms.slab**2
    spike = terms.null * _density(likely, variance)
    slab = (1 - terms.null) * _density(likely, wide)
    share = slab / (spike + slab)
    centre = likely * terms.slab**2 / wide
    spread = math.sqrt(variance * terms.slab**2 / wide)
    above = float(ndtr((centre - terms.worth / slope) / spread))
    return Chance(share * centre * slope, share * above)


def _density(value: float, variance: float) -> float:
    return math.exp(-min(value**2 / (2 * variance), 600.0)) / math.sqrt(variance)


class Race:
    """Who gets the next block.

    Ask `next`, make the attempts, tell `took`, and carry out the word with `go`; where `next` has
    nothing, `enter` an edit of the tip, or the race is `over`. Equal outcomes, equal purchases.
    """

    def __init__(
        self, tasks: int, attempts: int, terms: Terms = TERMS, *, edits: int | None = None
    ) -> None:
        """A race over so many search tasks, in the order in which they are bought.

        `edits` is how many can come at most. Where attempts are plenty for so few, each gets half
        of its share of what is left before an unlucky beginning can drop it.
        """
        self.field = Field(tasks, terms)
        self.trail = [0]
        """The start and what was accepted on it; the tip is the last."""
        self.bought = 0
        self._terms, self._tasks, self._attempts = terms, tasks, attempts
        self._fresh = max(tasks, int(terms.settle * attempts))
        self._unsettled = self._fresh  # attempts that the tip still gets
        self._candidate: int | None = None
        self._made = [0]  # attempts by version
        self._edits, self._patience = edits, 0

    @property
    def tip(self) -> int:
        """Returns the version that the next edit builds on."""
        return self.trail[-1]

    @property
    def settled(self) -> bool:
        """Returns True if the tip has had all its fresh attempts."""
        return self._unsettled <= 0

    @property
    def over(self) -> bool:
        """Returns True if the budget has no room for another block."""
        return self._attempts - self.bought < BLOCK

    def enter(self) -> int:
        """Adds an edit of the tip as the candidate, and returns its number."""
        self._candidate = self.field.enter(self.tip)
        if self._edits is not None:
            coming = max(1, self._edits - self._candidate + 1)
            self._patience = (self._attempts - self.bought) // (2 * coming)
        self._made.append(0)
        return self._candidate

    def next(self) -> Buy | None:
        """Returns what to buy, or None if the race needs a new edit or is over."""
        if self.over:
            return None
        if not self.settled:
            return self._buy(self.tip, "settle", self._unsettled)
        if self._candidate is not None:
            return self._buy(self._candidate, "screen", BLOCK)
        return None

    def took(self, buy: Buy, outcomes: Iterable[bool | None]) -> tuple[Word, Chance | None]:
        """Returns what follows from a block. A lost attempt (None) counts as bought, no more."""
        for task, solved in zip(buy.tasks, outcomes, strict=True):
            if solved is not None:
                self.field.add(buy.version, task, solved)
        self.bought += len(buy.tasks)
        self._made[buy.version] += len(buy.tasks)
        if buy.kind == "settle" and not self.field.comparable(buy.version):
            return "more" if self._unsettled > len(buy.tasks) else "kept", None
        chance = self.field.chance(buy.version)
        done = buy.kind == "settle" and self._unsettled <= len(buy.tasks)
        return self._word(buy, chance.worth, done), chance

    def go(self, buy: Buy, word: Word) -> None:
        """Applies the word that `took` returned."""
        if buy.kind == "settle":
            self._unsettled -= len(buy.tasks)
        if word == "accepted":
            self.trail.append(buy.version)
            self._unsettled = self._fresh
        if word in ("accepted", "dropped"):
            self._candidate = None
        if word == "taken back":
            self.trail.pop()
            self._unsettled = 0

    def give_up(self) -> None:
        """Drops the edit that is screened, or the tip if no edit is screened."""
        version = self.trail.pop() if self._candidate is None else self._candidate
        self.field.forget(version)
        self._candidate, self._unsettled = None, 0

    def forget(self, version: int) -> None:
        """Removes the attempts of a version that was dropped because its scores are invalid."""
        self.field.forget(version)

    def changed(self) -> None:
        """The model behind it is another one: what was solved before tells of the other alone.

        The tip and the edit that is screened get fresh attempts; a tip stays, unless these end it.
        """
        for version in range(len(self._made)):
            self.field.forget(version)
        self._unsettled = self._fresh

    def finish(self) -> None:
        """Takes the tip back if it ran out of attempts before it had one at each task."""
        if self.tip and self._made[self.tip] < self._tasks:
            self.trail.pop()

    def attempts(self, version: int) -> int:
        """Returns how many attempts were bought for a version."""
        return self._made[version]

    def _word(self, buy: Buy, worth: float, done: bool) -> Word:
        terms = self._terms
        if buy.kind == "settle":
            if worth < (terms.keep if done else terms.drop):
                return "taken back"
            return "kept" if done else "more"
        if worth > terms.accept:
            return "accepted"
        attempts = self._made[buy.version]
        limit = terms.hopeless if attempts < self._patience else terms.drop
        spent = attempts >= max(self._patience, terms.most * self._attempts)
        return "dropped" if worth < limit or spent else "more"

    def _buy(self, version: int, kind: Kind, most: int) -> Buy:
        """Returns the next block of a version, at most to the end of the pass over all tasks."""
        sample, start = divmod(self._made[version], self._tasks)
        stop = min(self._tasks, start + min(most, self._attempts - self.bought))
        return Buy(version, sample, range(start, stop), kind)


def racing(attempts: int) -> int:
    """Returns how many of all attempts the race may buy. The exam gets the rest."""
    return int(attempts * (1 - EXAM))


def exam_of(attempts: int, tasks: int) -> tuple[int, int]:
    """Returns each side's whole passes over the exam's tasks, and the tasks of one more."""
    return divmod((attempts - racing(attempts)) // 2, tasks) if tasks else (0, 0)
