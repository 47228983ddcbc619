"""How much a run measures: sizes that follow from the profile, declared before anything is seen.

The default fits 2 cores: a table in ARCHITECTURE.md says where its seconds go. What is found buys
pairs of training runs until a test that may stop at any moment has decided. With a frozen policy
nothing is trained and the task is the unit: `full` races (`steps.race`), and the plan declares how
many attempts it plays for and the one exam at their end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Final, NamedTuple, Self

from meta_agent.core.config import RunConfig
from meta_agent.core.gate import Course, ErrorBudget
from meta_agent.core.gate.race import EXAM, exam_of
from meta_agent.core.gate.simulate import Exam, Gate, Look
from meta_agent.core.protocols import FACTORS, JSON, TRAINING_FACTORS, Domain, Factor, Split
from meta_agent.core.task_splits import SMALL, Halves

MISS: Final = 0.2
"""Chance of giving a candidate up early although it has the effect that the test looks for."""
ALPHA: Final = 0.05
MIN_PAIRS: Final = 3
"""Pairs of trainings below which nothing can be proven."""
TRAININGS: Final = 25
"""Trainings that the default budget pays for: to search, to prove, and to go on."""
AGAIN_OF: Final = 50
"""One attempt of so many in a race is made once more, to see whether the model has changed."""
RACES: Final = ("full", "no-diagnostics")
"""Strategies that race with a frozen policy: what they differ in is not how they prove things."""
_SEEDS_TRIED: Final = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48)
_TIMES_TRIED: Final = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)


class Purchase(NamedTuple):
    """What stands behind one look at what is claimed."""

    units: int
    """Training seeds."""
    final: bool
    course: Course


def pairs_bought(most: int, target: float) -> Iterator[Purchase]:
    """The looks at pairs of trainings, at most so many.

    Two differences, however large and alike, leave the lower bound of a t-test at its worst.
    """
    course = Course("training_pairs", max(most, MIN_PAIRS), target)
    for pairs in range(min(MIN_PAIRS, most), most + 1):
        yield Purchase(pairs, pairs == most, course)


@dataclass(frozen=True, slots=True)
class Plan(ABC):
    """The sizes of one run. That a policy is trained, or is not, is said by its class alone."""

    steps: int
    """Optimiser steps of a full training arm."""
    looks: tuple[int, ...]
    """The most pairs of trainings that the claim may take; frozen: samples a task of the exam.

    Seed 0 searches; the claim uses seeds 1 and up, so that the luck by which a harness was found
    does not count again for it.
    """
    search: int
    """Tasks of the search split used for evidence and screening."""
    confirm: int
    vault: int
    alpha: float
    """Chance of one false promotion in the whole run."""
    min_effect: float
    """A promotion's lower bound has to be above this (a share, not points)."""
    generations: int
    target: float = 0.10
    """The effect that the sequential test is tuned to find (a share)."""
    order: str = ""
    """Salts the order in which a race buys tasks."""
    trainings: int = 1
    """The budget where none is declared, in trainings of the start with their evaluation."""
    race: int = 0
    """Attempts that a frozen policy's race plays for, those of its exam included; 0: no race."""
    extra: int = 0
    """Of the exam's tasks, those that get one sample more: what is left of its attempts."""
    again: int = 0
    """Of these, attempts of the start that are made once more before the exam: a model behind
    somebody's server may have changed since the race began."""
    halved: bool = False
    """Search and confirm tasks are halves of one small set (`domains.halves`)."""
    train: int | None = None
    """Tasks to train on; None: nothing is trained, or a built-in suite has its own."""

    trains: ClassVar[bool]
    factors: ClassVar[tuple[Factor, ...]]
    """What a change may be about."""
    acting: ClassVar[str]
    """What becomes of the policy, in words."""

    @property
    def split(self) -> str:
        """How the tasks to search and confirm on are used, in words."""
        return f"{self.search} tasks searched on, {self.confirm} to confirm on"

    @property
    @abstractmethod
    def training(self) -> str:
        """What a version's training is, before what it is measured on."""

    @property
    @abstractmethod
    def terms(self) -> str:
        """What is found is tested on, in words."""

    @property
    @abstractmethod
    def provable(self) -> bool:
        """Whether a claim could prove anything at all."""

    @property
    @abstractmethod
    def seeds(self) -> range:
        """Training seeds that the search and the claim may use."""

    @property
    @abstractmethod
    def policy_conversations(self) -> tuple[int, int]:
        """Returns the fewest and the most conversations with a policy behind a server."""

    @property
    @abstractmethod
    def finer(self) -> str:
        """What beside more tasks would show smaller gains."""

    @abstractmethod
    def gate(self) -> Gate:
        """The rule of the loop under this plan, with all that a claim may buy."""

    @abstractmethod
    def more(self) -> dict[str, Iterator[tuple[int, Self]]]:
        """Plans in order of cost, by what is bought more of."""

    @property
    def ties(self) -> str:
        """Salts how ties of a race's exam are broken."""
        return f"ties/{self.order}" if self.race else ""

    @property
    def budget(self) -> ErrorBudget:
        """The error budget of a claim: there is one of its kind in a run."""
        return ErrorBudget(self.alpha, futility=MISS)

    def to_json(self) -> dict[str, JSON]:
        """The plan as a run stores it."""
        return {**asdict(self), "looks": list(self.looks), "frozen": not self.trains}


@dataclass(frozen=True, slots=True)
class TrainedPlan(Plan):
    """Of a policy that is trained here: training seeds are the unit, in pairs."""

    trains = True
    factors = FACTORS
    acting = "trained here by GRPO"

    @property
    def split(self) -> str:
        if self.train is None:
            return super(TrainedPlan, self).split
        return (
            f"{self.train} tasks to train on, {self.search} to search on, "
            f"{self.confirm} to confirm on, {self.vault} in the vault"
        )

    @property
    def training(self) -> str:
        return f"{self.steps} training steps, "

    @property
    def terms(self) -> str:
        return f"up to {self.looks[-1]} pairs of trainings, one at a time from the third on,"

    @property
    def provable(self) -> bool:
        return self.looks[-1] >= MIN_PAIRS

    @property
    def seeds(self) -> range:
        return range(self.looks[-1] + 1)

    @property
    def policy_conversations(self) -> tuple[int, int]:
        return 0, 0

    @property
    def finer(self) -> str:
        return "more training seeds"

    def gate(self) -> Gate:
        looks = (
            Look(0, bought.units, self.confirm, bought.final, bought.course)
            for bought in pairs_bought(self.looks[-1], self.target)
        )
        return Gate(tuple(looks), self.budget, self.min_effect)

    def more(self) -> dict[str, Iterator[tuple[int, Self]]]:
        return {"training seeds": ((n, replace(self, looks=(n,))) for n in _SEEDS_TRIED)}


@dataclass(frozen=True, slots=True)
class FrozenPlan(Plan):
    """Of a policy behind a server: nothing is trained, and the task is the unit."""

    trains = False
    factors = tuple(factor for factor in FACTORS if factor not in TRAINING_FACTORS)
    acting = "frozen: its scaffold is evolved"

    @property
    def split(self) -> str:
        if self.race:
            return f"{self.search} tasks raced on, {self.confirm} others for the exam"
        return super(FrozenPlan, self).split

    @property
    def training(self) -> str:
        return ""

    @property
    def terms(self) -> str:
        if self.race:
            return f"a race of {self.race:,} attempts, {self.looks[0]} samples a task of its exam,"
        return f"{self.looks[-1]} samples a task"

    @property
    def provable(self) -> bool:
        """If every task spoke for a candidate, the exact test would still give 2 ** -tasks."""
        return 0.5**self.confirm <= self.budget.at(0)

    @property
    def seeds(self) -> range:
        return range(1)

    @property
    def policy_conversations(self) -> tuple[int, int]:
        if self.race:  # at least where no edit is proposed
            return self.search + 2 * self.vault, self.race + 2 * self.vault
        most = self.search * (1 + self.generations)  # one change a generation
        return self.search + self.vault, most + 2 * self.vault

    @property
    def finer(self) -> str:
        return "a larger --budget" if self.race else "more --samples"

    def gate(self) -> Exam:
        look = Look(0, self.looks[0], self.confirm, True, None, self.extra)
        return Exam((look,), self.budget, self.min_effect, self.ties)

    def more(self) -> dict[str, Iterator[tuple[int, Self]]]:
        return {
            "confirm tasks": ((n, replace(self, confirm=n)) for n in _times(self.confirm)),
            "samples a task": ((n, replace(self, looks=(n,))) for n in _times(self.looks[0])),
        }


def _times(size: int) -> list[int]:
    return sorted({round(size * times) for times in _TIMES_TRIED})


def plan_for(config: RunConfig, domain: Domain | None = None) -> Plan:
    """The plan of a profile, bounded by what a frozen policy's domain or one's own file has."""
    if config.trainable:
        return _trained(config, domain if config.own_tasks else None)
    plan = _frozen(config, domain)
    return _raced(config, plan, domain) if config.strategy in RACES else plan


def _raced(config: RunConfig, plan: FrozenPlan, domain: Domain | None) -> FrozenPlan:
    """The race's attempts: those of `--budget`, or enough for its candidates and `--samples`."""
    few = 0 if domain is None else len(domain.tasks("search")) + len(domain.tasks("confirm"))
    if domain is not None and 0 < few < SMALL:
        halves = domain if isinstance(domain, Halves) else Halves(domain)
        each = {name: len(halves.tasks(name)) for name in ("search", "confirm")}
        plan = replace(plan, search=min(64, each["search"]), confirm=each["confirm"], halved=True)
    tried = plan.search * (1 + config.generations * config.candidates)
    wanted = max(tried / (1 - EXAM), 2 * plan.confirm * config.samples / EXAM)
    attempts = config.budget or math.ceil(wanted)
    (samples, extra), confirm = exam_of(attempts, plan.confirm), plan.confirm
    if not samples:
        samples, extra, confirm = 1, 0, max(2, extra)
    again = 0 if config.policy.startswith("vllm:") else min(plan.search, attempts // AGAIN_OF)
    return replace(plan, race=attempts, confirm=confirm, looks=(samples,), extra=extra, again=again)


def _size(domain: Domain | None, split: Split, at_most: int) -> int:
    return at_most if domain is None else min(at_most, len(domain.tasks(split)))


def _frozen(config: RunConfig, domain: Domain | None) -> FrozenPlan:
    tiny = config.profile == "tiny"
    return FrozenPlan(
        steps=0,
        looks=(config.samples,),
        trainings=1 + config.generations * config.candidates,
        search=_size(domain, "search", 16 if tiny else 64),
        confirm=_size(domain, "confirm", 32 if tiny else 128),
        vault=_size(domain, "vault", 32 if tiny else 128),
        alpha=ALPHA,
        min_effect=0.0,
        generations=config.generations,
        order=str(config.seed),
    )


def _trained(config: RunConfig, domain: Domain | None) -> TrainedPlan:
    tiny = config.profile == "tiny"
    return TrainedPlan(
        steps=config.train_steps,
        looks=(3,) if tiny else (8,),
        trainings=TRAININGS,
        search=_size(domain, "search", 64 if tiny else 512),
        confirm=_size(domain, "confirm", 96 if tiny else 512),
        vault=_size(domain, "vault", 96 if tiny else 512),
        alpha=ALPHA,
        min_effect=0.0,
        generations=config.generations,
        train=None if domain is None else len(domain.tasks("train")),
    )
