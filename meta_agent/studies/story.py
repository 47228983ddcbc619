"""Finds commits of a harness by the names that people use, and reverts promotions.

A revert undoes exactly what a promotion brought. It is a new commit on `main` with a note of the
old verdict, and reverting twice is refused. The next run measures `main` before it builds on it.
Not covered: a verdict on what remains, which takes a run.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from meta_agent.core.display import A_PERSON
from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.history import HarnessRepo
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Candidate
from meta_agent.core.protocols import JSON
from meta_agent.core.workspace import Workspace
from meta_agent.reports import CandidateView
from meta_agent.reports.reducer import every_candidate

_SHOWN: Final = 5
_ODD: Final = set(" \t\n:~^@{")


class Named(NamedTuple):
    """A commit of the harness, under the name that a user typed."""

    name: str
    commit: str
    base: str | None = None  # of a candidate, and of a version the one before it

    def before(self, repo: HarnessRepo) -> str:
        """Returns the commit to compare with: what this one builds on, its parent, or itself."""
        return self.base or repo.parent(self.commit) or self.commit


# --- what a name means --------------------------------------------------------------------------


def resolve(repo: HarnessRepo, ledger: Ledger, name: str) -> Named:
    """Returns the candidate, version (`v1`), branch (`main`, `lead`) or commit called `name`.

    Of several candidates the newest is taken. Raises ConfigError if there is nothing of that name.
    """
    for step in reversed(ledger.steps(kind="candidate")):
        candidate = CandidateView.parse(step.fields) if step.is_done else None
        if candidate and candidate.answers_to(name):
            return Named(candidate.id, candidate.commit, candidate.base)
    if version := _version(ledger, name):
        return version
    plain = not name.startswith("-") and not set(name) & _ODD
    for ref in (f"refs/heads/{name}", name) if plain else ():
        if commit := repo.tip(ref):
            return Named(name, commit)
    candidate_ids = [record["id"] for record in ledger.outcomes("candidate", Candidate)]
    listed = (
        ", ".join(str(candidate_id).split("/", 1)[-1] for candidate_id in candidate_ids[-_SHOWN:])
        or "none yet"
    )
    raise ConfigError(
        f"{repo.path} has no candidate, version, branch or commit {name!r}",
        hint=f"candidates: {listed}; branches: git -C {repo.path} branch",
    )


def names(ledger: Ledger) -> list[str]:
    """Returns the names of candidates, versions and branches for completion, newest first."""
    records = ledger.outcomes("candidate", Candidate)
    tried = [str(record["id"]).split("/", 1)[-1] for record in records]
    versions = [name for name, _ in _versions(ledger)]
    return list(dict.fromkeys([*reversed(tried), *reversed(versions), "main", "lead"]))


def _version(ledger: Ledger, name: str) -> Named | None:
    """Returns the newest version of that name, with the version before it as its base."""
    version, before = None, None
    for version_name, commit in _versions(ledger):
        if version_name == name:
            version = Named(version_name, commit, before)
        before = commit
    return version


def _versions(ledger: Ledger) -> list[tuple[str, str]]:
    steps = (*ledger.steps(kind="baseline"), *ledger.steps(kind="merge"))
    in_order = sorted(steps, key=lambda step: step.seq)
    merges = (step.fields for step in in_order if step.is_done and not step.fields.get("undone"))
    return [
        (str(merge.get("version")), str(merge.get("commit") or merge.get("harness_commit")))
        for merge in merges
    ]


# --- taking back --------------------------------------------------------------------------------


def revert(place: Workspace, ledger: Ledger, name: str) -> list[dict[str, JSON]]:
    """Reverts on `main` what a candidate, version or commit brought, the newest commit first.

    Returns a record of each revert. `ledger` has to be open for writing. Raises ConfigError if the
    change is not in `main`, or if a revert conflicts.
    """
    repo = HarnessRepo.open(place.harness_repo)
    what = resolve(repo, ledger, name)
    every = every_candidate(ledger)
    brought = _brought(repo, what)
    if not brought:
        verdict = f" ({every[what.name].kind})" if what.name in every else ""
        raise ConfigError(
            f"{name} is not on main{verdict}, so there is nothing to revert",
            hint="see what is on main: meta-agent log --graph",
        )
    done = []
    for commit in brought:
        matches = (view for view in every.values() if repo.brought_by(view.commit) == commit)
        done.append(_take_back(repo, ledger, commit, next(matches, None)))
    return done


def _brought(repo: HarnessRepo, what: Named) -> list[str]:
    """Returns the commits on `main` that merged `what`; of a version, all since the one before."""
    if what.base and "/" not in what.name:
        return repo.line_of_main(what.base, what.commit)
    merge = repo.brought_by(what.commit)
    return [merge] if merge else []


def _take_back(
    repo: HarnessRepo, ledger: Ledger, commit: str, candidate: CandidateView | None
) -> dict[str, JSON]:
    name = candidate.id if candidate else commit

    def work() -> JSON:
        message = (
            f"revert({candidate.label if candidate else 'harness'}): take {_short(name)} back\n\n"
        )
        message += f"Meta-Agent-Candidate: {name}\n" if candidate else ""
        try:
            reverted = repo.revert(commit, message=message)
        except CandidateError as error:
            raise ConfigError(
                f"{_short(name)} cannot be reverted alone: {error}",
                hint="revert first the later changes of the same lines",
            ) from error
        repo.note(reverted, _note(name, candidate))
        return {"candidate": name, "reverted": commit, "commit": reverted}

    return dict(ledger.once(f"revert/{commit}", "revert", {"commit": commit}, work))


def _short(name: str) -> str:
    return name.partition("/")[2] or name[:12]


def _note(name: str, candidate: CandidateView | None) -> str:
    """Returns the git note on a revert: the verdict on what was reverted, none on what remains."""
    lines = [f"REVERTED {name} by {A_PERSON}", ""]
    if candidate:
        lines += [f"It was {candidate.kind}: {'; '.join(candidate.reasons)}", ""]
    return "\n".join((*lines, "Not judged again yet: the next run measures main before it builds."))
