"""How much a run measures. The sizes follow from the profile and are fixed before any measurement.

The default fits 2 cores. With a trained policy, the claim buys pairs of trainings until a
sequential test decides. With a frozen policy nothing is trained and the task is the unit. Then
`full` races, and the plan declares the attempts of the race and of the exam at its end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Final, NamedTuple, Self

from meta_agent.core.config import RunConfig
from meta_agent.core.gate import Course, Terms
from meta_agent.core.gate.simulate import Analysis, Exam, Gate
from meta_agent.core.protocols import FACTORS, JSON, TRAINING_FACTORS, Domain, Factor, Split
from meta_agent.core.task_splits import SMALL, Halves

MISS: Final = 0.2
"""Chance of giving a candidate up early although it has the target effect."""
ALPHA: Final = 0.05
MIN_PAIRS: Final = 3
"""Pairs of trainings below which nothing can be proven."""
STAGED: Final = "staged"
"""The strategy that races edits with frozen weights, and then trains in legs."""
STAGED_ATTEMPTS: Final = 960
"""The default budget of a staged run, which a laptop makes in some tens of minutes."""
RACE_SHARE: Final = 0.4
"""The most of a staged budget that its race with frozen weights takes."""
LEG: Final = 4
"""Optimiser steps of a leg: a few, so that an edit acts soon and a leg that harms costs little."""
TRAININGS: Final = 25
"""Trainings that the default budget pays for: search, claim and the final training."""
EXAM: Final = 0.2
"""The share of a race's attempts that is kept for the exam, the final comparison with the start."""
BLOCK: Final = 8
"""The number of attempts that a race buys at once, each at a different task."""
AGAIN_OF: Final = 50
"""One in this many attempts of a race is repeated, to see whether the model has changed."""
UNPROVEN: Final = ("static", "imitate", "imitate-then-train", "score-only")
"""Strategies without a claim. With a frozen policy all others reserve attempts for an exam."""
_SEEDS_TRIED: Final = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48)
_TIMES_TRIED: Final = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)


class Purchase(NamedTuple):
    """An analysis of a sequential test: its number of training seeds, and if it is the last."""

    units: int
    """Training seeds."""
    final: bool
    course: Course

    @property
    def further(self) -> bool:
        """Returns True if the analysis goes beyond the planned maximum, because proof is near."""
        return self.units > self.course.maximum


def pairs_bought(plan: Plan, most: int) -> Iterator[Purchase]:
    """Yields the interim analyses of the sequential test over pairs of trainings.

    `most` pairs are planned. The first analysis is at three, or at `most` if that is less. Those
    beyond `most`, up to the plan's own maximum, are meant for a gain that is nearly proven.
    """
    further = plan.looks[-1] if plan.looks[-1] > most else 0
    course = Course(max(most, MIN_PAIRS), plan.target, further=further)
    last = max(most, further)
    for pairs in range(min(MIN_PAIRS, most), last + 1):
        yield Purchase(pairs, pairs == last, course)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The sizes of one run. Its class says whether the policy is trained."""

    steps: int
    """Optimiser steps of a full training arm."""
    looks: tuple[int, ...]
    """The most pairs of trainings that the claim may take; if frozen, the exam's samples per task.

    The search uses seed 0 and the claim seeds 1 and up, so that a lucky seed does not count twice.
    """
    search: int
    """Tasks of the search split used for evidence and screening."""
    confirm: int
    vault: int
    alpha: float
    """Chance of one false promotion in the whole run."""
    min_effect: float
    """The lower bound of a promoted gain must be above this (a share, not points)."""
    generations: int
    target: float = 0.10
    """The effect that the sequential test is tuned to find (a share)."""
    order: str = ""
    """Salt for the order in which a race takes up tasks."""
    trainings: int = 1
    """The default budget, counted in trainings of the start with their evaluation."""
    race: int = 0
    """Attempts of a frozen policy's race, including those of its exam; 0: no race."""
    extra: int = 0
    """How many of the exam's tasks get one sample more, to use up its attempts."""
    again: int = 0
    """How many attempts of the start are repeated before the exam. They show whether the model
    behind the server has changed since the race began."""
    halved: bool = False
    """Whether the search and confirm tasks are halves of one small set (`task_splits.Halves`)."""
    leg: int = 0
    """Optimiser steps of one leg. 0: the policy is not trained in legs."""
    legs: int = 0
    """The most legs of a staged run."""
    train: int | None = None
    """Number of tasks to train on. None if nothing is trained or a built-in suite decides."""

    trains: ClassVar[bool]
    factors: ClassVar[tuple[Factor, ...]]
    """The factors that a change may edit."""
    acting: ClassVar[str]
    """Whether the policy is trained, in words."""
    pairs: ClassVar[bool] = False
    """Whether the final test counts pairs of trainings. Otherwise it counts tasks."""
    block: ClassVar[int] = BLOCK
    """Attempts in one block of a race, at different tasks."""

    @property
    def racing(self) -> int:
        """Returns how many attempts a race may use to compare edits with each other."""
        return int(self.race * (1 - EXAM)) - self.again

    @property
    def split(self) -> str:
        """Returns, in words, how many tasks each split has."""
        return f"{self.search} tasks searched on, {self.confirm} to confirm on"

    @property
    def splits(self) -> str:
        """Returns, in words, how many tasks each split of a run with training has."""
        return (
            f"{self.train} tasks to train on, {self.search} to search on, "
            f"{self.confirm} to confirm on, {self.vault} in the vault"
        )

    @property
    def ties(self) -> str:
        """Returns the salt for random tie-breaks in the final test, or "" if it breaks no ties."""
        return f"ties/{self.order}" if self.race else ""

    @property
    def test(self) -> Terms:
        """Returns what is declared of the final test, apart from the plan of a sequential one."""
        return Terms(self.alpha, MISS, min_effect=self.min_effect, ties=self.ties)

    def to_json(self) -> dict[str, JSON]:
        """Returns the plan as the run stores it."""
        return {**asdict(self), "looks": list(self.looks), "frozen": not self.trains}


@dataclass(frozen=True, slots=True)
class TrainedPlan(_Sizes):
    """How much a run that trains its policy measures. Its final test counts pairs of trainings."""

    trains = True
    pairs = True
    factors = FACTORS
    acting = "trained here by GRPO"

    @property
    def split(self) -> str:
        return super(TrainedPlan, self).split if self.train is None else self.splits

    @property
    def training(self) -> str:
        """Returns how long a training is, in words to begin a sentence; "" for a frozen policy."""
        return f"{self.steps} training steps, "

    @property
    def terms(self) -> str:
        """Returns, in words, how much the run's final test measures."""
        return f"up to {self.looks[-1]} pairs of trainings, one at a time from the third on,"

    @property
    def provable(self) -> bool:
        """Returns True if the final test has enough pairs of trainings to prove any gain at all."""
        return self.looks[-1] >= MIN_PAIRS

    @property
    def seeds(self) -> range:
        """Returns the training seeds of the search (0) and of the final test (all others)."""
        return range(self.looks[-1] + 1)

    @property
    def policy_conversations(self) -> tuple[int, int]:
        """Returns (0, 0), the fewest and most calls of a server: this policy is trained here."""
        return 0, 0

    @property
    def finer(self) -> str:
        """Returns what besides more tasks detects smaller gains, such as "more training seeds"."""
        return "more training seeds"

    def gate(self) -> Gate:
        """Returns the decision rule of the final test, with all its interim analyses."""
        analyses = (
            Analysis(purchase.units, self.confirm, purchase.final, purchase.course)
            for purchase in pairs_bought(self, self.looks[-1])
        )
        return Gate(tuple(analyses), self.test)

    def more(self) -> dict[str, Iterator[tuple[int, Self]]]:
        """Returns larger plans as (number, plan), by what the number counts; smaller ones first."""
        return {"training seeds": ((n, replace(self, looks=(n,))) for n in _SEEDS_TRIED)}


@dataclass(frozen=True, slots=True)
class FrozenPlan(_Sizes):
    """How much a run with a policy behind a server measures. Its final test counts tasks."""

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
        """Returns True if there are enough confirm tasks for the exact test to prove any gain."""
        return 0.5**self.confirm <= self.alpha

    @property
    def seeds(self) -> range:
        return range(1)

    @property
    def policy_conversations(self) -> tuple[int, int]:
        if self.race:  # the fewest: no edit is proposed
            return self.search + 2 * self.vault, self.race + 2 * self.vault
        most = self.search * (1 + self.generations)  # one candidate per generation
        return self.search + self.vault, most + 2 * self.vault

    @property
    def finer(self) -> str:
        return "a larger --budget" if self.race else "more --samples"

    def gate(self) -> Exam:
        analysis = Analysis(self.looks[0], self.confirm, extra=self.extra)
        return Exam((analysis,), self.test)

    def more(self) -> dict[str, Iterator[tuple[int, Self]]]:
        return {
            "confirm tasks": ((n, replace(self, confirm=n)) for n in _times(self.confirm)),
            "samples a task": ((n, replace(self, looks=(n,))) for n in _times(self.looks[0])),
        }


@dataclass(frozen=True, slots=True)
class StagedPlan(FrozenPlan):
    """How much a run measures that races edits on attempts and then trains in legs."""

    trains = True
    factors = FACTORS
    acting = "trained here in legs of GRPO"
    block = 16  # a child process samples 16 attempts in hardly more time than 8

    @property
    def racing(self) -> int:
        return int(RACE_SHARE * self.race)

    @property
    def split(self) -> str:
        return self.splits

    @property
    def terms(self) -> str:
        return (
            f"a race of at most {self.racing:,} attempts, then at most {self.legs} legs of "
            f"{self.leg} training steps, {self.race:,} attempts in all,"
        )

    @property
    def seeds(self) -> range:
        return range(0)

    @property
    def policy_conversations(self) -> tuple[int, int]:
        return 0, 0


Plan = TrainedPlan | FrozenPlan


def _times(size: int) -> list[int]:
    return sorted({round(size * times) for times in _TIMES_TRIED})


def plan_for(config: RunConfig, domain: Domain | None = None) -> Plan:
    """Returns a run's plan: how much it measures, by `config.profile` and the number of tasks."""
    if config.trainable:
        own_domain = domain if config.own_tasks else None
        return (_staged if config.strategy == STAGED else _trained)(config, own_domain)
    plan = _frozen(config, domain)
    return plan if config.strategy in UNPROVEN else _raced(config, plan, domain)


def exam_of(attempts: int, tasks: int) -> tuple[int, int]:
    """Returns (passes, extra) for the final comparison of the best version with the first.

    Each of the two gets `passes` attempts at every task, and one more at `extra` of the tasks.
    `attempts` is the budget of race and comparison. Returns (0, 0) if `tasks` is 0.
    """
    return divmod((attempts - int(attempts * (1 - EXAM))) // 2, tasks) if tasks else (0, 0)


def _raced(config: RunConfig, plan: FrozenPlan, domain: Domain | None) -> FrozenPlan:
    """Returns a race's plan: `--budget` attempts, or enough for its candidates and samples."""
    few = 0 if domain is None else len(domain.tasks("search")) + len(domain.tasks("confirm"))
    if domain is not None and 0 < few < SMALL:
        halves = domain if isinstance(domain, Halves) else Halves(domain)
        sizes = {name: len(halves.tasks(name)) for name in ("search", "confirm")}
        plan = replace(plan, search=min(64, sizes["search"]), confirm=sizes["confirm"], halved=True)
    tried = plan.search * (1 + config.generations * config.candidates)
    needed = max(tried / (1 - EXAM), 2 * plan.confirm * config.samples / EXAM)
    attempts = config.budget or math.ceil(needed)
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


def _staged(config: RunConfig, domain: Domain | None) -> StagedPlan:
    tiny = config.profile == "tiny"
    attempts, leg = config.budget or STAGED_ATTEMPTS, 1 if tiny else LEG
    _, exam = exam_of(attempts, attempts)
    return StagedPlan(
        steps=0,
        looks=(1,),
        search=_size(domain, "search", 16 if tiny else max(32, attempts // 30)),
        confirm=_size(domain, "confirm", max(2, exam)),
        vault=_size(domain, "vault", 32 if tiny else 96),
        alpha=ALPHA,
        min_effect=0.0,
        generations=config.generations,
        order=str(config.seed),
        race=attempts,
        leg=leg,
        legs=-(-config.train_steps // leg),
        train=None if domain is None else len(domain.tasks("train")),
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
