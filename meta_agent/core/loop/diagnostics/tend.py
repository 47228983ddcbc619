"""tend: diagnostics that were admitted are scored again, and retired when they stop telling.

At the start of a run each diagnostic that earlier runs admitted reads the versions that were judged
since. One that surely does less than was asked of it (`gate.diagnostics`) leaves the harness by
a commit of the loop on `main`, with a note that says why; `git revert` brings it back. In between
nothing of what is measured changes: both arms of every comparison are read by the same set.

Journal: one step of kind `diagnostic`, once any diagnostic was admitted.

Not covered: diagnostics that a harness came with, which nobody admitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate.diagnostics import Standing, still_discriminates
from meta_agent.core.lab.fair import fairly
from meta_agent.core.ledger.kinds import Candidate as Made
from meta_agent.core.ledger.kinds import Merge
from meta_agent.core.loop.diagnostics._past import number_of, past_versions, readings
from meta_agent.core.loop.records import Version, candidate_from_json
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Candidate, HarnessTree


class Admitted(NamedTuple):
    """A diagnostic that a run of this workspace took in."""

    candidate: Candidate
    seq: int  # of its merge in the ledger

    @property
    def metric(self) -> str:
        """The number that it was admitted for."""
        return self.candidate.hypothesis.metric


def admitted(run: Run) -> Iterator[Admitted]:
    """Every diagnostic that was merged and held, oldest first."""
    proposed = {
        made["id"]: made
        for made in run.ledger.outcomes("candidate", Made)
        if made["factor"] == "diagnostics"
    }
    for step in run.ledger.steps(kind="merge"):
        if step.is_done and not step.outcome_as(Merge)["undone"]:
            for told in (proposed[name] for name in _brought(step.fields) if name in proposed):
                yield Admitted(candidate_from_json(dict(told)), step.seq)


def _brought(merge: Mapping[str, JSON]) -> Iterator[str]:
    """The candidates that came to `main` by a merge: with a lead, also those that it stood on."""
    verdict = merge.get("verdict") or {}
    claim = verdict.get("evidence", {}).get("claim") or {}
    yield from (*claim.get("with", ()), merge["candidate"])


def tend(run: Run, version: Version) -> Version:
    """The version without the diagnostics that stopped discriminating."""
    watched = [one for one in admitted(run) if one.candidate.run != run.id]
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
    for at, one in enumerate(watched):
        tree = run.repo.tree(commit)
        if not _stands(run, one, tree):
            continue  # retired, or written anew since
        standing = fairly(lambda one=one, tree=tree: _standing(run, one, tree))  # type: ignore[misc]
        if standing.stays is False:
            when = run.date(0, 800 + at)
            commit = _retire(run, one, standing, commit, when)
        rows.append({"metric": one.metric, "admitted": one.candidate.id, **standing.to_json()})
    return {"generation": 0, "commit": commit, "scored": rows}


def _stands(run: Run, one: Admitted, tree: HarnessTree) -> bool:
    """Whether the harness still holds what was admitted."""
    files = run.repo.tree(one.candidate.commit).files
    return all(tree.files.get(path) == files.get(path) for path in one.candidate.paths)


def _standing(run: Run, one: Admitted, tree: HarnessTree) -> Standing:
    """How it did on the versions since; code that fails on one tells nothing any more."""
    since = past_versions(run, after=one.seq)
    try:
        with run.lab.session(tree) as session:
            number = number_of(session, one.metric)
            seen = readings(run, session, number, since)
    except CandidateError as error:
        return Standing(False, str(error)[:300])
    limit, higher = number.threshold, number.higher_is_bad
    return still_discriminates(seen.good, seen.bad, threshold=limit, higher_is_bad=higher)


def _retire(run: Run, one: Admitted, standing: Standing, onto: str, when: int) -> str:
    """Undoes the candidate's own edit and nothing else."""
    candidate = one.candidate
    before = run.repo.tree(candidate.base).files
    edits: Mapping[str, bytes | None] = {path: before.get(path) for path in candidate.paths}
    message = (
        f"revert(diagnostics): retire {one.metric}\n\n{standing.reason}.\n\n"
        f"Meta-Agent-Run: {run.id}\nMeta-Agent-Candidate: {candidate.id}\n"
    )
    commit = run.repo.edit_main(edits, onto=onto, message=message, when=when)
    run.repo.note(commit, _note(one, standing), when=when + 1)
    return commit


def _note(one: Admitted, standing: Standing) -> str:
    share = "" if standing.share is None else f"\nAUC: {standing.share:.2f}"
    return (
        f"RETIRED {one.metric}, admitted as {one.candidate.id}\n\n{standing.reason}\n{share}\n"
        f"good versions since: {standing.good}\nbad versions since: {standing.bad}\n\n"
        "To bring it back: git revert this commit."
    )
