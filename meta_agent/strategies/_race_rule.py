"""The race of a frozen policy decides which edit of the harness gets the next attempts.

If nothing is trained, an attempt is cheap and says little, and most edits do nothing. So an edit
gets attempts in blocks of eight and is compared with the *tip*: the start version with all edits
accepted so far. An edit is dropped once a gain worth having is unlikely. An accepted edit becomes
the new tip. It then gets fresh attempts, since the attempts that it won by flattered it. If these
do not confirm the gain, the edit is taken back: its parent is the tip again. The purchases and what
follows from them are decided only here.

**Model.** logit P(task t is solved under version v) = a[t] + b[v], over all attempts that were ever
made. Attempts with dropped edits still say how hard a task is, and how good their parent was. a[t]
is normal about the tasks' mean, b[v] about its parent's; the posterior is Laplace's. What an edit
does to its parent gets a spike-and-slab prior (Mitchell and Beauchamp, JASA 83, 1988): it is
exactly zero, or normal.

**What it does not promise.** Its chances are as good as the prior, and versions that help some
kinds of tasks and harm others are outside the model. Nothing here is a proof. That is left to the
exam: the final comparison with the start, on tasks and attempts that the race never saw.

Shapes: T tasks, V versions (0 is the start). Effects are logits, gains shares of attempts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from meta_agent.core.loop.plan import BLOCK

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RaceTerms:
    """The settings of a race, which spreads attempts over edits of the harness.

    Simulation tuned the defaults. An edit's chance is the probability of a gain above `worth`.
    """

    worth: float = 0.02
    """The gain (a share of attempts) above which an edit is worth having."""
    drop: float = 0.3
    """An edit is dropped if its chance is below this, unless edits are scarce."""
    hopeless: float = 0.05
    """An edit is dropped below this chance, even if edits are scarce."""
    accept: float = 0.6
    """An edit is accepted, and the next edits build on it, if its chance is above this."""
    keep: float = 0.3
    """An accepted edit is taken back if its chance on fresh attempts is below this."""
    settle: float = 0.02
    """The share of attempts for a new accepted edit. It gets one at every task at least."""
    most: float = 0.1
    """The share of the race's attempts after which an undecided edit is dropped."""
    null: float = 0.4
    """The prior share of edits that do nothing (the spike)."""
    slab: float = 0.8
    """The prior deviation of the effects of all other edits, in logits.

    Where hardly an attempt succeeds, it is at least `reach` times the logits of a worthy gain.
    """
    reach: float = 2.0
    tasks: float = 1.5
    """The prior deviation of the tasks' difficulties, in logits."""
    chain: float = 0.4
    """The prior deviation from its parent of the version that is asked about, in logits."""
    accepted: float = 1.5
    """The prior deviation from their parents of the versions that it builds on, in logits.

    If this were narrow, part of the effect of a strong edit would be taken for the next one's.
    """
    dropped: float = 0.15
    """The prior deviation from its parent of a dropped edit, in logits.

    It is nearer to zero, so that the attempts spent on the edit still say how good its parent is.
    """


TERMS: Final = RaceTerms()
PurchaseKind = Literal["screen", "settle"]
Word = Literal["more", "dropped", "accepted", "kept", "taken back"]


class Buy(NamedTuple):
    """The next block of attempts: one by `version` at each task in `tasks`.

    `tasks` are positions in the task order, and `sample` numbers the attempts at a task. `kind` is
    "screen" for a new edit, or "settle" for fresh attempts of the newest accepted edit.
    """

    version: int
    sample: int
    tasks: range
    kind: PurchaseKind


class Chance(NamedTuple):
    """The estimated gain of a harness version over the version that it edits."""

    gain: float
    """The expected gain in solved attempts, as a share of 1."""
    worth: float
    """The probability that the gain is above `RaceTerms.worth`."""


class Field:
    """A logistic model of whether a harness version solves a task, fitted to all attempts so far.

    Versions are numbered: 0 is the first; every later version edits an earlier one, its parent.
    """

    def __init__(self, tasks: int, terms: RaceTerms = TERMS) -> None:
        self._terms = terms
        self._tried = np.zeros((tasks, 32))
        self._solved = np.zeros((tasks, 32))
        self._level = np.zeros(tasks)  # a[t]
        self._effect = np.zeros(32)  # b[v]; the start's is 0
        self._parent = [0]

    def enter(self, parent: int) -> int:
        """Adds a harness version that edits the version `parent`, and returns its number."""
        at = len(self._parent)
        if at == self._effect.size:
            self._tried = np.pad(self._tried, ((0, 0), (0, at)))
            self._solved = np.pad(self._solved, ((0, 0), (0, at)))
            self._effect = np.pad(self._effect, (0, at))
        self._parent.append(parent)
        self._effect[at] = self._effect[parent]
        return at

    def add(self, version: int, task: int, solved: bool) -> None:
        """Records one attempt of a version at a task (its position in the task order)."""
        self._tried[task, version] += 1
        self._solved[task, version] += solved

    def forget(self, version: int) -> None:
        """Removes all attempts of a version from the model."""
        self._tried[:, version] = self._solved[:, version] = 0.0

    def comparable(self, version: int) -> bool:
        """Returns True if attempts of the version's parent are recorded; False for version 0."""
        return version > 0 and bool(self._tried[:, self._parent[version]].any())

    def chance(self, version: int) -> Chance:
        """Fits the model, and returns its estimate of a version's gain over its parent."""
        parent = self._parent[version]
        terms = self._at_the_floor(parent)
        variance = self._fit(version, terms)
        mean = self._effect[version] - self._effect[parent]
        precision = max(1 / variance - 1 / terms.chain**2, 1e-6)  # what the data say, alone
        rates = self._level + self._effect[parent]
        slope = float((expit(rates) * expit(-rates)).mean())
        return _shrunk(float(mean / variance / precision), 1 / precision, slope, terms)

    def _at_the_floor(self, parent: int) -> RaceTerms:
        """Returns terms with wider priors if a worthy gain over `parent` takes many logits.

        An edit that lets the first attempts succeed moves the logits far. Priors made for rates in
        the middle would call it hopeless before its first attempt.
        """
        terms = self._terms
        tried, solved = self._tried[:, parent].sum(), self._solved[:, parent].sum()
        rate = min(float((solved + 0.5) / (tried + 1)), 0.5)
        slab = terms.reach * float(logit(rate + terms.worth) - logit(rate))
        if slab <= terms.slab:
            return terms
        return replace(terms, slab=slab, chain=terms.chain * slab / terms.slab)

    def _fit(self, version: int, terms: RaceTerms) -> float:
        """Fits by Newton's method from the last fit. Returns the variance of the version's gain."""
        count = len(self._parent)
        tried, solved = self._tried[:, :count].copy(), self._solved[:, :count].copy()
        # One attempt of the start, half solved: without it a rate of 0 has no finite logit.
        tried[:, 0] += 1 / len(tried)
        solved[:, 0] += 0.5 / len(tried)
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
    """The Newton step of a model in which each version is normal about its parent.

    Most versions are leaves: edits that were dropped. A leaf is linked only with the tasks and its
    parent, so leaves are eliminated one by one. The matrix to invert is then as small as the tasks
    and the few versions that have children (Schur's complement).
    """

    def __init__(self, parent: NDArray[np.int64], version: int, terms: RaceTerms) -> None:
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
        """Returns the inverse of the negative Hessian, with leaves eliminated.

        `weight` is attempts * p * (1 - p) by [task, version].
        """
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
        """Returns the Newton step of `a` (tasks) and `b` (versions) from their residuals."""
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
        """Returns the variance, in logits, of a version's gain over its parent."""
        count = len(inverse) - self._inner.size
        at, above = count + self._place[[version, self._parent[version]]]
        return float(inverse[at, at] + inverse[above, above] - 2 * inverse[at, above])


def _shrunk(likely: float, variance: float, slope: float, terms: RaceTerms) -> Chance:
    """Applies the spike-and-slab prior to an estimate. `slope` turns logits into shares."""
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
    """Decides which edit of the harness gets the next block of attempts at search tasks.

    Call `next` for a block, make its attempts, and pass their outcomes to `record`, which returns a
    decision for `apply`. If `next` returns None and the race is not `over`, call `enter`.
    """

    def __init__(
        self,
        tasks: int,
        attempts: int,
        terms: RaceTerms = TERMS,
        *,
        edits: int | None = None,
        block: int = BLOCK,
    ) -> None:
        """Starts a race over `tasks` search tasks with a budget of `attempts` attempts.

        `edits` is the largest number of edits that can come. If there are many attempts for few
        edits, an edit first gets half of its share of what is left. So an unlucky beginning cannot
        drop it. `block` is the size of a block by which an edit is screened.
        """
        self.field = Field(tasks, terms)
        self.trail = [0]
        """The start and the versions accepted on it; the last one is the tip."""
        self.bought = 0
        self._terms, self._tasks, self._attempts, self._block = terms, tasks, attempts, block
        self._fresh = max(tasks, int(terms.settle * attempts))
        self._unsettled = self._fresh  # attempts that the tip still gets
        self._candidate: int | None = None
        self._made = [0]  # attempts by version
        self._edits, self._patience = edits, 0
        self._entered = 0

    @property
    def tip(self) -> int:
        """Returns the number of the newest accepted version, or 0. The next edit builds on it."""
        return self.trail[-1]

    @property
    def settled(self) -> bool:
        """Returns True if the newest accepted version has had all attempts that check its gain."""
        return self._unsettled <= 0

    @property
    def over(self) -> bool:
        """Returns True if the budget has no room for another block of attempts."""
        return self._attempts - self.bought < BLOCK

    def enter(self, dropped: int | None = None) -> int:
        """Puts an edit of the newest accepted version under test, and returns its number.

        `dropped` is the number of an edit that was dropped and is proposed again: it keeps its
        earlier attempts. None stands for a new edit.
        """
        self._entered += 1
        if self._edits is not None:
            coming = max(1, self._edits - self._entered + 1)
            self._patience = (self._attempts - self.bought) // (2 * coming)
        number = dropped
        if number is None:
            number = self.field.enter(self.tip)
            self._made.append(0)
        self._candidate = number
        return number

    def next(self) -> Buy | None:
        """Returns the next block of attempts; None if an edit is missing or the budget is spent."""
        if self.over:
            return None
        if not self.settled:
            return self._buy(self.tip, "settle", self._unsettled)
        if self._candidate is not None:
            return self._buy(self._candidate, "screen", self._block)
        return None

    def record(self, buy: Buy, outcomes: Iterable[bool | None]) -> tuple[Word, Chance | None]:
        """Records a block's outcomes. Returns what becomes of its version, and the estimated gain.

        An attempt without an outcome (None) counts as made and says nothing else. The gain is None
        if the version's parent has no attempts to compare with.
        """
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

    def apply(self, buy: Buy, word: Word) -> None:
        """Drops, accepts, keeps or takes back the version of a block, as `record` has decided."""
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
        """Drops the edit under test, or takes back the newest accepted edit if none is under test.

        The attempts of that edit are removed from the model.
        """
        version = self.trail.pop() if self._candidate is None else self._candidate
        self.field.forget(version)
        self._candidate, self._unsettled = None, 0

    def model_changed(self) -> None:
        """Forgets all outcomes, since the model that made these attempts has been replaced.

        The newest accepted version, which may be taken back, and the edit under test start again.
        """
        for version in range(len(self._made)):
            self.field.forget(version)
        self._unsettled = self._fresh

    def finish(self) -> None:
        """Takes back the newest accepted edit if it had fewer attempts than there are tasks."""
        if self.tip and self._made[self.tip] < self._tasks:
            self.trail.pop()

    def attempts(self, version: int) -> int:
        """Returns how many attempts the version has had in the race."""
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

    def _buy(self, version: int, kind: PurchaseKind, most: int) -> Buy:
        """Returns the next block of a version, at most to the end of the pass over all tasks."""
        sample, start = divmod(self._made[version], self._tasks)
        stop = min(self._tasks, start + min(most, self._attempts - self.bought))
        return Buy(version, sample, range(start, stop), kind)
