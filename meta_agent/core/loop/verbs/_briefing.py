"""What the meta-agent is told: the brief of a generation, out of the ledger and the store.

Everything that a prompt may hold is made here or in `agents`, and nothing of it depends on when or
where the run happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from meta_agent.core.gate.race import BLOCK
from meta_agent.core.ledger import Step
from meta_agent.core.ledger.kinds import Bundle, Kind, Proposal, Verdict
from meta_agent.core.ledger.kinds import Candidate as Made
from meta_agent.core.loop.diagnostics._gap import gap_terms, with_leads
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
from meta_agent.core.protocols import JSON, Rollout, VerdictKind
from meta_agent.core.skills import Skill


def brief_for(
    run: Run,
    collected: Collected,
    reading: Reading,
    generation: int,
    host: HostServices,
    situation: Situation | None,
) -> Brief:
    """The brief of a generation; its files are made only when somebody reads them."""
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
        terms=(*_terms(run, reading, generation), *gap_terms(run)),
        factors=run.factors,
        situation=with_leads(run, collected, _with_attempts(run, collected, reading, situation)),
        untrained=reading.untrained,
        bundled=_bundled(run),
        feedback=tuple(f"{said.subject} ({said.gate}): {said.text}" for said in feedback(run)),
    )


def situation(run: Run) -> Situation:
    """What the domain's own documentation says, and which ceilings hold."""
    domain = run.lab.domain
    tasks = domain.tasks("train")
    view = (tasks or domain.tasks("search"))[0].view  # a frozen policy's set may train on none
    return Situation(
        ceilings=domain.ceilings,
        tools=tuple(view.get("tools", ())),
        train_tasks=len(tasks),
        weights=_weights(run),
        temperature=domain.sampling.temperature,
    )


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
    """Returns the situation with the version's attempts, which ideas for prompts quote."""

    def attempts() -> list[Rollout]:
        if reading.behind:
            return _rollouts(run, collected)
        return _before(run, collected) if reading.untrained else []

    return situation and replace(situation, attempts=attempts)


def tried(run: Run, base: str) -> list[TriedIdea]:
    """Every hypothesis that any run of this workspace judged, with its verdict.

    What a bundle of this run did better without is settled for the version it became (`base`).

    A candidate that was INVALID only because the version it started from already was, or because
    machines failed, tells nothing about its own idea: it counts as undecided. What a person did
    not want merged is as good as rejected.
    """
    found, unwanted = [], declined(run.ledger)
    for candidate, verdict in _judged(run):
        if verdict is None:
            continue
        kind = VerdictKind(verdict["kind"])
        inherited = kind is VerdictKind.INVALID and verdict["base_invalid"]
        if inherited or machines_failed(verdict["evidence"]):
            kind = VerdictKind.INCONCLUSIVE
        if candidate["id"] in unwanted:
            kind = VerdictKind.REJECT
        told = candidate["hypothesis"]["rule"], candidate["base"], kind
        found.append(TriedIdea(*told, screened_out=verdict["screened_out"]))
        if candidate["run"] == run.id and "share" in verdict["evidence"]:
            found.append(TriedIdea(told[0], base, VerdictKind.REJECT))  # dropped beside what stayed
    return found


def _judged(run: Run) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """Every candidate of the workspace that may be spoken of, and its verdict if it has one."""
    known = {told["candidate"]: told for told in run.ledger.outcomes("verdict", Verdict)}
    for step in _spoken_of(run, "candidate"):
        made = step.outcome_as(Made)
        yield made, known.get(made["id"])


def _spoken_of(run: Run, kind: Kind) -> list[Step]:
    """Steps of the workspace's runs; none of one that searched on what confirms here."""
    steps = [step for step in run.ledger.steps(kind=kind) if step.is_done]
    left_out = {name for name in {step.run for step in steps} if crosses(run, str(name))}
    return [step for step in steps if step.run not in left_out]


# --- the evidence as files ----------------------------------------------------------------------


def _source(run: Run, collected: Collected, reading: Reading) -> EvidenceSource:
    return EvidenceSource(
        version=collected.version.id.removeprefix(f"{run.id}/"),
        evidence=reading.evidence,
        findings=reading.findings,
        rollouts=_rollouts(run, collected) if reading.behind else [],
        train_metrics=collected.trained.metrics if reading.behind else [],
        untrained=reading.untrained,
        before=_before(run, collected) if reading.untrained else [],
        past=past(run, collected.version.commit),
        noted=noted(run),
        skills=_fitting(run, reading),
    )


def _rollouts(run: Run, collected: Collected) -> list[Rollout]:
    shards = (collected.evaluated.shard, collected.trained.shard)
    return [rollout for shard in shards if shard for rollout in run.lab.rollouts(shard)]


def _before(run: Run, collected: Collected) -> list[Rollout]:
    seen = collected.untrained
    return run.lab.rollouts(seen.shard) if seen else []


def _fitting(run: Run, reading: Reading) -> Sequence[Skill]:
    words = " ".join(f"{alert.metric} {alert.message}" for alert in reading.evidence.alerts)
    return run.skills.find(run.config.domain, None, words, evidence=reading.evidence.to_json())


def past(run: Run, base: str) -> list[PastAttempt]:
    """Every attempt of this workspace: refused ones too, and what waits for the claim."""
    waiting = _waiting(run)
    found = [
        _past_candidate(run, base, candidate, told)
        for candidate, verdict in _judged(run)
        if (told := verdict or waiting.get(candidate["id"]))
    ]
    return found + [one for step in _spoken_of(run, "proposal") for one in _refused(run, step)]


def _waiting(run: Run) -> dict[str, Mapping[str, Any]]:
    """What bundles of this run showed of their members, by candidate: verdicts come at the end."""
    found: dict[str, Mapping[str, Any]] = {}
    for bundle in run.ledger.outcomes("bundle", Bundle, run.id):
        for share in bundle["shares"]:
            kept = share["candidate"] in bundle["members"]
            where = (
                "part of what was gone on from" if kept else "in a bundle that did not do better"
            )
            reason = f"{where}: what its bundle did with it, less what it did without it"
            found[share["candidate"]] = {
                "kind": "KEPT" if kept else "TRIED",
                "reasons": [f"{reason} (search split, training seed 0)"],
                "effect": share,
                "screened_out": False,
                "evidence": {},
                "base_invalid": False,
                "calibration": {"realised": share["delta"]},
            }
    return found


def noted(run: Run) -> list[tuple[str, str]]:
    """What analysts of this run wrote down for later ones: generation and text, oldest first."""
    made = run.ledger.outcomes("proposal", Proposal, run.id)
    return [(f"g{told['generation']}", told["noted"]) for told in made if told.get("noted")]


def _past_candidate(
    run: Run, base: str, candidate: Mapping[str, Any], verdict: Mapping[str, Any] | None
) -> PastAttempt:
    assert verdict is not None
    known = candidate_from_json(dict(candidate))
    effect, scored = verdict.get("effect"), verdict.get("calibration")
    if verdict["kind"] in ("KEPT", "TRIED") and known.hypothesis.metric != "clean_success":
        scored = None  # its own metric is compared when its verdict is made
    return PastAttempt(
        name=known.id.removeprefix(f"{run.id}/"),
        statement=known.hypothesis.statement,
        verdict=str(verdict["kind"]),
        reasons=tuple(verdict["reasons"]),
        factor=known.factor,
        hypothesis=known.hypothesis,
        same_base=known.base == base,
        realised=scored["realised"] if scored else None,
        delta=(effect["delta"], effect["ci_low"], effect["ci_high"]) if effect else None,
        paths=known.paths,
        diff=str(candidate.get("diff", "")),
        screened_out=bool(verdict["screened_out"]),
        caveat=_caveat(verdict),
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
    """Whether ideas are tried together (`search`); by score alone or in a race, one at a time."""
    return run.config.strategy != "score-only" and not run.plan.race


def _terms(run: Run, reading: Reading, generation: int) -> Iterator[str]:
    plan, how = run.plan, f"measured on {run.plan.search} search tasks"
    if plan.trains:
        how = (
            f"trained, {plan.steps} steps of GRPO from the same base policy under their own "
            f"reward, filter, curriculum and recipe, and {how}"
        )
    else:
        yield "The policy is frozen: nothing is trained, only what acts at attempt time counts."
    if plan.race:
        yield from _race_terms(run, generation)
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
        f"{_rounds(run, generation)}{_room(run, generation)} The search ends earlier where neither "
        "a bundle nor any of its cells is better and no idea waits, or where its share of the "
        "budget is spent."
    )
    yield (
        "Proof: once, at the end, all of it against the start, with its weights and, where the run "
        f"pays for it, over training seeds: {plan.terms} {plan.steps} steps on either side, on "
        f"{plan.confirm} tasks of a split that you cannot see. It needs "
        f"the lower bound of the gain in clean success above {plan.min_effect:.4g}, at an error "
        f"of {plan.alpha:.4g} for the whole run."
    )
    yield (
        f"No edit changes the number of steps. What is handed over trains on past {plan.steps} "
        "for as long as it pays and attempts are left: to learn the same thing faster is worth "
        "little, to learn what more steps would not teach is worth more."
    )


def _race_terms(run: Run, generation: int) -> Iterator[str]:
    """How a race ranks edits and what it claims."""
    plan = run.plan
    yield (
        f"Search: a race of {plan.race:,} attempts on {plan.search} search tasks. Ideas are "
        f"screened one at a time, strongest first, each on top of the best version so far, in "
        f"blocks of {BLOCK} attempts, until it joins, drops out or the attempts are used up. What "
        "joins is what the next generation is shown. An idea that does not merge is left out."
    )
    yield _rounds(run, generation)
    yield (
        f"Proof: once, at the end, all of it against the start, {plan.looks[0]} samples of each of "
        f"{plan.confirm} tasks that you cannot see. It needs the lower bound of the gain in clean "
        f"success above {plan.min_effect:.4g}, at an error of {plan.alpha:.4g} for the whole run."
    )


def _rounds(run: Run, generation: int) -> str:
    after = run.config.generations - generation - 1
    return f"This is generation {generation}; at most {after} more are asked for ideas after it."


def _room(run: Run, generation: int) -> str:
    """What the search's share still paid for when ideas were asked for, where that was asked."""
    step = run.ledger.step(f"{run.id}/g{generation}/propose/budget")
    if step is None or not step.is_done:
        return ""
    return f" The search's share of the budget pays for {step.fields['cells']} more trainings."


def summary(outcome: JSON) -> str:
    """Why a generation has nothing to try, in a sentence."""
    refused = len(outcome["refused"])
    if refused:
        return f"nothing to try: {refused} of {refused} attempts were refused"
    return f"nothing to try: {outcome['nothing']}"
