"""How much a run measures: sizes that follow from the profile, declared before anything is seen.

The default fits 2 cores: a table in ARCHITECTURE.md says where its seconds go. A finalist buys
pairs of training runs until a test that may stop at any moment has decided. With a frozen policy
nothing is trained and the task is the unit. `full` then races (`steps.race`): it declares how many
attempts it plays for and the one exam at their end. Other searches prove each finalist: tasks are
bought block by block, and where they run out a last look buys more samples of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Final, NamedTuple

from meta_agent.backtest.measured import Block, Part
from meta_agent.config import RunConfig
from meta_agent.domains.halves import Halves
from meta_agent.gate import ONE_ATTEMPT, Course, ErrorBudget
from meta_agent.gate.race import EXAM, racing, samples_of_exam
from meta_agent.protocols import JSON, Domain, Split

MISS: Final = 0.2
"""Chance of giving a candidate up early although it has the effect that the test looks for."""
BETTING_FROM: Final = 64
"""Confirm tasks from which betting on blocks pays.

Simulated (2 samples a task, three finalists, rates of the A/A runs) against the two looks: at 64
tasks a null costs 0.18 of what the set holds instead of 0.90, and +20 points are found in 95 % of
cases instead of 100 %; at 32 tasks in 77 % instead of 99 %.
"""
ALPHA: Final = 0.05
MIN_PAIRS: Final = 3
"""Pairs of trainings below which nothing can be proven."""
TRAININGS: Final = 25
"""Trainings that the default budget pays for: to search, to prove, and to go on."""
SMALL: Final = 100
"""Tasks to search and confirm on below which a frozen policy's set is used whole, in halves."""
RACES: Final = ("full", "no-diagnostics")
"""Strategies that race with a frozen policy: what they differ in is not how they prove things."""
BETTING_SHARE: Final = 0.9
"""Of a candidate's alpha, what the blocks get; the last look gets the rest."""


class Purchase(NamedTuple):
    """What stands behind one look at a finalist."""

    stage: int
    """Which share of the error budget it draws on."""
    units: int
    """Training seeds, or tasks of a frozen policy."""
    final: bool
    course: Course | None
    """None: a look at a declared moment."""


def pairs_bought(most: int, target: float) -> Iterator[Purchase]:
    """The looks at pairs of trainings, at most so many.

    Two differences, however large and alike, leave the lower bound of a t-test at its worst.
    """
    course = Course("training_pairs", max(most, MIN_PAIRS), target)
    for pairs in range(min(MIN_PAIRS, most), most + 1):
        yield Purchase(0, pairs, pairs == most, course)


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of one run."""

    steps: int
    """Optimiser steps of a full training arm."""
    looks: tuple[int, ...]
    """The most pairs of trainings that the claim may take; frozen: samples a task at each stage.

    Seed 0 searches; the claim uses seeds 1 and up, so that the luck by which a harness was found
    does not count again for it.
    """
    finalists: int
    """Candidates per generation that go on to the confirm split."""
    search: int
    """Tasks of the search split used for evidence and screening."""
    confirm: int
    vault: int
    alpha: float
    """Chance of one false promotion in the whole run."""
    min_effect: float
    """A promotion's lower bound has to be above this (a share, not points)."""
    generations: int
    frozen: bool = False
    """The policy is not trained: looks count samples of each task."""
    block: int = 0
    """Tasks that a frozen policy is measured on at a time; 0: too few tasks to bet on."""
    target: float = 0.10
    """The effect that the sequential test is tuned to find (a share)."""
    order: str = ""
    """Salts the order in which tasks are bought."""
    trainings: int = 1
    """The budget where none is declared, in trainings of the start with their evaluation."""
    race: int = 0
    """Attempts that a frozen policy's race plays for, those of its exam included; 0: no race."""
    halved: bool = False
    """Search and confirm tasks are halves of one small set (`domains.halves`)."""

    @property
    def split(self) -> str:
        """How the tasks to search and confirm on are used, in words."""
        if self.race:
            return f"{self.search} tasks raced on, {self.confirm} others for the exam"
        return f"{self.search} tasks searched on, {self.confirm} to confirm on"

    @property
    def unit(self) -> str:
        """What a look counts."""
        return "samples a task" if self.frozen else "training seeds"

    @property
    def terms(self) -> str:
        """What a finalist is tested on, in words."""
        if not self.frozen:
            return f"up to {self.looks[-1]} pairs of trainings, one at a time from the third on,"
        if self.race:
            return f"a race of {self.race:,} attempts, {self.looks[0]} samples a task of its exam,"
        if self.block:
            return (
                f"{self.looks[0]} samples a task by blocks of {self.block} tasks, then "
                f"{self.looks[-1]} samples a task,"
            )
        return f"{' then '.join(map(str, self.looks))} {self.unit}"

    def purchases(self) -> Iterator[Purchase]:
        """All that may be bought for a finalist, in this order, until the gate decides."""
        if not self.frozen:
            yield from pairs_bought(self.looks[-1], self.target)
            return
        if self.block:
            course = Course("task_blocks", self.confirm, self.target, self.order)
            for part in self.parts(self.confirm):
                yield Purchase(0, part.at.stop, False, course)
        last = len(self.looks) - 1
        for look in range(1 if self.block else 0, last + 1):
            yield Purchase(look, self.confirm, look == last, None)

    def parts(self, tasks: int) -> list[Part]:
        """The blocks that hold the first so many tasks."""
        edges = range(0, tasks, self.block)
        return [Part(self.order, range(low, min(low + self.block, tasks))) for low in edges]

    def blocks(self, bought: Purchase) -> list[Block]:
        """The evaluations of a frozen policy behind a look; a later one adds to them."""
        edges = (0, *self.looks[: bought.stage + 1])
        samples = [range(low, high) for low, high in pairwise(edges)]
        if not self.block:
            return [Block(one) for one in samples]
        first = [Block(samples[0], part) for part in self.parts(bought.units)]
        return [*first, *(Block(one) for one in samples[1:])]

    def first_blocks(self, count: int) -> list[Block]:
        """The same by how many evaluations they are."""
        *_, everything = self.purchases()
        return self.blocks(everything)[:count]

    @property
    def provable(self) -> bool:
        """Whether a frozen policy's confirm tasks can prove anything at all.

        If every task spoke for a candidate, the exact test would still give 2 ** -tasks.
        """
        return not self.frozen or 0.5**self.confirm <= self.budget.at(len(self.looks) - 1)

    @property
    def budget(self) -> ErrorBudget:
        """The error budget over every finalist and look of the run; a race has one exam."""
        if self.race:
            return ErrorBudget(self.alpha)
        candidates = self.generations * self.finalists
        if not self.frozen:
            return ErrorBudget(self.alpha, futility=MISS)
        if not self.block:
            return ErrorBudget(self.alpha, candidates=candidates, looks=len(self.looks))
        spend = (BETTING_SHARE, 1 - BETTING_SHARE)
        return ErrorBudget(self.alpha, candidates, looks=2, spend=spend, futility=MISS)

    def to_json(self) -> dict[str, JSON]:
        """The plan as a run stores it."""
        return {**asdict(self), "looks": list(self.looks)}


def plan_for(config: RunConfig, domain: Domain | None = None) -> Plan:
    """The plan of a profile; a frozen policy's is bounded by what the domain has, where known."""
    if config.trainable:
        return _trained(config)
    plan = _frozen(config, domain)
    return _raced(config, plan, domain) if config.strategy in RACES else plan


def _raced(config: RunConfig, plan: Plan, domain: Domain | None) -> Plan:
    """The race's attempts: those of `--budget`, or enough for its candidates and `--samples`."""
    few = 0 if domain is None else len(domain.tasks("search")) + len(domain.tasks("confirm"))
    if domain is not None and 0 < few < SMALL:
        halves = domain if isinstance(domain, Halves) else Halves(domain)
        each = {name: len(halves.tasks(name)) for name in ("search", "confirm")}
        plan = replace(plan, search=min(64, each["search"]), confirm=each["confirm"], halved=True)
    tried = plan.search * (1 + config.generations * config.candidates)
    wanted = max(tried / (1 - EXAM), 2 * plan.confirm * config.samples / EXAM)
    attempts = config.budget or math.ceil(wanted)
    samples, confirm = samples_of_exam(attempts, plan.confirm), plan.confirm
    if not samples:
        samples, confirm = 1, max(2, (attempts - racing(attempts)) // 2)
    return replace(plan, race=attempts, confirm=confirm, looks=(samples,), finalists=1, block=0)


def _frozen(config: RunConfig, domain: Domain | None) -> Plan:
    tiny = config.profile == "tiny"

    def size(split: Split, at_most: int) -> int:
        return at_most if domain is None else min(at_most, len(domain.tasks(split)))

    confirm, finalists = size("confirm", 32 if tiny else 128), _finalists(config)
    each = ALPHA / (config.generations * finalists)
    return Plan(
        steps=0,
        looks=(config.samples, 2 * config.samples),
        finalists=finalists,
        trainings=1 + config.generations * config.candidates,
        search=size("search", 16 if tiny else 64),
        confirm=confirm,
        vault=size("vault", 32 if tiny else 128),
        alpha=ALPHA,
        min_effect=0.0,
        generations=config.generations,
        frozen=True,
        block=block_of(confirm),
        target=_within_reach(confirm, 2 * config.samples, (1 - BETTING_SHARE) * each),
        order=str(config.seed),
    )


def block_of(tasks: int) -> int:
    """How many tasks are bought at a time; 0 where there are too few to bet on."""
    return min(32, max(8, tasks // 16)) if tasks >= BETTING_FROM else 0


def _finalists(config: RunConfig) -> int:
    return min(config.finalists, config.candidates)


def _within_reach(tasks: int, samples: int, alpha: float) -> float:
    """The effect that the last look finds four times in five: what betting may not give up."""
    normal = NormalDist()
    variance = ONE_ATTEMPT * (0.5 + 0.5 / samples) / max(1, tasks)
    reach = normal.inv_cdf(1 - alpha) + normal.inv_cdf(0.8)
    return round(min(0.5, max(0.02, reach * math.sqrt(variance))), 4)


def _trained(config: RunConfig) -> Plan:
    tiny = config.profile == "tiny"
    return Plan(
        steps=config.train_steps,
        looks=(3,) if tiny else (8,),
        finalists=1,
        trainings=TRAININGS,
        search=64 if tiny else 512,
        confirm=96 if tiny else 512,
        vault=96 if tiny else 512,
        alpha=ALPHA,
        min_effect=0.0,
        generations=config.generations,
    )
