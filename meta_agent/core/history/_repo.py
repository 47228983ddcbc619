"""`HarnessRepo`: the harness's history, which people read with `git log --graph --notes`.

Promises: `main` only moves forward, by compare-and-swap. Every operation may be repeated after a
crash and then has happened once. Ids are the same on every machine, since dates are given (by
default one second after the newest parent). Candidates come in through `_admission` alone.
Does not cover: what is merged (the gate decides), and two runs at once (the ledger prevents them).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from meta_agent.core.distribution import require_installed
from meta_agent.core.durable import sync
from meta_agent.core.errors import IntegrityError
from meta_agent.core.history._admission import AdmittedCommit, Allowlist, Edits, admit_edits
from meta_agent.core.history._create import check_repository, copy_repository, create_repository
from meta_agent.core.history._git import ZERO, Commit, Git, GitError, read_commit, read_files
from meta_agent.core.history._limits import AdmissionLimits, refuse
from meta_agent.core.history._locks import busy
from meta_agent.core.history._merging import edit_commit, merge_commit, revert_commit
from meta_agent.core.history._message import parse_trailers, plain, with_trailers
from meta_agent.core.history._worktree import MAIN, check_clean, follow_main
from meta_agent.core.protocols import HarnessTree

EPOCH = 1_767_225_600  # 2026-01-01: the date of a first commit that was given none
CANDIDATES = "refs/heads/candidate/"
LEAD = "refs/heads/lead"
_REF = re.compile(r"refs/heads/candidate/[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)+", re.ASCII)
_NOTES = "refs/notes/commits"
_ID = re.compile(r"[0-9a-f]{40}")
_WHOLE_NAME = re.compile(r"refs(/[\w.-]+)+", re.ASCII)


class LogEntry(NamedTuple):
    """One commit of the harness's history: ids, date, the parts of its message and its git note."""

    commit: str
    parents: tuple[str, ...]
    when: int  # seconds since the epoch
    subject: str
    body: str
    trailers: Mapping[str, str]
    note: str | None


class HarnessRepo:
    """The harness's git repository with a work tree; its branch `main` holds the proven changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._git = Git(path.resolve() / ".git", work_tree=path.resolve())
        # An id names one content for ever, and reading it starts two processes.
        self._trees = lru_cache(maxsize=64)(self._read_tree)
        self._commits = lru_cache(maxsize=1024)(self._read_commit)
        # What is merged onto what decides the commit, and making it starts seven processes.
        self._merges = lru_cache(maxsize=1024)(partial(merge_commit, self._git))

    @classmethod
    def create(
        cls, path: Path, files: Mapping[str, bytes], message: str, *, when: int = EPOCH
    ) -> HarnessRepo:
        """Creates the repository with one commit of `files`, and opens it.

        A repository that began with these files is only opened; other content raises ConfigError.
        """
        create_repository(path, files, plain(message), when)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> HarnessRepo:
        """Opens the repository at `path`, and finishes a checkout of `main` that was killed.

        Raises ConfigError if it is no harness repository, or if its files were edited,
        IntegrityError if it is damaged, and PreflightError if GitPython is missing.
        """
        require_installed(["git"], "run")
        repo = cls(path)
        check_repository(repo._git, path)
        follow_main(repo._git, path)
        return repo

    def rewound(self, folder: Path, main: str) -> HarnessRepo:
        """Copies the repository into `folder`, with `main` at an earlier commit; returns the copy.

        The copy has no git notes and no branch `lead`.
        """
        copy_repository(self.path, folder, main, (LEAD, _NOTES))
        return HarnessRepo.open(folder)

    # --- reading ---------------------------------------------------------------------------

    def head(self) -> str:
        """Returns the commit id of the branch `main`. Raises IntegrityError if it is missing."""
        return self._require(MAIN)

    def tip(self, ref: str) -> str | None:
        """Returns the id of the commit that a ref points to, or None if there is no such ref."""
        if _WHOLE_NAME.fullmatch(ref):
            return self._git.at(ref)
        ran = self._git.run("rev-parse", "--verify", "-q", f"{ref}^{{commit}}", accept=(0, 1))
        return ran.stdout.decode("ascii").strip() or None

    def when(self, commit: str) -> int:
        """Returns the date of a commit, in seconds since the epoch."""
        return self._commit(commit).when

    def tree(self, commit: str) -> HarnessTree:
        """Returns the files of a commit. Raises IntegrityError if one is not a regular file."""
        return self._trees(commit) if _ID.fullmatch(commit) else self._read_tree(commit)

    def _read_tree(self, commit: str) -> HarnessTree:
        with self._git.reader() as repo:
            entries = read_files(repo, commit)
            tree_hash = read_commit(repo, commit).tree
        odd = next((path for path, (mode, _) in entries.items() if mode >> 12 != 0o10), None)
        if odd is not None:
            raise IntegrityError(
                f"{odd!r} in commit {commit[:12]} is not a regular file; restore the workspace "
                "from a copy"
            )
        return HarnessTree(commit, tree_hash, {path: data for path, (_, data) in entries.items()})

    def pack(self, commit: str) -> bytes:
        """Returns a git pack (transfer file) of one commit with all its files, but no parents.

        The receiver has to write the commit's id to `.git/shallow` before checking it out.
        """
        rows = self._git.run("ls-tree", "-r", "-t", "-z", "--full-tree", commit).stdout
        below = {row.split(b"\t")[0].split()[2] for row in rows.split(b"\0") if row}
        tree = self._commit(commit).tree.encode()
        oids = b"\n".join([commit.encode(), *sorted({*below, tree}), b""])
        return self._git.run("pack-objects", "-q", "--stdout", stdin=oids).stdout

    def diff(self, before: str, after: str) -> str:
        """Returns the patch from one commit to another, as text."""
        argv = ["diff-tree", "-r", "-p", "--text", "--no-renames", "--no-color", "--full-index"]
        argv += [before, after, "--"]
        return self._git.run(*argv).stdout.decode("utf-8", "replace")

    def parent(self, commit: str) -> str | None:
        """Returns the first parent of a commit, or None for the first commit."""
        return next(iter(self._commit(commit).parents), None)

    def subject(self, commit: str) -> str:
        """Returns the first line of a commit's message."""
        return self._commit(commit).message.partition("\n")[0]

    def brought_by(self, commit: str) -> str | None:
        """Returns the commit by which `commit` came into `main`, or None.

        That is the merge of the candidate whose last commit is `commit`, or `commit` itself if it
        was made on `main`. The first commit gives None.
        """
        line = self._git.line("rev-list", "--first-parent", MAIN).split()
        return commit if commit in line[:-1] else self._merge_of(commit)

    def line_of_main(self, after: str, upto: str) -> list[str]:
        """Returns the commits made on `main` after `after` up to `upto`, newest first.

        Candidates' own commits are left out. Returns [] if `after` or `upto` is not on `main`.
        """
        line = self._git.line("rev-list", "--first-parent", MAIN).split()
        if after not in line or upto not in line:
            return []
        return line[line.index(upto) : line.index(after)]

    def log(self, n: int = 50, *, ref: str = MAIN) -> list[LogEntry]:
        """Returns the newest `n` commits of a ref's history, merged candidates' included."""
        oids = self._git.line("rev-list", "--date-order", f"--max-count={n}", ref, "--").split()
        with self._git.reader() as repo:
            commits = [read_commit(repo, oid) for oid in oids]
        notes = self.all_notes()
        return [_log_entry(commit, notes.get(commit.id)) for commit in commits]

    def graph(self) -> str:
        """Returns all branches as `git log --graph` draws them, with their notes."""
        argv = ("log", "--graph", "--branches", "--notes", "--date-order", "--format=%h %s%d%n%N")
        return self._git.run(*argv).stdout.decode("utf-8", "replace")

    def candidates(self) -> dict[str, str]:
        """Returns every candidate's last commit, by its full branch name; failed ones included."""
        rows = self._git.line("for-each-ref", "--format=%(refname) %(objectname)", CANDIDATES)
        return dict(row.split(" ") for row in rows.splitlines())

    def notes(self, commit: str) -> str | None:
        """Returns the text of the git note on a commit, or None if it has no note."""
        ran = self._git.run("notes", "show", commit, accept=(0, 1))
        return ran.stdout.decode("utf-8", "replace") if ran.exit_code == 0 else None

    def all_notes(self) -> Mapping[str, str]:
        """Returns the text of every git note, by the id of its commit."""
        tip = self.tip(_NOTES)
        if tip is None:
            return {}
        with self._git.reader() as repo:
            files = read_files(repo, tip)
        return {
            path.replace("/", ""): data.decode("utf-8", "replace")
            for path, (_, data) in files.items()
        }

    def on_main(self, commit: str) -> bool:
        """Returns True if `main` contains the commit."""
        return self._reaches(MAIN, commit)

    # --- writing ---------------------------------------------------------------------------

    def admit(
        self,
        edits: Edits,
        *,
        base: str,
        ref: str,
        message: str,
        when: int,
        editable: Sequence[str],
        protected: Sequence[str],
        replaces: str | None = None,
        limits: AdmissionLimits | None = None,
    ) -> AdmittedCommit:
        """Checks a candidate's edits of `base`, commits them on top of it, and sets branch `ref`.

        `edits` holds contents by path (None: removed), `when` the date in seconds since the epoch.
        Raises CandidateError if an edit is refused, or if `ref` exists at another commit than this
        one or `replaces`. A repeated call changes nothing.
        """
        if not _REF.fullmatch(ref) or ".." in ref or ref.endswith((".lock", ".")):
            refuse("ref_name", f"the branch {ref[:80]!r} is not named {CANDIDATES}<run>/<n>")
        allow = Allowlist(editable, protected)
        with self._writing():
            admitted = admit_edits(
                self._git,
                edits,
                base=base,
                message=message,
                when=when,
                allow=allow,
                limits=limits or AdmissionLimits(),
            )
            self._create_ref(ref, admitted.commit, replaces)
        return admitted

    def merge(
        self,
        ref: str,
        *,
        onto: str,
        message: str,
        trailers: Mapping[str, str],
        when: int | None = None,
    ) -> str:
        """Merges the candidate's branch `ref` into `main`, and returns the merge commit's id.

        Only the candidate's own change is merged, as by `merge_ahead`. A second call returns the
        same id. Raises CandidateError on a conflict, IntegrityError if `main` is not at the commit
        `onto`, and ConfigError if a checked-out file was edited.
        """
        tip = self._require(ref)
        done = self._merge_of(tip)
        if done is not None:
            return self._follow(done)
        text = with_trailers(message, trailers)
        with self._writing():
            merged = merge_commit(self._git, onto, tip, text, self._date(when, onto, tip))
            return self._advance_main(merged, onto)

    def merge_ahead(
        self,
        ref: str,
        *,
        onto: str,
        message: str,
        trailers: Mapping[str, str],
        when: int | None = None,
    ) -> str:
        """Creates the commit that merges the candidate's branch `ref` into the commit `onto`.

        Changes of other candidates, which it may build on, do not come along. Returns the merge
        commit's id. No branch moves. Raises CandidateError on a conflict.
        """
        tip = self._require(ref)
        text = with_trailers(message, trailers)
        with self._writing():
            return self._merges(onto, tip, text, self._date(when, onto, tip))

    def advance(self, commit: str, *, onto: str) -> str:
        """Moves `main` from the commit `onto` to `commit`, and returns `commit`.

        Raises IntegrityError if `commit` does not descend from `onto`, or if `main` is not at
        `onto`. A repeated call changes nothing.
        """
        if not self._reaches(commit, onto):
            raise IntegrityError(
                f"main cannot move to {commit[:12]}, which does not descend from {onto[:12]}",
                hint="check the workspace: meta-agent doctor",
            )
        with self._writing():
            return commit if self.head() == commit else self._advance_main(commit, onto)

    def edit_main(
        self, edits: Mapping[str, bytes | None], *, onto: str, message: str, when: int
    ) -> str:
        """Commits edits of files (new content by path) to `main`, and returns the commit's id.

        None as content removes a file. Raises IntegrityError if `main` is not at the commit `onto`.
        A repeated call changes nothing.
        """
        with self._writing():
            commit = edit_commit(self._git, onto, edits, plain(message), when)
            return commit if commit == self.head() else self._advance_main(commit, onto)

    def revert(self, commit: str, *, message: str) -> str:
        """Undoes what a commit on `main` changed, by a new commit on top; returns the new id.

        Raises CandidateError if later changes conflict with that, or if nothing is left to undo.
        """
        head = self.head()
        with self._writing():
            when = self._date(None, head)
            reverting = revert_commit(self._git, head, commit, plain(message), when)
            return self._advance_main(reverting, head)

    def revert_ahead(self, commit: str, *, onto: str, message: str, when: int) -> str:
        """Creates the commit on top of `onto` that undoes `commit`, and returns it.

        No branch moves. Raises CandidateError if later changes conflict with that.
        """
        with self._writing():
            when = self._date(when, onto)
            return revert_commit(self._git, onto, commit, plain(message), when)

    def set_lead(self, commit: str) -> None:
        """Points the branch `lead`, which holds unproven changes, at a commit."""
        with self._writing():
            old = self.tip(LEAD)
            if old != commit:
                self._git.run("update-ref", "-m", "meta-agent: lead", LEAD, commit, old or ZERO)
                self._flush_refs(LEAD)

    def drop_lead(self) -> None:
        """Deletes the branch `lead`, which holds unproven changes, if it exists."""
        with self._writing():
            if old := self.tip(LEAD):
                self._git.run("update-ref", "-d", LEAD, old)
                self._flush_refs(LEAD)

    def note(self, commit: str, text: str, *, when: int | None = None) -> None:
        """Sets the text of the git note on a commit. The same text twice changes nothing."""
        body = plain(text).strip() + "\n"
        if self.notes(commit) == body:
            return
        last = self.tip(_NOTES)
        date = self._date(when, *([last] if last else []), commit)
        with self._writing():
            argv = ("notes", "add", "-f", "-F", "-", commit)
            self._git.run(*argv, stdin=body.encode(), when=date)

    # --- inside ----------------------------------------------------------------------------

    def _create_ref(self, ref: str, commit: str, replaces: str | None) -> None:
        if self.tip(ref) == commit:
            return
        try:
            self._git.run("update-ref", "-m", "meta-agent: admit", ref, commit, replaces or ZERO)
        except GitError as error:
            refuse("ref_taken", f"{ref} is at another commit: {error.stderr.strip()[-160:]}")
        self._flush_refs(ref)

    def _advance_main(self, commit: str, old: str) -> str:
        if commit == old:
            return old
        check_clean(self._git, self.path, commit)
        try:
            self._git.run("update-ref", "-m", "meta-agent: advance", MAIN, commit, old)
        except GitError as error:
            where = self.tip(MAIN) or "nowhere"
            raise IntegrityError(
                f"main is at {where[:12]}, but must be at {old[:12]}: another program moved it",
                hint="move it back, or see the state: meta-agent doctor",
            ) from error
        self._flush_refs(MAIN)
        return self._follow(commit)

    def _flush_refs(self, ref: str) -> None:
        folder = (self._git.git_dir / ref).parent
        while folder != self._git.git_dir:
            sync(folder)
            folder = folder.parent

    def _follow(self, commit: str) -> str:
        check_clean(self._git, self.path)
        follow_main(self._git, self.path)
        return commit

    def _merge_of(self, tip: str) -> str | None:
        """Returns the merge commit on `main` that brought in `tip`, or None."""
        rows = self._git.line("rev-list", "--first-parent", "--parents", MAIN).splitlines()
        merges = (row.split() for row in rows)
        return next((row[0] for row in merges if tip in row[2:]), None)

    def _reaches(self, descendant: str, ancestor: str) -> bool:
        argv = ("merge-base", "--is-ancestor", ancestor, descendant)
        return self._git.run(*argv, accept=(0, 1)).exit_code == 0

    def _date(self, when: int | None, *after: str) -> int:
        if when is not None:
            return when
        return max(self._commit(oid).when for oid in after) + 1

    def _commit(self, oid: str) -> Commit:
        return self._commits(oid) if _ID.fullmatch(oid) else self._read_commit(oid)

    def _read_commit(self, oid: str) -> Commit:
        with self._git.reader() as repo:
            return read_commit(repo, oid)

    def _require(self, ref: str) -> str:
        commit = self.tip(ref)
        if commit is None:
            raise IntegrityError(
                f"the repository {self.path} lacks the branch {ref}",
                hint="see what is missing: meta-agent doctor",
            )
        return commit

    def _writing(self) -> AbstractContextManager[None]:
        return busy(self._git.git_dir)


def _log_entry(commit: Commit, note: str | None) -> LogEntry:
    subject, _, body = commit.message.partition("\n")
    trailers = parse_trailers(commit.message)
    return LogEntry(commit.id, commit.parents, commit.when, subject, body.strip(), trailers, note)
