"""Admitted diagnostics: retires those that foretell nothing any more, and says where one lacks.

At the start of a run, each diagnostic that earlier runs admitted reads the attempts made since. One
that surely foretells clean success no more (`gate.diagnostics`) is removed by a commit on `main`,
with a note that says why. `git revert` brings it back. During a run the set does not change, so
both arms of every comparison are read by the same diagnostics.

Journal: one step of kind `diagnostic`, once any diagnostic was admitted.

A gap is a move of the score that no metric explains. It shows in the evidence of two versions in a
row (`collect.read`), and stays open until a diagnostic is admitted. The authors read of it.

Not covered: diagnostics that a harness came with, which nobody admitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.evidence import Evidence
from meta_agent.core.gate.diagnostics import Standing, still_foretells
from meta_agent.core.lab.fair import fairly
from meta_agent.core.ledger.kinds import Candidate as Made
from meta_agent.core.ledger.kinds import Evidence as Read
from meta_agent.core.ledger.kinds import Merge
from meta_agent.core.loop.diagnostics._attempts import number_of, readings, telling_groups
from meta_agent.core.loop.records import Version, candidate_from_json
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Candidate, HarnessTree


class Admitted(NamedTuple):
    """A diagnostic (a metric of the harness) that a run of this workspace merged into `main`."""

    candidate: Candidate
    seq: int  # of its merge in the ledger

    @property
    def metric(self) -> str:
        """Returns the name of the number by which the diagnostic foretold clean success."""
        return self.candidate.hypothesis.metric


def admitted(run: Run) -> Iterator[Admitted]:
    """Yields all diagnostics (metrics) whose merge into `main` was not undone, oldest first."""
    proposed = {
        row["id"]: row
        for row in run.ledger.outcomes("candidate", Made)
        if row["factor"] == "diagnostics"
    }
    for step in run.ledger.steps(kind="merge"):
        if step.is_done and not step.outcome_as(Merge)["undone"]:
            for row in (proposed[name] for name in _brought(step.fields) if name in proposed):
                yield Admitted(candidate_from_json(dict(row)), step.seq)


def _brought(merge: Mapping[str, JSON]) -> Iterator[str]:
    """Yields the candidates that a merge brought to `main`, with those merged along with it."""
    verdict = merge.get("verdict") or {}
    claim = verdict.get("evidence", {}).get("claim") or {}
    yield from (*claim.get("with", ()), merge["candidate"])


def tend(run: Run, version: Version) -> Version:
    """Removes diagnostics that no longer foretell clean success; returns the new `main`."""
    watched = [diagnostic for diagnostic in admitted(run) if diagnostic.candidate.run != run.id]
    if not watched:
        return version
    outcome = run.once(
        "diagnostics",
        "diagnostic",
        {"commit": version.commit},
        lambda: _scored(run, version, watched),
    )
    for row in outcome["scored"]:
        if row["kept"] is False:
            run.note(f"retired: {row['metric']}: {row['reason']}")
    return Version(version.id, outcome["commit"])


def _scored(run: Run, version: Version, watched: list[Admitted]) -> JSON:
    commit, rows = version.commit, []
    for at, diagnostic in enumerate(watched):
        tree = run.repo.tree(commit)
        if not _stands(run, diagnostic, tree):
            continue  # it was retired or rewritten since
        standing = fairly(partial(_standing, run, diagnostic, tree))
        if standing.stays is False:
            when = run.date(0, 800 + at)
            commit = _retire(run, diagnostic, standing, commit, when)
        labels = {"metric": diagnostic.metric, "admitted": diagnostic.candidate.id}
        rows.append({**labels, "kept": standing.stays, "reason": standing.reason})
    return {"generation": 0, "commit": commit, "scored": rows}


def _stands(run: Run, diagnostic: Admitted, tree: HarnessTree) -> bool:
    """Returns whether the harness still holds the admitted files unchanged."""
    files = run.repo.tree(diagnostic.candidate.commit).files
    return all(tree.files.get(path) == files.get(path) for path in diagnostic.candidate.paths)


def _standing(run: Run, diagnostic: Admitted, tree: HarnessTree) -> Standing:
    """Returns how a diagnostic did after its admission. It does not stay if its code fails."""
    step = run.ledger.step(f"{diagnostic.candidate.id}/discriminate")
    groups = telling_groups(run, after=step.seq if step else diagnostic.seq)
    try:
        with run.lab.session(tree) as session:
            number = number_of(session, diagnostic.metric)
            return still_foretells(readings(run, session, number, groups))
    except CandidateError as error:
        return Standing(False, str(error)[:300])


def _retire(run: Run, diagnostic: Admitted, standing: Standing, onto: str, when: int) -> str:
    """Undoes the edit that added the diagnostic, and no other. Returns the new commit on `main`."""
    candidate = diagnostic.candidate
    before = run.repo.tree(candidate.base).files
    edits: Mapping[str, bytes | None] = {path: before.get(path) for path in candidate.paths}
    message = (
        f"revert(diagnostics): retire {diagnostic.metric}\n\n{standing.reason}.\n\n"
        f"Meta-Agent-Run: {run.id}\nMeta-Agent-Candidate: {candidate.id}\n"
    )
    commit = run.repo.edit_main(edits, onto=onto, message=message, when=when)
    run.repo.note(commit, _note(diagnostic, standing), when=when + 1)
    return commit


def _note(diagnostic: Admitted, standing: Standing) -> str:
    return (
        f"RETIRED {diagnostic.metric}, admitted as {diagnostic.candidate.id}\n\n"
        f"{standing.reason}\n\n"
        "To bring it back: git revert this commit."
    )


# --- gaps ----------------------------------------------------------------------------------------


def open_gap(run: Run) -> str:
    """Returns a sentence on the last change of clean success that no metric explains yet, or ""."""
    sentence, at = "", 0
    for step in run.ledger.steps(kind="evidence"):
        gap = step.outcome_as(Read).get("gap") if step.is_done else None
        if gap and gap["unexplained"]:
            version, at = step.outcome_as(Read)["version"], step.seq
            sentence = (
                f"clean success moved by {100 * gap['delta']:+.1f} points at {version} "
                f"(z = {gap['z']:.1f}) and no metric moved with it"
            )
    return "" if any(diagnostic.seq > at for diagnostic in admitted(run)) else sentence


def diagnostic_terms(run: Run, evidence: Evidence) -> Iterator[str]:
    """Yields what authors of edits may know of admitted metrics, and asks for one to fill a gap."""
    for metric, (auc, low, high) in evidence.foretells.items():
        yield (
            f"Admitted: {metric} foretells clean success within tasks, AUC {auc:.2f} [{low:.2f}, "
            f"{high:.2f}]. An idea that rests on it cites it by this name."
        )
    if sentence := open_gap(run):
        yield (
            f"A gap in what is measured: {sentence}. One hypothesis should be a diagnostic (factor "
            "diagnostics, metric measured.NAME.VALUE with a limit in THRESHOLDS). It costs no "
            "training: it is admitted if, at tasks that you do not see, it foretells clean success "
            "of attempts, and more than the other metrics do."
        )
