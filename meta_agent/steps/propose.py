"""propose: K hypotheses, one factor each, as commits handed back from a sandbox."""

from __future__ import annotations

from collections.abc import Callable

from meta_agent.agents import Proposal, Workbench, propose_rules
from meta_agent.errors import CandidateError
from meta_agent.harness import parse_contract
from meta_agent.history import candidate_message
from meta_agent.protocols import JSON, Candidate
from meta_agent.sandbox import open_sandbox
from meta_agent.steps.collect import Collected, Reading
from meta_agent.steps.run import Run, candidate_from_json, candidate_to_json


def propose(run: Run, collected: Collected, reading: Reading, generation: int) -> list[Candidate]:
    """Asks the meta-agent for candidates and admits their commits."""
    run.phase("propose", f"generation {generation}: up to {run.config.candidates} candidates")
    outcome = run.once(
        f"g{generation}/propose",
        "proposal",
        {"base": collected.version.commit, "k": run.config.candidates},
        lambda: _propose(run, collected, reading, generation),
    )
    for refused in outcome["refused"]:
        run.note(f"refused before any test: {refused['statement']}: {refused['reason']}")
    candidates = [candidate_from_json(row) for row in outcome["admitted"]]
    for candidate in candidates:
        run.once(candidate.id, "candidate", {"commit": candidate.commit}, _told(run, candidate))
        run.note(f"{candidate.id}: {candidate.factor}: {candidate.hypothesis.statement}")
    return candidates


def _told(run: Run, candidate: Candidate) -> Callable[[], JSON]:
    diff = run.repo.diff(candidate.base, candidate.commit)
    return lambda: {**candidate_to_json(candidate), "diff": diff}


def _propose(run: Run, collected: Collected, reading: Reading, generation: int) -> JSON:
    proposals = propose_rules(
        reading.evidence,
        collected.tree,
        history=tried(run),
        skills=run.skills.all(),
        k=run.config.candidates,
        repair=reading.invalid,
    )
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
    tip, pack = _commit_in_sandbox(run, base, proposal, message, run.date(generation, index))
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
        for path, text in proposal.files.items():
            bench.write(path, text)
        tip = bench.commit(message)
        return tip, bench.hand_back()
    finally:
        sandbox.close()


def tried(run: Run) -> list[JSON]:
    """Every candidate that any run of this workspace judged, with its verdict."""
    verdicts = {
        step.outcome["candidate"]: step.outcome
        for step in run.ledger.steps(kind="verdict")
        if step.done
    }
    candidates = (step.outcome for step in run.ledger.steps(kind="candidate") if step.done)
    return [{**row, "verdict": verdicts[row["id"]]} for row in candidates if row["id"] in verdicts]
