"""Creates the harness repository in one step, and checks one that exists.

Promises: a killed `create` leaves nothing at the final path. Opening reads every object, so an
empty or torn file is reported before a run starts and not in the middle of it.
Does not cover: repairing objects. Recorded state that contradicts itself is never guessed at.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from meta_agent.core.durable import sync
from meta_agent.core.errors import CandidateError, ConfigError, IntegrityError
from meta_agent.core.history._git import Git, GitError, read_files
from meta_agent.core.history._limits import AdmissionLimits
from meta_agent.core.history._locks import busy, clear_locks
from meta_agent.core.history._policy import check_collisions, check_path
from meta_agent.core.history._worktree import MAIN, check_clean


def create_repository(path: Path, files: Mapping[str, bytes], message: str, when: int) -> None:
    """Creates a git repository at `path` with one commit of `files`, as a whole or not at all.

    A repository there that began with the same files stays as it is. Raises ConfigError if `path`
    holds something else or a file's name is not allowed.
    """
    _check_files(files)
    if path.exists() and any(path.iterdir()):
        return _check_same_start(path, files)
    building = path.with_name(f".{path.name}.building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    _first_commit(building.resolve(), files, message, when)
    building.replace(path)
    sync(path.parent)


def copy_repository(source: Path, folder: Path, main: str, forgotten: Sequence[str]) -> None:
    """Copies a repository without the refs `forgotten`, with branch `main` at commit `main`."""
    unstable = shutil.ignore_patterns("*.lock", "index", "meta-agent.busy")
    shutil.copytree(source / ".git", folder / ".git", symlinks=True, ignore=unstable)
    for path in (folder / ".git").rglob("*"):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    git = Git(folder.resolve() / ".git", work_tree=folder.resolve())
    git.run("symbolic-ref", "HEAD", MAIN)
    git.run("update-ref", MAIN, main)
    for ref in forgotten:
        git.run("update-ref", "-d", ref)
    git.run("read-tree", "--reset", "-u", MAIN)


def check_repository(git: Git, path: Path) -> None:
    """Checks that a repository is complete and that nobody edited its checked-out files.

    Raises IntegrityError for damaged objects, and ConfigError for edited files or unsafe settings.
    """
    if not (path / ".git" / "HEAD").is_file():
        raise ConfigError(
            f"{path} is not a harness repository", hint="create a workspace: meta-agent init"
        )
    git.check()
    clear_locks(git.git_dir)
    _check_objects(git, path)
    check_clean(git, path)


def _check_objects(git: Git, path: Path) -> None:
    try:
        git.run("fsck", "--full", "--strict", "--no-dangling", "--no-progress")
        git.run("rev-parse", "--verify", "-q", f"{MAIN}^{{commit}}")
    except GitError as error:
        detail = error.stderr.strip().splitlines()[:3]
        raise IntegrityError(
            f"{path} is damaged: {'; '.join(detail) or 'main does not exist'}",
            hint=f"git -C {path} fsck --full; restore the named objects from a copy",
        ) from error


def _check_files(files: Mapping[str, bytes]) -> None:
    """Raises ConfigError if a candidate could not be merged because of the names of these files."""
    try:
        for path in files:
            check_path(path, AdmissionLimits())
        check_collisions(files)
    except CandidateError as error:
        raise ConfigError(
            f"the harness cannot be stored: {error}", hint="rename or remove that file"
        ) from error
    if not files:
        raise ConfigError("the harness folder is empty", hint="name a folder with files")


def _check_same_start(path: Path, files: Mapping[str, bytes]) -> None:
    git = Git(path.resolve() / ".git", work_tree=path.resolve())
    if not (path / ".git" / "HEAD").is_file():
        raise ConfigError(
            f"{path} is neither empty nor a harness repository",
            hint="name another workspace: --workspace DIR",
        )
    roots = git.line("rev-list", "--max-parents=0", MAIN).split()
    with git.reader() as repo:
        stored = {path: data for path, (_, data) in read_files(repo, roots[-1]).items()}
    if stored != dict(files):
        raise ConfigError(
            f"{path} holds the history of another harness",
            hint="name another workspace: --workspace DIR",
        )


def _first_commit(folder: Path, files: Mapping[str, bytes], message: str, when: int) -> None:
    git = Git(folder / ".git", work_tree=folder, trusted=True)
    git.run("init", "-q", "--template=", "--initial-branch=main", "--object-format=sha1")
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    with busy(git.git_dir):
        git.run("update-index", "--add", "-z", "--stdin", stdin=_names(files))
        tree = git.line("write-tree")
        commit = git.line("commit-tree", tree, stdin=message.encode(), when=when)
        git.run("update-ref", "-m", "meta-agent: create", MAIN, commit)


def _names(files: Mapping[str, bytes]) -> bytes:
    return b"".join(name.encode() + b"\0" for name in sorted(files))
