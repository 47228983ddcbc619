"""How much a run measures: sizes that follow from the profile, declared before anything is seen.

The default fits 2 cores: a table in ARCHITECTURE.md says where its seconds go. What is found buys
pairs of training runs until a test that may stop at any moment has decided. With a frozen policy
nothing is trained and the task is the unit: `full` races (`steps.race`), and the plan declares how
many attempts it plays for and the one exam at their end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Final, NamedTuple

from meta_agent.config import RunConfig
from meta_agent.domains.dealt import Halves
from meta_agent.domains.fit import SMALL
from meta_agent.gate import Course, ErrorBudget
from meta_agent.gate.race import EXAM, exam_of
from meta_agent.gate.simulate import Gate, Look
from meta_agent.protocols import JSON, Domain, Split

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


class Purchase(NamedTuple):
    """What stands behind one look at what is claimed."""

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
        yield Purchase(pairs, pairs == most, course)


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of one run."""

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
    frozen: bool = False
    """The policy is not trained: looks count samples of each task."""
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

    @property
    def split(self) -> str:
        """How the tasks to search and confirm on are used, in words."""
        if self.race:
            return f"{self.search} tasks raced on, {self.confirm} others for the exam"
        if self.train is not None:
            return (
                f"{self.train} tasks to train on, {self.search} to search on, "
                f"{self.confirm} to confirm on, {self.vault} in the vault"
            )
        return f"{self.search} tasks searched on, {self.confirm} to confirm on"

    @property
    def ties(self) -> str:
        """Salts how ties of a frozen policy's exam are broken."""
        return f"ties/{self.order}" if self.race else ""

    @property
    def unit(self) -> str:
        """What a look counts."""
        return "samples a task" if self.frozen else "training seeds"

    @property
    def terms(self) -> str:
        """What is found is tested on, in words."""
        if not self.frozen:
            return f"up to {self.looks[-1]} pairs of trainings, one at a time from the third on,"
        if self.race:
            return f"a race of {self.race:,} attempts, {self.looks[0]} samples a task of its exam,"
        return f"{self.looks[-1]} {self.unit}"

    def purchases(self) -> Iterator[Purchase]:
        """All that may be bought for a claim, in this order, until the gate decides."""
        if self.frozen:
            yield Purchase(self.confirm, True, None)
        else:
            yield from pairs_bought(self.looks[-1], self.target)

    @property
    def provable(self) -> bool:
        """Whether a frozen policy's confirm tasks can prove anything at all.

        If every task spoke for a candidate, the exact test would still give 2 ** -tasks.
        """
        return not self.frozen or 0.5**self.confirm <= self.budget.at(0)

    @property
    def budget(self) -> ErrorBudget:
        """The error budget of a claim: there is one of its kind in a run."""
        return ErrorBudget(self.alpha, futility=MISS)

    def to_json(self) -> dict[str, JSON]:
        """The plan as a run stores it."""
        return {**asdict(self), "looks": list(self.looks)}


def gate_of(plan: Plan) -> Gate:
    """The rule of the loop under this plan, with all that a claim may buy."""

    def look(bought: Purchase) -> Look:
        size = (plan.looks[0], bought.units) if plan.frozen else (bought.units, plan.confirm)
        return Look(0, *size, bought.final, bought.course, plan.extra)

    looks = tuple(map(look, plan.purchases()))
    return Gate(looks, plan.budget, plan.min_effect, plan.frozen, plan.ties)


def plan_for(config: RunConfig, domain: Domain | None = None) -> Plan:
    """The plan of a profile, bounded by what a frozen policy's domain or one's own file has."""
    if config.trainable:
        return _trained(config, domain if config.own_tasks else None)
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
    (samples, extra), confirm = exam_of(attempts, plan.confirm), plan.confirm
    if not samples:
        samples, extra, confirm = 1, 0, max(2, extra)
    again = 0 if config.policy.startswith("vllm:") else min(plan.search, attempts // AGAIN_OF)
    return replace(plan, race=attempts, confirm=confirm, looks=(samples,), extra=extra, again=again)


def _size(domain: Domain | None, split: Split, at_most: int) -> int:
    return at_most if domain is None else min(at_most, len(domain.tasks(split)))


def _frozen(config: RunConfig, domain: Domain | None) -> Plan:
    tiny = config.profile == "tiny"
    return Plan(
        steps=0,
        looks=(config.samples,),
        trainings=1 + config.generations * config.candidates,
        search=_size(domain, "search", 16 if tiny else 64),
        confirm=_size(domain, "confirm", 32 if tiny else 128),
        vault=_size(domain, "vault", 32 if tiny else 128),
        alpha=ALPHA,
        min_effect=0.0,
        generations=config.generations,
        frozen=True,
        order=str(config.seed),
    )


def _trained(config: RunConfig, domain: Domain | None) -> Plan:
    tiny = config.profile == "tiny"
    return Plan(
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
