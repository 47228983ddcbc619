"""Gives merged changes back to the agent's owner: as a branch, as patches, or as files.

A line of commits, one for each step of `main`: a merged candidate becomes one commit with its
hypothesis and its verdict. What the import added or left out (`harness.toml`, how a policy is
trained) is not carried over.

Promises: the owner's working tree, index and other branches are not touched, an existing branch is
never moved, and the owner's hooks do not run. The branch starts at the imported commit, so it
merges like any other branch. Does not cover: newer commits of the owner, who merges or rebases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.harness import CONTRACT_FILE, TRAINING_FOLDER, matches_any
from meta_agent.core.history._git import ZERO, Git, GitError, migrate, read_commit, scratch
from meta_agent.core.history._message import parse_trailers, plain
from meta_agent.core.history._repo import HarnessRepo
from meta_agent.core.history._worktree import MAIN

OURS: Final = (CONTRACT_FILE, f"{TRAINING_FOLDER}/**")
IMPORT_TRAILER: Final = "Imported-Commit"
_BRANCH = re.compile(r"[A-Za-z0-9][\w./-]{0,100}", re.ASCII)

Entries = Mapping[str, tuple[str, str]]  # path -> (mode, blob)


class Step(NamedTuple):
    """A merged change to give back to the agent's owner: message, date, files before and after."""

    message: str
    when: int
    before: Entries
    after: Entries

    @property
    def changes(self) -> dict[str, tuple[str, str] | None]:
        """Returns (mode, blob id) of each file to change, by path; None stands for removal."""
        paths = {p for p in self.before.keys() | self.after.keys() if not matches_any(OURS, p)}
        same = {p for p in paths if self.before.get(p) == self.after.get(p)}
        return {path: self.after.get(path) for path in sorted(paths - same)}


class Adopted(NamedTuple):
    """The commits given to the owner: their number, the first one's parent, the last, and where."""

    commits: int
    base: str
    tip: str
    place: str  # a branch of the owner's clone, or a folder


def adopt_into(repo: HarnessRepo, place: Path, branch: str) -> Adopted:
    """Writes the improved harness into a clone, as a new branch, or into a new folder, as files.

    Raises ConfigError if nothing was merged, if the folder holds other files, or, for a clone, if
    `branch` exists or the imported commit is missing.
    """
    if theirs := _their_git(place):
        return _adopt_branch(repo, theirs, place, branch)
    steps = promoted_steps(repo)
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise ConfigError(
            f"{place} is neither a clone (it has no .git) nor an empty folder",
            hint="name a clone or a new folder: meta-agent adopt --into FOLDER",
        )
    root = repo._git.line("rev-list", "--max-parents=0", "--first-parent", MAIN)
    tree = repo.tree(repo.head())
    for path, data in tree.files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(data)
    return Adopted(len(steps), root, tree.commit, str(place))


def _adopt_branch(repo: HarnessRepo, theirs: Git, clone: Path, branch: str) -> Adopted:
    ref = f"refs/heads/{_branch_name(branch)}"
    if theirs.run("rev-parse", "--verify", "-q", ref, accept=(0, 1)).exit_code == 0:
        raise ConfigError(
            f"the clone {clone} already has a branch {branch}",
            hint="choose another name: --branch NAME",
        )
    base = _imported_commit(repo)
    _require_commit(theirs, clone, base)
    with scratch(repo._git, theirs) as git:
        tip = _replay(git, base, promoted_steps(repo))
        migrate(git, theirs, tip, base)
    theirs.run("update-ref", "-m", "meta-agent: adopt", ref, tip, ZERO)
    return Adopted(_count(theirs, base, tip), base, tip, f"branch {branch} of {clone}")


def adopt_patches(repo: HarnessRepo, folder: Path) -> Adopted:
    """Writes the changes merged into `main` to an empty folder, as patches for `git am`.

    Raises ConfigError if the folder is not empty or no change was merged.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty", hint="name a new folder: --patches FOLDER")
    steps = promoted_steps(repo)
    folder.mkdir(parents=True, exist_ok=True)
    root = repo._git.line("rev-list", "--max-parents=0", "--first-parent", MAIN)
    with scratch(repo._git) as git:
        tip = _replay(git, root, steps)
        options = ("--no-signature", "--no-stat", "--zero-commit", "--no-renames")
        git.run("format-patch", "-q", *options, "-o", str(folder.absolute()), f"{root}..{tip}")
        return Adopted(_count(git, root, tip), root, tip, str(folder))


def promoted_steps(repo: HarnessRepo) -> list[Step]:
    """Returns the changes merged into `main`, oldest first. Raises ConfigError if there is none."""
    oids = repo._git.line("rev-list", "--first-parent", "--reverse", MAIN).split()
    trees = [_entries(repo._git, oid) for oid in oids]
    pairs = zip(oids[1:], trees, trees[1:], strict=False)
    steps = [Step(*_message_and_date(repo, oid), before, after) for oid, before, after in pairs]
    changing = [step for step in steps if step.changes]
    if not changing:
        raise ConfigError(
            "no change has been merged into main yet",
            hint="see the state of the run: meta-agent status",
        )
    return changing


def _message_and_date(repo: HarnessRepo, oid: str) -> tuple[str, int]:
    """Returns a step's message (the candidate's message and its verdict) and its date."""
    with repo._git.reader() as reader:
        commit = read_commit(reader, oid)
        proposal = read_commit(reader, commit.parents[-1]) if len(commit.parents) > 1 else commit
    notes = [repo.notes(commit_id) for commit_id in (proposal.id, oid)]
    verdict = next((note for note in notes if note), None)
    parts = [proposal.message.rstrip(), f"Verdict:\n\n{verdict.strip()}" if verdict else ""]
    return plain("\n\n".join(filter(None, parts))) + "\n", commit.when


def _replay(git: Git, base: str, steps: Sequence[Step]) -> str:
    """Commits the steps onto `base` in a throw-away repository; returns the last commit."""
    git.run("read-tree", base)
    tip = base
    for step in steps:
        rows = [_index_row(path, entry) for path, entry in step.changes.items()]
        git.run("update-index", "-z", "--index-info", stdin="".join(rows).encode())
        tree = git.line("write-tree")
        argv = ("commit-tree", tree, "-p", tip)
        tip = git.line(*argv, stdin=step.message.encode(), when=step.when)
    return tip


def _index_row(path: str, entry: tuple[str, str] | None) -> str:
    mode, oid = entry or ("0", ZERO)
    return f"{mode} {oid}\t{path}\0"


def _entries(git: Git, commit: str) -> Entries:
    rows = git.run("ls-tree", "-r", "-z", "--full-tree", commit).stdout.decode().split("\0")
    parsed = (row.partition("\t") for row in rows if row)
    return {path: (head.split()[0], head.split()[2]) for head, _, path in parsed}


def _imported_commit(repo: HarnessRepo) -> str:
    root = repo._git.line("rev-list", "--max-parents=0", "--first-parent", MAIN)
    with repo._git.reader() as reader:
        trailers = parse_trailers(read_commit(reader, root).message)
    if IMPORT_TRAILER not in trailers:
        raise ConfigError(
            "this harness was not imported from a git repository, so there is no branch to extend",
            hint="name a new folder, which gets the files: meta-agent adopt --into FOLDER",
        )
    return trailers[IMPORT_TRAILER]


def _their_git(clone: Path) -> Git | None:
    place = clone.resolve()
    for folder in (place / ".git", place):
        if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
            return Git(folder, trusted=True)
    return None


def _require_commit(git: Git, clone: Path, commit: str) -> None:
    try:
        git.run("cat-file", "-e", f"{commit}^{{commit}}")
    except GitError as error:
        raise ConfigError(
            f"{clone} does not have the commit {commit[:12]} that was imported",
            hint="run git fetch in that clone, or write patches: meta-agent adopt --patches FOLDER",
        ) from error


def _branch_name(branch: str) -> str:
    odd = ".." in branch or "//" in branch or branch.endswith(("/", ".", ".lock"))
    if odd or not _BRANCH.fullmatch(branch):
        raise ConfigError(
            f"{branch!r} is not a valid branch name",
            hint="use letters, digits and ._-/, as in: --branch meta-agent",
        )
    return branch


def _count(git: Git, base: str, tip: str) -> int:
    return int(git.line("rev-list", "--count", f"{base}..{tip}"))
