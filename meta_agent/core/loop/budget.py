"""What a run may spend, and what it has spent: attempts, as the ledger counts them.

Every attempt counts, in training and in evaluation alike, in every condition alike; only the vault
does not, which no condition chooses by. They are read from recorded steps, so a resumed run has
spent what it had spent, and every question is journalled, so that it decides the same again.

Where a policy is trained, at most `SEARCH_SHARE` of the budget searches, at most `CLAIM_SHARE`
proves (three pairs of trainings are the least that can), and all the rest trains what was found.
After its first bundle the search may take half of that rest too: an idea that was never tried may
be worth any number of points, and the last lengths of a training are worth one or two each.

Not covered: money and tokens, which have caps of their own (`models`); a candidate whose own recipe
makes more attempts a step; a training that its harness broke off: nobody counted its attempts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from meta_agent.core.harness import RECIPE_FILE, Recipe, parse_contract, parse_recipe
from meta_agent.core.lab.live import Job
from meta_agent.core.ledger import Ledger, Step
from meta_agent.core.ledger.kinds import Commit, Kind
from meta_agent.core.loop.plan import MIN_PAIRS, Plan
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, HarnessTree

SEARCH_SHARE: Final = 0.4
CLAIM_SHARE: Final = 0.4
EXPERIMENT_SHARE: Final = 0.125
"""Of the search's share, what the experiments of one generation may take."""
_SPARED: Final = 3
"""Cells that experiments leave to the search: a bundle of two, and each of them left out."""


def spent(
    ledger: Ledger,
    run: str,
    kinds: Sequence[Kind] = ("train", "eval"),
    before: Step | None = None,
) -> int:
    """Attempts that a run has made so far, or had when a step began; vault tasks aside."""
    steps = [step for kind in kinds for step in ledger.steps(run, kind=kind)]
    return sum(_made(step) for step in steps if before is None or step.seq < before.seq)


def allowed(run: Run) -> int:
    """The cap that was declared, or the plan's."""
    return run.config.budget or declared(run.plan, first_tree(run))


def declared(plan: Plan, tree: HarnessTree) -> int:
    """The budget of a plan where none is given, at this harness's batch."""
    return plan.race or plan.trainings * one_cell(plan, tree)


def first_tree(run: Run) -> HarnessTree:
    """The harness that the run began with: budgets are counted in its trainings."""
    step = run.ledger.step(f"{run.id}/start")
    return run.repo.tree(
        step.outcome_as(Commit)["commit"] if step and step.is_done else run.repo.head()
    )


def one_cell(plan: Plan, tree: HarnessTree) -> int:
    """Attempts to train a harness once and to measure it on the search split."""
    return plan.steps * attempts_a_step(tree) + plan.search


def one_pair(plan: Plan, tree: HarnessTree) -> int:
    """Attempts to train and confirm two harnesses once."""
    return 2 * (plan.steps * attempts_a_step(tree) + plan.confirm)


def claim_pairs(plan: Plan, cap: int, tree: HarnessTree) -> int:
    """Pairs of trainings that the claim may take; 0: the budget pays for none that could prove."""
    pair = one_pair(plan, tree)
    if (pairs := int(CLAIM_SHARE * cap) // pair) >= MIN_PAIRS:
        return min(pairs, plan.looks[-1])
    enough = MIN_PAIRS * pair + 2 * plan.confirm <= (1 - SEARCH_SHARE) * cap
    return MIN_PAIRS if enough and plan.looks[-1] >= MIN_PAIRS else 0


def held_claim(run: Run) -> Plan:
    """The plan with as many pairs as the budget holds; an exam is in a race's budget already."""
    plan = run.plan
    if not plan.trains:
        return plan
    return replace(plan, looks=(claim_pairs(plan, allowed(run), first_tree(run)),))


def cap_for(plan: Plan, tree: HarnessTree, pairs: int) -> int:
    """The least budget of a run whose claim may take so many pairs."""
    pair = one_pair(plan, tree)
    cap = math.ceil(pairs * pair / CLAIM_SHARE)
    if pairs <= MIN_PAIRS:
        cap = min(cap, math.ceil((MIN_PAIRS * pair + 2 * plan.confirm) / (1 - SEARCH_SHARE)))
    return cap


def search_cap(run: Run, *, later: bool) -> int:
    """Attempts at which the search ends; `later`: whatever comes after its first bundle.

    Of what neither searches nor is held for the claims and what explains them, it has half then.
    """
    cap, plan, tree = allowed(run), run.plan, first_tree(run)
    share, pairs = int(SEARCH_SHARE * cap), claim_pairs(plan, cap, tree)
    held = pairs * (one_pair(plan, tree) + plan.search) + 2 * (plan.confirm + plan.search)
    return share + max(0, cap - share - held) // 2 if later else share


def cells_left(
    run: Run, tree: HarnessTree, what: str, beside: int = 0, *, later: bool = False
) -> int:
    """Cells that the search may still pay for, so many attempts beside them."""

    def asked() -> JSON:
        left = search_cap(run, later=later) - spent(run.ledger, run.id) - beside
        return {"cells": max(0, int(left // one_cell(run.plan, tree)))}

    return int(run.once(f"{what}/budget", "budget", {}, asked)["cells"])


def for_experiments(run: Run, tree: HarnessTree, name: str) -> JSON:
    """The attempts that a generation's experiments may make, declared before the first."""

    def asked() -> JSON:
        used, share = spent(run.ledger, run.id), SEARCH_SHARE * allowed(run)
        spared = _SPARED * one_cell(run.plan, tree) + run.config.candidates * run.plan.search
        most = min(EXPERIMENT_SHARE * share, share - used - spared)
        return {"spent": used, "attempts": max(0, int(most))}

    return run.once(name, "budget", {}, asked)


def left_for_experiments(run: Run, declared: JSON) -> int:
    """What is left of them, since nothing else makes attempts while authors are at work."""
    used = spent(run.ledger, run.id) - int(declared["spent"])
    return max(0, int(declared["attempts"]) - used)


def pays_for_search(
    run: Run, tree: HarnessTree, what: str, trainings: Sequence[Job], *, later: bool = False
) -> bool:
    """Whether these cells fit into what is left for the search."""
    due = [job for job in trainings if not run.lab.trained(job)]
    cap = search_cap(run, later=later)
    return _pays(run, f"{what}/budget", len(due) * one_cell(run.plan, tree), cap)


def pays_for(run: Run, what: str, trainings: Sequence[Job] = (), attempts: int = 0) -> bool:
    """Whether these trainings with their evaluations, and attempts beside, fit into what is left.

    What is recorded already is to be left out of them: it costs nothing.
    """
    price = attempts + sum(job.steps * attempts_a_step(job.tree) + job.limit for job in trainings)
    if not price:
        return True
    cap = allowed(run)
    pays = _pays(run, f"{what}/budget", price, cap)
    if not pays:
        run.note(f"{what.removeprefix(f'{run.id}/')}: the budget of {cap:,} attempts is used up")
    return pays


def left(run: Run, name: str) -> int:
    """Attempts that are left, asked once under this name."""

    def asked() -> JSON:
        return {"left": max(0, allowed(run) - spent(run.ledger, run.id))}

    return int(run.once(f"{name}/left", "budget", {}, asked)["left"])


def attempts_a_step(tree: HarnessTree) -> int:
    """Attempts behind one optimiser step under this harness's recipe."""
    paths = parse_contract(tree).files_of("recipe", tree)
    found = [path for path in paths if path.rpartition("/")[2] == RECIPE_FILE]
    recipe = parse_recipe(tree.files[found[0]].decode(), found[0]) if found else Recipe()
    return recipe.rows_per_step


def _pays(run: Run, name: str, price: int, cap: int) -> bool:
    """Asked once: a run that is resumed has spent more by then, and must decide the same."""

    def asked() -> JSON:
        used = spent(run.ledger, run.id)
        return {"spent": used, "price": price, "pays": used + price <= cap}

    return bool(run.once(name, "budget", {"cap": cap}, asked)["pays"])


def _made(step: Step) -> int:
    if not step.is_done or step.intent.get("split") == "vault":
        return 0
    made = step.fields.get("rollouts")
    return made if isinstance(made, int) else 0
