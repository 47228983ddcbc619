"""How many attempts a run may make, and what the rest of them pays for.

Every attempt counts, in training and in evaluation, under every strategy. Only attempts on the
vault are free, because no strategy chooses by them. `lab.budget` counts them as the run comes to
them, so a resumed run decides the same again.

Where a policy is trained, at most `SEARCH_SHARE` of the budget pays for the search and at most
`CLAIM_SHARE` for the claim. The rest trains the winning harness for longer. A claim needs at least
three pairs of trainings. After its first bundle the search may take half of the rest too: an
untried idea may be worth many points, and more training is worth one or two.

Not covered: money and tokens, which have caps of their own (`llm_clients`); a candidate whose own
recipe makes more attempts per step; the attempts of a training that its harness broke off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from meta_agent.core.harness import recipe_of
from meta_agent.core.lab.live import Job
from meta_agent.core.lab.measured import attempts_of
from meta_agent.core.ledger import Ledger, Step
from meta_agent.core.ledger.kinds import Commit, StepKind
from meta_agent.core.loop.plan import MIN_PAIRS, Plan
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import HarnessTree

SEARCH_SHARE: Final = 0.4
CLAIM_SHARE: Final = 0.4
EXPERIMENT_SHARE: Final = 0.125
"""Share of the search's attempts that the experiments of one generation may take."""
_SPARED: Final = 3
"""Cells that experiments leave to the search: a bundle of two ideas, and each idea alone."""


def spent(
    ledger: Ledger,
    run: str,
    kinds: Sequence[StepKind] = ("train", "eval"),
    before: Step | None = None,
) -> int:
    """Returns how many attempts the ledger records for a run, except those on the vault split.

    `kinds` are the kinds of ledger steps that count. With `before`, only earlier steps count.
    """
    steps = [step for kind in kinds for step in ledger.steps(run, kind=kind) if step.is_done]
    return sum(
        attempts_of(step.fields)
        for step in steps
        if step.intent.get("split") != "vault" and (before is None or step.seq < before.seq)
    )


# --- how the budget is shared --------------------------------------------------------------------


def allowed(run: Run) -> int:
    """Returns how many attempts the run may make: its `--budget`, or else what its plan takes."""
    return run.config.budget or plan_attempts(run.plan, first_tree(run))


def plan_attempts(plan: Plan, tree: HarnessTree) -> int:
    """Returns how many attempts a plan takes if all its trainings run under the harness `tree`."""
    return plan.race or plan.trainings * one_cell(plan, tree)


def first_tree(run: Run) -> HarnessTree:
    """Returns the harness that the run began with."""
    step = run.ledger.step(f"{run.id}/start")
    return run.repo.tree(
        step.outcome_as(Commit)["commit"] if step and step.is_done else run.repo.head()
    )


def attempts_a_step(tree: HarnessTree) -> int:
    """Returns the most attempts that one optimiser step makes, replaced groups included."""
    return recipe_of(tree).most_rows_per_step


def one_cell(plan: Plan, tree: HarnessTree) -> int:
    """Returns how many attempts one training takes, with its evaluation on the search split."""
    return plan.steps * attempts_a_step(tree) + plan.search


def one_pair(plan: Plan, tree: HarnessTree) -> int:
    """Returns how many attempts two trainings take, with their evaluations on the confirm split."""
    return 2 * (plan.steps * attempts_a_step(tree) + plan.confirm)


def claim_pairs(plan: Plan, cap: int, tree: HarnessTree) -> int:
    """Returns how many pairs of trainings the final test gets if the run may make `cap` attempts.

    A pair trains the first harness and the new one. Returns 0 if fewer than three can be paid for.
    """
    pair = one_pair(plan, tree)
    if (pairs := int(CLAIM_SHARE * cap) // pair) >= MIN_PAIRS:
        return min(pairs, plan.looks[-1])
    enough = MIN_PAIRS * pair + 2 * plan.confirm <= (1 - SEARCH_SHARE) * cap
    return MIN_PAIRS if enough and plan.looks[-1] >= MIN_PAIRS else 0


def held_claim(run: Run) -> Plan:
    """Returns the run's plan, with as many pairs of trainings in its final test as it can pay for.

    A plan whose final test counts tasks comes back unchanged.
    """
    plan = run.plan
    if not plan.pairs:
        return plan
    return replace(plan, looks=(claim_pairs(plan, allowed(run), first_tree(run)),))


def cap_for(plan: Plan, tree: HarnessTree, pairs: int) -> int:
    """Returns the smallest budget (attempts) for `pairs` pairs of trainings in the final test."""
    pair = one_pair(plan, tree)
    cap = math.ceil(pairs * pair / CLAIM_SHARE)
    if pairs <= MIN_PAIRS:
        cap = min(cap, math.ceil((MIN_PAIRS * pair + 2 * plan.confirm) / (1 - SEARCH_SHARE)))
    return cap


def search_cap(run: Run, *, later: bool) -> int:
    """Returns how many attempts the run may have made in all when its search ends.

    After the first bundle (`later`), half of the attempts that nothing else is to use are added.
    With a frozen policy, only the final test and repeated attempts of the start are kept back.
    """
    cap, plan, tree = allowed(run), run.plan, first_tree(run)
    if plan.race:
        return plan.racing
    share, pairs = int(SEARCH_SHARE * cap), claim_pairs(plan, cap, tree)
    held = pairs * (one_pair(plan, tree) + plan.search) + 2 * (plan.confirm + plan.search)
    return share + max(0, cap - share - held) // 2 if later else share


# --- what the rest pays for ----------------------------------------------------------------------


def attempts_left(run: Run) -> int:
    """Returns how many attempts are left of the run's budget, at least 0."""
    return max(0, allowed(run) - run.lab.budget.spent)


def cells_left(run: Run, tree: HarnessTree, beside: int = 0, *, later: bool = False) -> int:
    """Returns how many trainings, each with its evaluation, the search's budget still pays for.

    It pays for `beside` other attempts first, and is larger after the first bundle (`later`).
    """
    attempts = search_cap(run, later=later) - run.lab.budget.spent - beside
    return max(0, int(attempts // one_cell(run.plan, tree)))


def attempts_of_jobs(run: Run, jobs: Sequence[Job], under: HarnessTree | None = None) -> int:
    """Returns the attempts that jobs take, with their evaluations; none if the training is made.

    A step has as many attempts as under the harness `under`, or under that of each job.
    """
    due = (job for job in jobs if not run.lab.trained(job))
    return sum(job.steps * attempts_a_step(under or job.tree) + job.limit for job in due)


def search_pays(run: Run, price: int, *, later: bool = True) -> bool:
    """Returns True if the search's part of the budget pays for `price` more attempts.

    After the first bundle (`later`) the part is larger.
    """
    return run.lab.budget.spent + price <= search_cap(run, later=later)


def pays_for(run: Run, what: str, price: int) -> bool:
    """Returns True if the run's budget pays for `price` more attempts. Tells the user if not.

    `what` says what they are for.
    """
    if not price or run.lab.budget.spent + price <= allowed(run):
        return True
    run.note(f"{what}: the budget of {allowed(run):,} attempts is used up")
    return False


def grant_of(run: Run, tree: HarnessTree, generation: int) -> tuple[int, int]:
    """Returns how many attempts a generation's proposers may still use for trials, and in all.

    Both are 0 with a frozen policy, and under a strategy that has none to give. What they may use
    in all is fixed at the first call for the generation.
    """
    if run.plan.race or run.config.strategy != "full":
        return 0, 0
    used = run.lab.budget.spent
    if generation not in run.grants:
        share = SEARCH_SHARE * allowed(run)
        spared = _SPARED * one_cell(run.plan, tree) + run.config.candidates * run.plan.search
        most = max(0, int(min(EXPERIMENT_SHARE * share, share - used - spared)))
        run.grants[generation] = used, most
    before, most = run.grants[generation]
    return max(0, most - (used - before)), most
