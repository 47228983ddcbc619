"""The claim: the search's result against the start, once, on the confirm split, at the run's alpha.

There are two kinds of claim:

* *harness*: the harness is better whichever policy it trains. The units are pairs of trainings on
  seeds from 1 up, which the search never used. A sequential test looks after each pair from the
  third on. It ends with the claim's share of the budget, unless the claim has come near: then it
  buys further pairs of what would train on.
* *version*: this harness with its weights is better than the start with its own. The tasks are the
  unit. It costs one evaluation of each side and is made in every run.

`--prove` says beforehand which of them moves `main`. A run makes at most one claim of each kind, so
the same files are never judged twice.

Not covered: which version is handed over (`strategies`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate import (
    MIN_TRAINING_SEEDS,
    Course,
    judge_live,
    verdict_from_json,
    verdict_to_json,
)
from meta_agent.core.lab.live import ArmRef, Job, Trained
from meta_agent.core.loop.budget import allowed, attempts_of_jobs, claim_pairs, first_tree, pays_for
from meta_agent.core.loop.drift import drift
from meta_agent.core.loop.plan import Purchase, pairs_bought
from meta_agent.core.loop.records import Judged, Version, failure, must_work, stopped, undecided
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.spending import begin_claim
from meta_agent.core.protocols import JSON, HarnessTree, Split, VerdictKind
from meta_agent.core.slices import clusters_of

ClaimKind = Literal["harness", "version"]
CLAIM: Final = "claim"
SPLIT: Final[Split] = "confirm"
_UNPAID: Final = "the budget pays for no claim"


class Sides(NamedTuple):
    """The two versions that a run's final test compares: the first, and the search's result."""

    before: Version
    after: Version


def prove_harness(run: Run, sides: Sides) -> Judged:
    """Returns the verdict on whether the new harness trains better policies than the first one.

    Trains pairs, the old and the new, until the test decides or its budget is used up. The verdict
    is INCONCLUSIVE if the budget pays for none, and INVALID if the new harness fails.
    """
    most = claim_pairs(run.plan, allowed(run), first_tree(run))
    judged = None
    try:
        for purchase in pairs_bought(run.plan, most) if most else ():
            if not _affordable(run, sides, purchase):
                break
            judged = _look(run, sides, purchase)
            if not _goes_on(judged, purchase.course):
                break
    except CandidateError as error:
        judged = stopped((failure(error),))
    return judged or undecided(_UNPAID)


def prove_version(run: Run, sides: Sides, weights: tuple[Trained, Trained]) -> Judged:
    """Returns the verdict on whether the new version with its weights beats the first with its own.

    `weights` are those of the first and of the new version. The verdict is INCONCLUSIVE if the
    budget does not pay for the test, and INVALID if a harness fails.
    """
    limit = run.plan.confirm
    trees = _trees(run, sides)
    run.phase("claim", f"this version against the start, {limit} confirm tasks")
    if not pays_for(run, f"{CLAIM}/version", 2 * limit):
        return undecided(_UNPAID)
    begin_claim(run)

    def arm(name: str, tree: HarnessTree, trained: Trained) -> ArmRef:
        evaluation = run.lab.evaluate(tree, trained, split=SPLIT, limit=limit)
        return run.lab.arm_of(name, tree, {0: evaluation})

    with must_work(sides.before):
        before = arm("baseline", trees[0], weights[0])
    try:
        after = arm("found", trees[1], weights[1])
    except CandidateError as error:
        return stopped((failure(error),))
    return _judged(run, "version", (before, after), course=None, look=0, final=True)


def examine(run: Run, sides: Sides) -> Judged:
    """Returns the verdict on whether a frozen policy does better under the new version.

    Both versions attempt the same confirm tasks. The verdict is INVALID if the new harness fails.
    """
    plan, trees = run.plan, _trees(run, sides)
    samples, names = plan.looks[0], ("baseline", "found")
    run.phase("claim", f"an exam: {plan.confirm} tasks, {samples} attempts at each, either side")
    begin_claim(run)

    def guard(name: str) -> AbstractContextManager[None]:
        return must_work(sides.before) if name == "baseline" else nullcontext()

    try:
        refs = run.lab.side_by_side(
            dict(zip(names, trees, strict=True)),
            samples=samples,
            extra=plan.extra,
            split=SPLIT,
            limit=plan.confirm,
            order=plan.order,
            guard=guard,
        )
    except CandidateError as error:
        return stopped((failure(error),))
    return _judged(run, "version", (refs[0], refs[1]), course=None, look=0, final=True)


# --- looks ---------------------------------------------------------------------------------------


def _look(run: Run, sides: Sides, purchase: Purchase) -> Judged:
    pairs, course = purchase.units, purchase.course
    near = f", as {course.maximum} have come near" if purchase.further else ""
    most = course.further if purchase.further else course.maximum
    words = f"this harness against the start: {pairs} of at most {most} training pairs{near}"
    run.phase("claim", words)
    begin_claim(run)
    plan, trees = run.plan, _trees(run, sides)
    run.lab.prepare(_jobs(run, sides, pairs))
    seeds = proof_seeds(pairs)
    with must_work(sides.before):
        before = run.lab.arm(
            "baseline", trees[0], seeds=seeds, steps=plan.steps, split=SPLIT, limit=plan.confirm
        )
    after = run.lab.arm(
        "found", trees[1], seeds=seeds, steps=plan.steps, split=SPLIT, limit=plan.confirm
    )
    # The gain of seed 0 on the search split, so that the gate can see a collapse there.
    jobs = [Job(tree, 0, plan.steps, "search", plan.search) for tree in trees]
    shares = [run.lab.measure(job).clean_success for job in jobs]
    elsewhere, refs = (shares[1] - shares[0],), (before, after)
    return _judged(
        run, "harness", refs, course=course, look=pairs, final=purchase.final, elsewhere=elsewhere
    )


def proof_seeds(pairs: int) -> range:
    """Returns the training seeds of a final test of `pairs` pairs; the search never uses them."""
    return range(1, pairs + 1)


def _judged(
    run: Run,
    kind: ClaimKind,
    refs: tuple[ArmRef, ArmRef],
    *,
    course: Course | None,
    look: int,
    final: bool,
    elsewhere: tuple[float, ...] = (),
) -> Judged:
    def judge() -> JSON:
        arms = run.lab.rows(refs[0]), run.lab.rows(refs[1])
        terms = replace(
            run.plan.test,
            min_seeds=MIN_TRAINING_SEEDS if kind == "harness" else 1,
            final=final,
            course=course,
            elsewhere=elsewhere,
            clusters=clusters_of(run.lab.domain, SPLIT) or None,
        )
        findings = (*run.lab.inspector.handed_over(refs, arms), *drift(run, refs))
        verdict = judge_live(*arms, terms, findings)
        evidence = {**verdict.evidence, "claim": {"kind": kind}}
        return {
            "candidate": f"{run.id}/{CLAIM}",
            "claim": kind,
            "split": SPLIT,
            **({"seeds": look} if look else {}),
            "verdict": verdict_to_json(replace(verdict, evidence=evidence)),
            "arms": [ref.to_json() for ref in refs],
        }

    name = f"{CLAIM}/{kind}/look{look}"
    outcome = run.once(name, "live", {"claim": kind, "look": look}, judge)
    return Judged(verdict_from_json(outcome["verdict"]), refs)


def _goes_on(judged: Judged, course: Course) -> bool:
    """Returns whether the claim is open: undecided, its target gain possible, pairs left to buy."""
    if judged.verdict.kind is not VerdictKind.INCONCLUSIVE:
        return False
    numbers = judged.verdict.evidence["numbers"]
    if numbers["given_up"]:
        return False
    return course.goes_on(numbers["units"], numbers["wealth"], numbers["bar"])


def _trees(run: Run, sides: Sides) -> tuple[HarnessTree, HarnessTree]:
    return run.repo.tree(sides.before.commit), run.repo.tree(sides.after.commit)


def _jobs(run: Run, sides: Sides, pairs: int) -> list[Job]:
    """Returns the trainings of these pairs, each with its evaluation."""
    plan = run.plan
    return [
        Job(tree, seed, plan.steps, SPLIT, plan.confirm)
        for seed in proof_seeds(pairs)
        for tree in _trees(run, sides)
    ]


def _affordable(run: Run, sides: Sides, purchase: Purchase) -> bool:
    """Returns whether the budget pays for these pairs and for what has to follow them.

    The version claim has to follow. After further pairs so do the attribution of the gain, and an
    evaluation of each seed's weights on search, which no share of the budget is held for.
    """
    pairs, plan = purchase.units, run.plan
    after = 2 * plan.confirm + ((2 + pairs) * plan.search if purchase.further else 0)
    price = attempts_of_jobs(run, _jobs(run, sides, pairs))
    return pays_for(run, f"{CLAIM}/harness/look{pairs}", price + after)
