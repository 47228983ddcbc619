"""Ideas that a scripted proposer has: each leaves its mark in the file of its factor.

What a harness solves follows from the marks that it holds, so a test says in one line which repairs
mask each other. Everything between proposer and hand-over is the program's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from meta_agent.core.config import RunConfig
from meta_agent.core.loop.budget import one_cell, search_cap, spent
from meta_agent.core.loop.loop import first_version, hand_over, search
from meta_agent.core.loop.records import HandedOver, Read, SearchResult, Version
from meta_agent.core.loop.verbs import propose as propose_step
from meta_agent.core.loop.verbs.cells import mixed
from meta_agent.core.loop.verbs.collect import collect
from meta_agent.core.protocols import Factor, HarnessTree, Hypothesis
from meta_agent.proposers import Proposal, RulesAgent
from meta_agent.strategies.full import Full
from tests.steps._bench import PLAN, Bench

FILES: Final[Mapping[str, str]] = {
    "scaffold": "swe/agent.py",
    "reward": "swe/reward.py",
    "filter": "swe/filter.py",
    "data": "swe/curriculum.py",
}
A_STEP: Final = 128  # attempts: 16 groups of 8 in the seed's recipe
Marks = frozenset[str]
Score = Callable[[Marks], float]


@dataclass(frozen=True)
class Idea:
    """One edit: a constant at the end of its factor's file, above its first function, or both."""

    mark: str
    factor: Factor
    first: bool = False
    both: bool = False
    after: str = ""
    """It is had only on a harness with this mark."""
    strength: float = 0.5

    def edits(self, tree: HarnessTree) -> dict[str, str]:
        path, line = FILES[self.factor], f"MARK_{self.mark} = 1\n"
        text = tree.files[path].decode()
        if self.first or self.both:
            text = text.replace("\ndef ", f"\n{line}\n\ndef ", 1)
        return {path: text if self.first else f"{text}\n\n{line}"}


def marks(tree: HarnessTree) -> Marks:
    text = b"\n".join(tree.files[path] for path in FILES.values()).decode()
    return frozenset(re.findall(r"^MARK_(\w+) = 1$", text, re.MULTILINE))


def having(bench: Bench, *ideas: Idea) -> list[Marks]:
    """From now on these are proposed, each until it is in or was judged; what was asked about."""
    asked: list[Marks] = []

    def propose(
        _evidence: Any, tree: HarnessTree, tried: Sequence[Any], *_: Any, **more: Any
    ) -> list[Proposal]:
        known = marks(tree)
        if not more.get("repair"):
            asked.append(known)
        done = known | {one.rule for one in tried}
        return [
            _proposal(idea, tree)
            for idea in ideas
            if idea.mark not in done and (not idea.after or idea.after in known)
        ]

    bench.run.extensions.proposer = RulesAgent(propose)
    bench._patch.setattr(propose_step, "_situation", lambda _: None)
    return asked


def _proposal(idea: Idea, tree: HarnessTree) -> Proposal:
    says = f"if {idea.mark} then better because so"
    told = Hypothesis(idea.factor, says, "clean_success", "up", 0.1, rule=idea.mark)
    return Proposal(told, idea.mark, idea.edits(tree), idea.strength)


def solving(bench: Bench, score: Score) -> None:
    """What a harness solves, by its marks."""
    bench.lab.script = lambda tree: score(marks(tree))


def prepare(
    bench: Bench, *, trainings: int = 30, generations: int = 4, candidates: int = 6, **changes: Any
) -> None:
    """A run whose budget is so many trainings of the start, each with its evaluation."""
    bench.lab.rollouts_a_step = A_STEP
    settings = {"generations": generations, "candidates": candidates, **changes}
    bench.run.config = RunConfig(profile="tiny").model_copy(update=settings)
    plan = replace(PLAN, generations=generations, trainings=trainings, looks=(8,))
    bench.run.plan = plan
    if "budget" not in changes:
        cap = trainings * one_cell(plan, bench.repo.tree(bench.repo.head()))
        bench.run.config = bench.run.config.model_copy(update={"budget": cap})


def searched(bench: Bench) -> SearchResult:
    """Searches. The search spends at most its share, and every attempt counts."""
    bench.forget()
    found = search(bench.run, first_version(bench.run))
    cost = spent(bench.run.ledger, "r")
    steps = [s for kind in ("train", "eval") for s in bench.run.ledger.steps("r", kind=kind)]
    assert cost == sum(step.outcome.get("rollouts", 0) for step in steps if step.is_done)
    if bench.run.config.budget is not None:
        # The start is trained and read twice, whatever is left.
        tree = bench.repo.tree(first_version(bench.run).commit)
        start = one_cell(bench.run.plan, tree) + bench.run.plan.search
        assert cost <= max(search_cap(bench.run, later=True), start)
    return found


def carried_out(bench: Bench) -> HandedOver:
    return Full().carry_out(bench.run, first_version(bench.run))


def handed_over(bench: Bench, found: SearchResult) -> HandedOver:
    return hand_over(bench.run, first_version(bench.run), found)


def outcomes(bench: Bench, kind: str) -> list[dict[str, Any]]:
    return [step.outcome for step in bench.run.ledger.steps("r", kind=kind) if step.is_done]


def in_it(bench: Bench, found: SearchResult | HandedOver) -> Marks:
    return marks(bench.repo.tree(found.version.commit))


def found_with(bench: Bench, *ideas: Idea) -> SearchResult:
    """What a search ended with that took all of these, without the search."""
    run, first = bench.run, first_version(bench.run)
    having(bench, *ideas)
    collected = collect(run, first)
    members = propose_step.propose(run, collected, bench.reading, 0)
    mix = mixed(run, first.commit, "all", members)
    run.repo.set_lead(mix.commit)
    run.lab.train(run.repo.tree(mix.commit), seed=0, steps=run.plan.steps)
    version = Version(f"v0+{len(members)}", mix.commit)
    return SearchResult(version, tuple(members), {0: Read(collected, bench.reading)})
