"""Admitted diagnostics: retires those that no longer separate versions, and says where one lacks.

At the start of a run, each diagnostic that earlier runs admitted reads the versions judged since.
One that surely falls short of the rule (`gate.diagnostics`) is removed by a commit on `main`, with
a note that says why. `git revert` brings it back. During a run the set does not change, so both
arms of every comparison are read by the same diagnostics.

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
from meta_agent.core.gate.diagnostics import Standing, still_discriminates
from meta_agent.core.lab.fair import fairly
from meta_agent.core.ledger.kinds import Candidate as Made
from meta_agent.core.ledger.kinds import Evidence, Merge
from meta_agent.core.loop.diagnostics._past import number_of, past_versions, readings
from meta_agent.core.loop.records import Version, candidate_from_json
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Candidate, HarnessTree


class Admitted(NamedTuple):
    """A diagnostic (a metric of the harness) that a run of this workspace merged into `main`."""

    candidate: Candidate
    seq: int  # of its merge in the ledger

    @property
    def metric(self) -> str:
        """Returns the name of the number by which the diagnostic was found to separate versions."""
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
    """Removes diagnostics that no longer separate good and bad versions; returns the new `main`."""
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
        rows.append({**labels, **standing.to_json()})
    return {"generation": 0, "commit": commit, "scored": rows}


def _stands(run: Run, diagnostic: Admitted, tree: HarnessTree) -> bool:
    """Returns whether the harness still holds the admitted files unchanged."""
    files = run.repo.tree(diagnostic.candidate.commit).files
    return all(tree.files.get(path) == files.get(path) for path in diagnostic.candidate.paths)


def _standing(run: Run, diagnostic: Admitted, tree: HarnessTree) -> Standing:
    """Returns how a diagnostic did after its admission. It does not stay if its code fails."""
    since = past_versions(run, after=diagnostic.seq)
    try:
        with run.lab.session(tree) as session:
            number = number_of(session, diagnostic.metric)
            numbers = readings(run, session, number, since)
    except CandidateError as error:
        return Standing(False, str(error)[:300])
    limit, higher = number.threshold, number.higher_is_bad
    return still_discriminates(numbers.good, numbers.bad, threshold=limit, higher_is_bad=higher)


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
    share = "" if standing.share is None else f"\nAUC: {standing.share:.2f}"
    return (
        f"RETIRED {diagnostic.metric}, admitted as {diagnostic.candidate.id}\n\n"
        f"{standing.reason}\n{share}\n"
        f"good versions since: {standing.good}\nbad versions since: {standing.bad}\n\n"
        "To bring it back: git revert this commit."
    )


# --- gaps ----------------------------------------------------------------------------------------


def open_gap(run: Run) -> str:
    """Returns a sentence on the last change of clean success that no metric explains yet, or ""."""
    sentence, at = "", 0
    for step in run.ledger.steps(kind="evidence"):
        gap = step.outcome_as(Evidence).get("gap") if step.is_done else None
        if gap and gap["unexplained"]:
            version, at = step.outcome_as(Evidence)["version"], step.seq
            sentence = (
                f"clean success moved by {100 * gap['delta']:+.1f} points at {version} "
                f"(z = {gap['z']:.1f}) and no metric moved with it"
            )
    return "" if any(diagnostic.seq > at for diagnostic in admitted(run)) else sentence


def gap_terms(run: Run) -> Iterator[str]:
    """Yields a request to the authors of edits for a new metric, if `open_gap` has a sentence."""
    if sentence := open_gap(run):
        yield (
            f"A gap in what is measured: {sentence}. One hypothesis should be a diagnostic (factor "
            "diagnostics, metric measured.NAME.VALUE with a limit in THRESHOLDS). It costs no "
            "training: it is admitted if it tells good past versions from bad ones."
        )
