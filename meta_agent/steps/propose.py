"""propose: K hypotheses, one factor each, as commits handed back from a sandbox."""

from __future__ import annotations

from functools import partial

from meta_agent.agents import Proposal, Situation, Stuck, Tried, Workbench
from meta_agent.agents import propose as propose_by_rules
from meta_agent.backtest.fair import fairly
from meta_agent.errors import CandidateError
from meta_agent.harness import parse_contract
from meta_agent.history import candidate_message
from meta_agent.protocols import JSON, Candidate, VerdictKind
from meta_agent.sandbox import open_sandbox
from meta_agent.steps.collect import Collected, Reading
from meta_agent.steps.run import Run, candidate_from_json, candidate_to_json, machines_failed


def propose(
    run: Run, collected: Collected, reading: Reading, generation: int, stuck: Stuck | None = None
) -> list[Candidate]:
    """Asks the meta-agent for candidates and admits their commits."""
    run.phase("propose", f"generation {generation}: up to {run.config.candidates} candidates")
    outcome = run.once(
        f"g{generation}/propose",
        "proposal",
        {"base": collected.version.commit, "k": run.config.candidates},
        lambda: _propose(run, collected, reading, generation, stuck),
    )
    for refused in outcome["refused"]:
        run.note(f"refused before any test: {refused['statement']}: {refused['reason']}")
    candidates = [candidate_from_json(row) for row in outcome["admitted"]]
    if not candidates:
        run.note("nothing to try: no rule has an idea left for this version")
    for candidate in candidates:
        run.once(
            candidate.id, "candidate", {"commit": candidate.commit}, partial(_told, run, candidate)
        )
        run.note(f"{candidate.id}: {candidate.factor}: {candidate.hypothesis.statement}")
    return candidates


def _told(run: Run, candidate: Candidate) -> JSON:
    diff = run.repo.diff(candidate.base, candidate.commit)
    return {**candidate_to_json(candidate), "diff": diff}


def _propose(
    run: Run, collected: Collected, reading: Reading, generation: int, stuck: Stuck | None
) -> JSON:
    proposals = _proposals(run, collected, reading, stuck)
    admitted: list[Candidate] = []
    refused: list[JSON] = []
    for index, proposal in enumerate(proposals):
        try:
            admitted.append(_admit(run, collected, proposal, generation, index))
        except CandidateError as error:
            statement = proposal.hypothesis.statement
            refused.append({"statement": statement, "reason": str(error), "code": error.reason})
    return {
        "generation": generation,
        "bottleneck": proposals[0].hypothesis.metric if proposals else None,
        "candidates": [candidate.id for candidate in admitted],
        "skills": sorted({name for c in admitted for name in c.hypothesis.skills}),
        "admitted": [candidate_to_json(candidate) for candidate in admitted],
        "refused": refused,
    }


def _admit(
    run: Run, collected: Collected, proposal: Proposal, generation: int, index: int
) -> Candidate:
    base, hypothesis = collected.version.commit, proposal.hypothesis
    cid = f"{run.id}/g{generation}/c{index}"
    ref = f"refs/heads/candidate/{run.id}/g{generation}c{index}"
    trailers = run.trailers(cid, hypothesis)
    message = candidate_message(hypothesis, subject=proposal.subject, trailers=trailers)
    when = run.date(generation, index)
    tip, pack = fairly(lambda: _commit_in_sandbox(run, base, proposal, message, when))
    contract = parse_contract(collected.tree)
    commit = run.repo.admit(
        pack,
        expected_tip=tip,
        base=base,
        ref=ref,
        editable=contract.editable,
        protected=contract.protected,
        replaces=run.repo.tip(ref),
    )
    factor = contract.factor_of(commit.paths)
    if factor != hypothesis.factor:
        raise CandidateError(
            f"the hypothesis is about {hypothesis.factor}, the edit touches {factor}",
            reason="factor_mismatch",
        )
    return Candidate(
        id=cid,
        run=run.id,
        generation=generation,
        index=index,
        ref=ref,
        base=base,
        commit=commit.commit,
        tree_hash=commit.tree_hash,
        factor=factor,
        hypothesis=hypothesis,
        paths=tuple(commit.paths),
    )


def _commit_in_sandbox(
    run: Run, base: str, proposal: Proposal, message: str, when: int
) -> tuple[str, bytes]:
    """Applies the edit and commits it with the sandbox's own git; returns the tip and a pack."""
    sandbox = open_sandbox(run.lab.settings.backend, run=run.id)
    try:
        bench = Workbench(sandbox, run.repo, base, when=when)
        for path, text in proposal.edits.items():
            bench.write(path, text)
        tip = bench.commit(message)
        return tip, bench.hand_back()
    finally:
        sandbox.close()


def _proposals(
    run: Run, collected: Collected, reading: Reading, stuck: Stuck | None
) -> list[Proposal]:
    """K proposals of the rules agent; an INVALID version gets its repair first."""
    ask = partial(
        propose_by_rules,
        reading.evidence,
        collected.tree,
        tried(run),
        run.skills.all(),
        situation=_situation(run),
        stuck=stuck,
    )
    k = run.config.candidates
    first = ask(1, repair=True) if reading.invalid else []
    names = {proposal.hypothesis.rule for proposal in first}
    rest = [proposal for proposal in ask(k) if proposal.hypothesis.rule not in names]
    return [*first, *rest][:k]


def _situation(run: Run) -> Situation:
    """What the domain's own documentation says, and which ceilings hold."""
    domain = run.lab.domain
    tasks = domain.tasks("train")
    view = tasks[0].view
    return Situation(
        ceilings=domain.ceilings, tools=tuple(view.get("tools", ())), train_tasks=len(tasks)
    )


def tried(run: Run) -> list[Tried]:
    """Every hypothesis that any run of this workspace judged, with its verdict.

    A candidate that was INVALID only because the version it started from already was, or because
    machines failed, tells nothing about its own idea: it counts as undecided.
    """
    steps = run.ledger.steps
    verdicts = {s.outcome["candidate"]: s.outcome for s in steps(kind="verdict") if s.done}
    found = []
    for candidate in (step.outcome for step in steps(kind="candidate") if step.done):
        verdict = verdicts.get(candidate["id"])
        if verdict is None:
            continue
        kind = VerdictKind(verdict["kind"])
        inherited = kind is VerdictKind.INVALID and verdict["base_invalid"]
        if inherited or machines_failed(verdict["evidence"]):
            kind = VerdictKind.INCONCLUSIVE
        told = candidate["hypothesis"]["rule"], candidate["base"], kind
        found.append(Tried(*told, screened_out=verdict["screened_out"]))
    return found
