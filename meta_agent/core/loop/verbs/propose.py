"""Asks the meta-agent for candidates, and makes commits of the edits that it hands back.

Rules and language models hand back the same drafts. Both pass the same checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from meta_agent.core.errors import CandidateError
from meta_agent.core.harness import HarnessContract, parse_contract
from meta_agent.core.lab.warmup import NEAR_ZERO
from meta_agent.core.loop.budget import grant_of
from meta_agent.core.loop.records import Collected, Reading, candidate_from_json, candidate_to_json
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs._briefing import brief_for, summary
from meta_agent.core.loop.verbs._briefing import situation as _situation
from meta_agent.core.loop.verbs._host import Host
from meta_agent.core.loop.verbs.test import factor_veto
from meta_agent.core.proposals import RULES, Draft, Refused
from meta_agent.core.protocols import (
    JSON,
    TRAINING_FACTORS,
    Candidate,
    Factor,
    HarnessTree,
    Hypothesis,
)

__all__ = ["admit", "candidate_row", "propose", "revise"]


def propose(run: Run, collected: Collected, reading: Reading, generation: int) -> list[Candidate]:
    """Asks the proposer for edits of the harness; returns those whose commits were accepted."""
    offer_warmup(run, collected)
    run.phase("propose", f"generation {generation}: up to {run.config.candidates} candidates")
    grant_of(run, collected.tree, generation)
    outcome = run.once_with_trials(
        f"g{generation}/propose",
        "proposal",
        {"base": collected.version.commit, "k": run.config.candidates},
        lambda: _propose(run, collected, reading, generation),
    )
    for refused in outcome["refused"]:
        run.note(f"refused before any test: {refused['statement']}: {refused['reason']}")
    candidates = [candidate_from_json(row) for row in outcome["admitted"]]
    if not candidates:
        run.note(summary(outcome))
    for candidate in candidates:
        run.once(
            candidate.id,
            "candidate",
            {"commit": candidate.commit},
            partial(candidate_row, run, candidate),
        )
        run.note(f"{candidate.id}: {candidate.hypothesis.label}: {candidate.hypothesis.statement}")
    return candidates


def offer_warmup(run: Run, collected: Collected) -> None:
    """Records a version's clean training attempts as rows to imitate, if it solves few tasks."""
    evaluation, shard = collected.evaluated, collected.trained.shard
    if run.plan.steps and shard and evaluation.clean < NEAR_ZERO * evaluation.planned:
        attempts = run.lab.rollouts(shard, tokens=True)
        run.lab.choose_warmup((a for a in attempts if a.clean), replay=False)


def candidate_row(run: Run, candidate: Candidate) -> JSON:
    """Returns a candidate with its diff, as the ledger records it."""
    diff = run.repo.diff(candidate.base, candidate.commit)
    return {**candidate_to_json(candidate), "diff": diff}


def _propose(run: Run, collected: Collected, reading: Reading, generation: int) -> JSON:
    host = Host(run, collected, generation)
    brief = brief_for(run, collected, reading, generation, host, _situation(run))
    proposed = run.extensions.proposer.propose(brief)
    answers = proposed.attempts
    admitted: list[Candidate] = []
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    for draft in (answer for answer in answers if isinstance(answer, Draft)):
        try:
            admitted.append(admit(run, collected.tree, draft, generation))
        except CandidateError as error:
            statement = draft.hypothesis.statement
            refused.append(Refused(draft.index, statement, str(error), error.reason, draft.spend))
    return {
        "generation": generation,
        "bottleneck": _bottleneck(answers),
        "candidates": [candidate.id for candidate in admitted],
        "skills": sorted({name for c in admitted for name in c.hypothesis.skills}),
        "admitted": [candidate_to_json(candidate) for candidate in admitted],
        "refused": [r.to_json() for r in sorted(refused, key=lambda r: r.index)],
        "nothing": proposed.nothing,
        "noted": proposed.noted,
    }


def revise(
    run: Run, collected: Collected, reading: Reading, candidate: Candidate, feedback: str
) -> Candidate | None:
    """Returns a candidate's revision after a person's feedback, or None if its author made none.

    The revision is a new candidate: among three, `g0/c1` comes back as `g0/c4`, then as `g0/c7`.
    """
    if run.author == RULES:
        return None
    index = candidate.index + run.config.candidates
    outcome = run.once_with_trials(
        f"g{candidate.generation}/c{index}/revision",
        "revision",
        {"commit": candidate.commit, "feedback": feedback},
        lambda: _revised(run, collected, reading, candidate, index, feedback),
    )
    if refused := outcome["refused"]:
        run.note(f"{candidate.id}: no revision came of it: {refused['reason']}")
        return None
    revised = candidate_from_json(outcome["admitted"])
    run.once(
        revised.id, "candidate", {"commit": revised.commit}, partial(candidate_row, run, revised)
    )
    run.note(f"{candidate.id} comes back as {revised.id}: {revised.hypothesis.statement}")
    return revised


def _revised(
    run: Run,
    collected: Collected,
    reading: Reading,
    candidate: Candidate,
    index: int,
    feedback: str,
) -> JSON:
    generation = candidate.generation
    host = Host(run, collected, generation)
    brief = brief_for(run, collected, reading, generation, host, _situation(run))
    after = run.repo.tree(candidate.commit).files
    edits = {path: after.get(path) for path in candidate.paths}
    answer = run.extensions.proposer.revise(brief, index, candidate.hypothesis, edits, feedback)
    if isinstance(answer, Refused):
        return {"admitted": None, "refused": answer.to_json()}
    try:
        admitted = admit(run, collected.tree, answer, generation)
    except CandidateError as error:
        statement = answer.hypothesis.statement
        refused = Refused(index, statement, str(error), error.reason, answer.spend)
        return {"admitted": None, "refused": refused.to_json()}
    return {"admitted": candidate_to_json(admitted), "refused": None}


def _bottleneck(answers: Sequence[Draft | Refused]) -> str | None:
    drafts = [answer for answer in answers if isinstance(answer, Draft)]
    return drafts[0].hypothesis.metric if drafts else None


def admit(run: Run, base: HarnessTree, draft: Draft, generation: int) -> Candidate:
    """Commits a proposed change on `base` and returns it as a candidate.

    Raises CandidateError if the change is refused.
    """
    hypothesis, name = draft.hypothesis, f"g{generation}/c{draft.index}"
    ref = f"refs/heads/candidate/{run.id}/{name.replace('/', '')}"
    contract = parse_contract(base)
    commit = run.repo.admit(
        draft.edits,
        base=base.commit,
        ref=ref,
        message=draft.message,
        when=run.date(generation, draft.index),
        editable=contract.editable,
        protected=contract.protected,
        replaces=run.repo.tip(ref),
    )
    factor = _factor(contract, commit.paths, hypothesis)
    if untrainable := [f for f in (factor, *hypothesis.factors) if f not in run.factors]:
        raise CandidateError(factor_veto(run, untrainable[0]).message, reason="factor_untrained")
    return Candidate(
        id=f"{run.id}/{name}",
        run=run.id,
        generation=generation,
        index=draft.index,
        ref=ref,
        base=base.commit,
        commit=commit.commit,
        tree_hash=commit.tree_hash,
        factor=factor,
        hypothesis=hypothesis,
        paths=tuple(commit.paths),
    )


def _factor(contract: HarnessContract, paths: Sequence[str], hypothesis: Hypothesis) -> Factor:
    """Returns the factor that a candidate is judged by. Raises CandidateError if it does not match.

    A combined change counts as its first factor that acts through training. Judged as a scaffold,
    it would be ranked on a policy that its other half never trained.
    """
    if not hypothesis.factors:
        factor = contract.factor_of(paths)
        if factor != hypothesis.factor:
            raise CandidateError(
                f"the hypothesis is about {hypothesis.factor}, but the edit changes {factor}: "
                "change the edit or the hypothesis",
                reason="factor_mismatch",
            )
        return factor
    label = set(hypothesis.factors)
    if len(label) != 2 or hypothesis.factor not in label or "diagnostics" in label:
        raise CandidateError(
            f"a combined change names two factors besides diagnostics, not {hypothesis.label}",
            reason="bad_label",
        )
    contract.require_factors(paths, hypothesis.factors)
    return next(factor for factor in hypothesis.factors if factor in TRAINING_FACTORS)
