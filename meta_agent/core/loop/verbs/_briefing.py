"""Builds the brief of a generation for the meta-agent, from the ledger and the store.

All content of a prompt is made here or in `proposers`, independent of time and machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, Literal, NamedTuple

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.lab.replies import reply_tokens
from meta_agent.core.lab.warmup import references
from meta_agent.core.ledger import Step
from meta_agent.core.ledger.kinds import Bundle, Cell, Proposal, StepKind, Verdict
from meta_agent.core.ledger.kinds import Candidate as Made
from meta_agent.core.loop.budget import cells_left
from meta_agent.core.loop.diagnostics.tend import diagnostic_terms
from meta_agent.core.loop.plan import Plan
from meta_agent.core.loop.records import Collected, Reading, candidate_from_json, machines_failed
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.spending import crosses
from meta_agent.core.loop.verbs.approve import declined, feedback
from meta_agent.core.proposals import (
    Brief,
    EvidenceSource,
    HostServices,
    PastAttempt,
    Situation,
    TriedIdea,
)
from meta_agent.core.protocols import JSON, HarnessTree, Rollout, VerdictKind
from meta_agent.core.rollouts import Stamp
from meta_agent.core.skills import Skill
from meta_agent.core.task_splits import is_shown

_SOLVED_TASKS: Final = 8
"""Training tasks whose solutions the proposers may quote."""


def brief_for(
    run: Run,
    collected: Collected,
    reading: Reading,
    generation: int,
    host: HostServices,
    situation: Situation | None,
) -> Brief:
    """Returns what a proposer receives: evidence, past ideas, skills and the host's services.

    The files in it are made only when they are read.
    """
    return Brief(
        generation=generation,
        k=run.config.candidates,
        domain=run.config.domain,
        tree=collected.tree,
        evidence=reading.evidence,
        findings=reading.findings,
        tried=tried(run, collected.version.commit),
        skills=run.skills.offered(run.config.domain),
        host=host,
        files=lambda: run.extensions.files.evidence_files(_source(run, collected, reading)),
        terms=(
            *_terms(run, collected.tree, reading, generation),
            *diagnostic_terms(run, reading.evidence),
        ),
        factors=run.factors,
        situation=_with_attempts(run, collected, reading, situation),
        untrained=reading.untrained,
        bundled=_bundled(run),
        feedback=tuple(f"{r.subject} ({r.gate}): {r.text}" for r in feedback(run)),
    )


def situation(run: Run) -> Situation:
    """Returns facts for a proposer: the domain's tools, limits and number of training tasks."""
    domain = run.lab.domain
    tasks = domain.tasks("train")
    generators = Capabilities.of(domain).generators
    view = (tasks or domain.tasks("search"))[0].view  # a frozen policy may have no train tasks
    return Situation(
        ceilings=domain.ceilings,
        tools=tuple(view.get("tools", ())),
        train_tasks=len(tasks),
        weights=_weights(run),
        reply_tokens=cache(partial(reply_tokens, domain)),
        easier=generators.easier if generators else "",
    )


def _solutions(run: Run, tree: HarnessTree) -> list[tuple[str, str]]:
    """Returns requests, as the harness words them, and accepted replies of training tasks."""
    with run.lab.session(tree) as session:
        stamp = Stamp(run.id, "references", tree.commit)
        rows = references(run.lab.domain, session, stamp, _SOLVED_TASKS)
    texts = ([str(m.get("content") or "") for m in row.messages[-2:]] for row in rows)
    return [(request, reply) for request, reply in texts]


def _weights(run: Run) -> Literal["nano", "full", "lora", "frozen"]:
    """Returns how the run's policy learns."""
    if run.config.policy == "nano":
        return "nano"
    if not run.config.trainable:
        return "frozen"
    return "lora" if run.config.lora_rank else "full"


def _with_attempts(
    run: Run, collected: Collected, reading: Reading, situation: Situation | None
) -> Situation | None:
    """Returns the situation with attempts and solved tasks, which ideas for prompts quote."""

    def attempts() -> list[Rollout]:
        if reading.behind:
            return _rollouts(run, collected)
        return _before(run, collected) if reading.untrained else []

    solutions = cache(partial(_solutions, run, collected.tree))
    return situation and replace(situation, attempts=attempts, solutions=solutions)


def tried(run: Run, base: str) -> list[TriedIdea]:
    """Returns every hypothesis that a run of this workspace judged, with its verdict.

    An INVALID that only machines or the base version caused counts as INCONCLUSIVE. These count as
    REJECT: a merge that a person declined, an idea that this run's bundle dropped, and in a search
    by single ideas every idea of this run. `base` is the commit that new ideas build on.
    """
    ideas, unwanted = [], declined(run.ledger)
    for candidate, verdict in _judged(run):
        if run.terms and candidate["run"] == run.id:
            rule = candidate["hypothesis"]["rule"]
            ideas.append(TriedIdea(rule, candidate["base"], VerdictKind.REJECT))
        if verdict is None:
            continue
        kind = VerdictKind(verdict["kind"])
        inherited = kind is VerdictKind.INVALID and verdict["base_invalid"]
        if inherited or machines_failed(verdict["evidence"]):
            kind = VerdictKind.INCONCLUSIVE
        if candidate["id"] in unwanted:
            kind = VerdictKind.REJECT
        idea = candidate["hypothesis"]["rule"], candidate["base"], kind
        ideas.append(TriedIdea(*idea, screened_out=verdict["screened_out"]))
        if candidate["run"] == run.id and "share" in verdict["evidence"]:
            ideas.append(TriedIdea(idea[0], base, VerdictKind.REJECT))  # the bundle dropped it
    return ideas


def _judged(run: Run) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """Yields every candidate of the workspace that authors may see, with its verdict or None."""
    rows = run.ledger.outcomes("verdict", Verdict)
    verdicts = {verdict["candidate"]: verdict for verdict in rows}
    for step in _spoken_of(run, "candidate"):
        candidate = step.outcome_as(Made)
        yield candidate, verdicts.get(candidate["id"])


def _spoken_of(run: Run, kind: StepKind) -> list[Step]:
    """Returns the workspace's steps, without runs that searched on this run's confirm tasks."""
    steps = [step for step in run.ledger.steps(kind=kind) if step.is_done]
    left_out = {name for name in {step.run for step in steps} if crosses(run, str(name))}
    return [step for step in steps if step.run not in left_out]


# --- the evidence as files ----------------------------------------------------------------------


def _source(run: Run, collected: Collected, reading: Reading) -> EvidenceSource:
    return EvidenceSource(
        version=collected.version.id.removeprefix(f"{run.id}/"),
        evidence=reading.evidence,
        findings=reading.findings,
        rollouts=_readable(_rollouts(run, collected)) if reading.behind else [],
        train_metrics=collected.trained.metrics if reading.behind else [],
        untrained=reading.untrained,
        before=_readable(_before(run, collected)) if reading.untrained else [],
        past=past(run, collected.version.commit),
        noted=noted(run),
        skills=_fitting(run, reading),
    )


def _rollouts(run: Run, collected: Collected) -> list[Rollout]:
    """Returns the attempts that authors may read."""
    shards = (collected.evaluated.shard, collected.trained.shard)
    return [rollout for shard in shards if shard for rollout in run.lab.rollouts(shard)]


def _readable(rollouts: list[Rollout]) -> list[Rollout]:
    return [rollout for rollout in rollouts if is_shown(rollout.task_key)]


def _before(run: Run, collected: Collected) -> list[Rollout]:
    evaluation = collected.untrained
    return run.lab.rollouts(evaluation.shard) if evaluation else []


def _fitting(run: Run, reading: Reading) -> Sequence[Skill]:
    words = " ".join(f"{alert.metric} {alert.message}" for alert in reading.evidence.alerts)
    return run.skills.find(run.config.domain, None, words, evidence=reading.evidence.to_json())


class _FirstResult(NamedTuple):
    """What a candidate did on the search split, training seed 0, before any verdict on it."""

    reason: str
    delta: float | None
    """Clean success with it less that without it, as a share. None if it was not measured."""
    interval: tuple[float, float, float] | None = None
    """That difference with its bounds, if its bundle was trained without it, too."""
    stays: bool = False


def past(run: Run, base: str) -> list[PastAttempt]:
    """Returns the edits of this workspace that have a verdict, a first result or a refusal.

    `base` is the commit of the version that the next edits change.
    """
    results, attempts = _first_results(run), list[PastAttempt]()
    for row, verdict in _judged(run):
        if verdict is not None:
            attempts.append(_with_verdict(_past_attempt(run, base, row), verdict))
        elif result := results.get(row["id"]):
            attempts.append(_with_result(_past_attempt(run, base, row), result))
    return attempts + [
        attempt for step in _spoken_of(run, "proposal") for attempt in _refused(run, step)
    ]


def _first_results(run: Run) -> dict[str, _FirstResult]:
    """Returns the results of this run's bundles and single trials, by candidate."""
    results: dict[str, _FirstResult] = {}
    for cell in run.ledger.outcomes("cell", Cell, run.id) if run.terms else ():
        moved = "not measured" if cell["delta"] is None else f"{100 * cell['delta']:+.1f} points"
        reason = f"on top of its version: {moved}"
        results[cell["members"][-1]] = _FirstResult(reason, cell["delta"])
    for bundle in run.ledger.outcomes("bundle", Bundle, run.id):
        for share in bundle["shares"]:
            stays = share["candidate"] in bundle["members"]
            where = (
                "part of what was gone on from" if stays else "in a bundle that did not do better"
            )
            reason = f"{where}: what its bundle did with it, less what it did without it"
            interval = share["delta"], share["ci_low"], share["ci_high"]
            results[share["candidate"]] = _FirstResult(reason, share["delta"], interval, stays)
    return results


def noted(run: Run) -> list[tuple[str, str]]:
    """Returns what proposers noted for later generations: (generation, text), oldest first."""
    rows = run.ledger.outcomes("proposal", Proposal, run.id)
    return [(f"g{row['generation']}", row["noted"]) for row in rows if row.get("noted")]


def _past_attempt(run: Run, base: str, row: Mapping[str, Any]) -> PastAttempt:
    """Returns a recorded candidate as an attempt of which nothing came yet."""
    candidate = candidate_from_json(dict(row))
    return PastAttempt(
        name=candidate.id.removeprefix(f"{run.id}/"),
        statement=candidate.hypothesis.statement,
        verdict="",
        factor=candidate.factor,
        hypothesis=candidate.hypothesis,
        same_base=candidate.base == base,
        paths=candidate.paths,
        diff=str(row.get("diff", "")),
    )


def _with_verdict(attempt: PastAttempt, verdict: Mapping[str, Any]) -> PastAttempt:
    effect, scored = verdict.get("effect"), verdict.get("calibration")
    return replace(
        attempt,
        verdict=str(verdict["kind"]),
        reasons=tuple(verdict["reasons"]),
        realised=scored["realised"] if scored else None,
        delta=(effect["delta"], effect["ci_low"], effect["ci_high"]) if effect else None,
        screened_out=bool(verdict["screened_out"]),
        caveat=_caveat(verdict),
    )


def _with_result(attempt: PastAttempt, result: _FirstResult) -> PastAttempt:
    """Adds a first result. Only clean success was compared: other metrics wait for the verdict."""
    compares = attempt.hypothesis is not None and attempt.hypothesis.metric == "clean_success"
    return replace(
        attempt,
        verdict="KEPT" if result.stays else "TRIED",
        reasons=(f"{result.reason} (search split, training seed 0)",),
        realised=result.delta if compares else None,
        delta=result.interval,
    )


def _caveat(verdict: Mapping[str, Any]) -> str:
    if machines_failed(verdict["evidence"]):
        return "machines failed while it was measured; this says nothing about the idea"
    if verdict["kind"] == VerdictKind.INVALID and verdict["base_invalid"]:
        return "the version it started from was INVALID already; the idea itself is undecided"
    return ""


def _refused(run: Run, step: Step) -> Iterator[PastAttempt]:
    at = step.key.removeprefix(f"{run.id}/").removesuffix("/propose")
    for row in step.outcome_as(Proposal)["refused"]:
        reasons = (f"{row['code']}: {row['reason']}",)
        yield PastAttempt(f"{at}/c{row.get('index', '?')}", row["statement"], "REFUSED", reasons)


# --- how it will be judged ----------------------------------------------------------------------


def _bundled(run: Run) -> bool:
    """Returns whether ideas are tried in bundles, and not one at a time."""
    return run.config.strategy != "score-only" and not run.plan.race and run.terms is None


def _terms(run: Run, tree: HarnessTree, reading: Reading, generation: int) -> Iterator[str]:
    plan, how = run.plan, f"measured on {run.plan.search} search tasks"
    if plan.leg:
        yield from _staged_terms(run)
        return
    if plan.trains:
        how = (
            f"trained, {plan.steps} steps of GRPO from the same base policy under their own "
            f"reward, filter, curriculum and recipe, and {how}"
        )
    else:
        yield "The policy is frozen: nothing is trained, only what acts at attempt time counts."
    if run.terms:
        yield f"Search: each idea is {how}, alone on top of its version. {run.terms.words}"
        yield _exam_terms(plan) if plan.race else _proof_terms(plan)
        return
    if plan.race:
        yield _race_sentence(plan.race, plan)
        yield _rounds(run, generation)
        yield _exam_terms(plan)
        return
    if not _bundled(run):
        yield (
            f"Search: the first idea alone is {how}; it is kept if the raw score went up. There "
            "is no proof."
        )
        return
    yield (
        f"Search: up to {run.config.candidates} ideas that merge are {how} together, and once "
        "without each of them. What does better absent is dropped; the best valid cell on the "
        "search split is gone on from, and read again. So propose everything that the evidence "
        "speaks for, strongest first: ideas mask each other, and one that does nothing alone may "
        "be what the others need."
    )
    if reading.untrained:
        yield (
            "You are shown the version twice: as the untrained policy acts under it, and as its "
            "trained policy does. A policy adapts to a fault, so look at both."
        )
    yield (
        f"{_rounds(run, generation)}{_room(run, tree, generation)} The search ends earlier where "
        "neither a bundle nor any of its cells is better and no idea waits, or where its share of "
        "the budget is spent."
    )
    yield _proof_terms(plan)
    yield (
        f"No edit changes the number of steps. What is handed over trains on past {plan.steps} "
        "for as long as it pays and attempts are left: to learn the same thing faster is worth "
        "little, to learn what more steps would not teach is worth more."
    )


def _staged_terms(run: Run) -> Iterator[str]:
    """Yields how the present stage of a staged run decides about edits, and what it claims."""
    plan = run.plan
    legs = f"legs of {plan.leg} GRPO steps, the weights going on, with edits between them"
    if run.stage_factors:
        yield (
            f"The weights are frozen in this stage: only what acts at attempt time counts. Later "
            f"the policy is trained in {legs}, also of reward, filter, curriculum and recipe."
        )
        yield _race_sentence(plan.racing, plan)
    else:
        yield (
            f"The policy is trained in {legs}. You are shown the last leg: its own attempts, and "
            f"those of its weights at {plan.search} search tasks. A reward or a filter is replayed "
            "on the leg's attempts and joins if it orders them better, or lets dead groups teach. "
            "A scaffold joins by a short race at the present weights. One curriculum or recipe at "
            "a time is tried by the next leg. A leg that does harm is taken back with its edits. A "
            "schedule or a warm-up of the recipe acts within each leg."
        )
    yield _exam_terms(plan)


def _race_sentence(attempts: int, plan: Plan) -> str:
    return (
        f"Search: a race of {attempts:,} attempts on {plan.search} search tasks. Ideas are "
        f"screened one at a time, strongest first, each on top of the best version so far, in "
        f"blocks of {plan.block} attempts, until it joins, drops out or the attempts are used up. "
        "What joins is what the next generation is shown. An idea that does not merge is left out."
    )


def _proof_terms(plan: Plan) -> str:
    return (
        "Proof: once, at the end, all of it against the start, with its weights and, where the run "
        f"pays for it, over training seeds: {plan.terms} {plan.steps} steps on either side, on "
        f"{plan.confirm} tasks of a split that you cannot see. It needs "
        f"the lower bound of the gain in clean success above {plan.min_effect:.4g}, at an error "
        f"of {plan.alpha:.4g} for the whole run."
    )


def _exam_terms(plan: Plan) -> str:
    return (
        f"Proof: once, at the end, all of it against the start, {plan.looks[0]} samples of each of "
        f"{plan.confirm} tasks that you cannot see. It needs the lower bound of the gain in clean "
        f"success above {plan.min_effect:.4g}, at an error of {plan.alpha:.4g} for the whole run."
    )


def _rounds(run: Run, generation: int) -> str:
    after = run.config.generations - generation - 1
    return f"This is generation {generation}; at most {after} more are asked for ideas after it."


def _room(run: Run, tree: HarnessTree, generation: int) -> str:
    """Returns how many more trainings the search could pay for, in words."""
    cells = cells_left(run, tree, later=generation > 0)
    return f" The search's share of the budget pays for {cells} more trainings."


def summary(outcome: JSON) -> str:
    """Returns a sentence on why a generation has nothing to try, from its record `outcome`."""
    refused = len(outcome["refused"])
    if refused:
        return f"nothing to try: {refused} of {refused} attempts were refused"
    return f"nothing to try: {outcome['nothing']}"
