"""The only file that runs git, by its command line and by GitPython.

Promises: no invocation sees the caller's environment, system or user configuration, hooks,
attributes or transports. Everything written is flushed before a command returns. Author, committer
and dates are given, so the same history has the same ids on every machine. Work on objects that
came from elsewhere happens in `scratch` repositories: fresh, bare, without configuration, and
borrowing the real objects read-only.
A workspace may come from a stranger. So before the first command the repository's own settings are
read as a file (`_settings`), and a setting or place that is not known to be harmless is refused by
name. Comparisons never run a program in any case.
Does not cover: judging those objects (`_admission`). Never open what a sandbox wrote with `Git`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from meta_agent.core.durable import sync
from meta_agent.core.errors import ConfigError, InfrastructureError, PreflightError
from meta_agent.core.history._settings import check_keys, check_places
from meta_agent.core.processes import CompletedProcess, TimeoutExpired, run

NAME, EMAIL = "meta-agent", "meta-agent@localhost"
IDENTITY = f"{NAME} <{EMAIL}>"
ZERO = "0" * 40
OLDEST_GIT = (2, 38)  # `git merge-tree --write-tree`
_TIMEOUT_SEC = 120.0
_COMPARING = frozenset({"blame", "diff", "diff-tree", "log", "show"})
_NO_PROGRAMS = ("--no-textconv", "--no-ext-diff")

_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.untrackedCache": "false",
    "core.autocrlf": "false",
    "core.quotePath": "false",
    "core.logAllRefUpdates": "true",
    "core.fsyncMethod": "fsync",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "protocol.allow": "never",
    "submodule.recurse": "false",
}


class GitError(InfrastructureError):
    """Raised when git ends with an exit status that the caller did not accept."""

    def __init__(self, argv: tuple[str, ...], exit_code: int, stderr: str) -> None:
        # Its advice names a setting of the user's, and no such setting is read here.
        words = stderr.partition("To add an exception for this directory")[0].strip()
        super().__init__(
            f"git {argv[0]} ended with {exit_code}: {words[-400:]}",
            hint="restore the repository from a copy, or start in a new workspace with --workspace",
        )
        self.exit_code = exit_code
        self.stderr = words

    def hint_or(self, otherwise: str) -> str:
        """Returns what to do about a known cause, such as the owner, else `otherwise`."""
        if "dubious ownership" in self.stderr:
            return "the repository belongs to another user: give a copy of it (cp -r FOLDER COPY)"
        if "mismatched algorithms" not in self.stderr:
            return otherwise
        return (
            "its objects are named by SHA-256, which git cannot fetch into SHA-1; copy the files "
            "without .git, then there: git init && git add -A && git commit -m import"
        )


class Ran(NamedTuple):
    """The exit status and output of a finished git command."""

    exit_code: int
    stdout: bytes


class Commit(NamedTuple):
    """A git commit: the ids of the commit, its tree and its parents, its date and message."""

    id: str
    tree: str
    parents: tuple[str, ...]
    when: int  # seconds since the epoch
    message: str


class Git:
    """Runs git commands in one repository, without settings of the user or the system."""

    def __init__(
        self,
        git_dir: Path,
        *,
        work_tree: Path | None = None,
        borrow: Path | None = None,
        durable: bool = True,
        transport: str = "",
        trusted: bool = False,
    ) -> None:
        """Prepares to run git; starts nothing.

        Args:
            git_dir: The `.git` folder, or a bare repository.
            work_tree: The folder of the checked-out files.
            borrow: Where else objects are read from.
            durable: Whether git flushes what it writes.
            transport: The only transport that a fetch may use.
            trusted: Whether the settings of the repository are known to be harmless. If not, they
                are checked before the first command, which raises ConfigError if they are not.
        """
        self.git_dir = git_dir
        self.work_tree = work_tree
        self._borrow = borrow
        self._transport = transport
        self._checked = trusted
        self._settings = _SETTINGS | {"core.fsync": "all" if durable else "none"}

    @property
    def objects(self) -> Path:
        return self.git_dir / "objects"

    def run(
        self,
        *argv: str,
        stdin: bytes = b"",
        when: int | None = None,
        accept: tuple[int, ...] = (0,),
    ) -> Ran:
        """Runs a git command with `stdin`. Raises GitError if the exit status is not in `accept`.

        `when` dates new commits (epoch seconds). Raises InfrastructureError if git takes too long.
        """
        self.check()
        done = _start_git(
            [*self._options(), *_without_programs(argv)],
            stdin,
            self._environment(when),
            self.work_tree,
        )
        if done.returncode not in accept:
            raise GitError(argv, done.returncode, done.stderr.decode("utf-8", "replace"))
        return Ran(done.returncode, done.stdout)

    def line(self, *argv: str, stdin: bytes = b"", when: int | None = None) -> str:
        """Runs a git command and returns its output, stripped. Raises GitError if it fails."""
        return self.run(*argv, stdin=stdin, when=when).stdout.decode("utf-8").strip()

    @contextmanager
    def reader(self) -> Iterator[Any]:
        """Yields a GitPython repository for reading objects, which is closed after the block."""
        self.check()
        with _git_variables_hidden():
            repo = _library().Repo(self.git_dir)
            # GitPython passes all our variables on: those that we do not set, it passes on empty.
            ours = self._environment(None) | self._settings_variables()
            repo.git.update_environment(**(dict.fromkeys(os.environ, "") | ours))
            try:
                yield repo
            finally:
                repo.close()

    def at(self, ref: str) -> str | None:
        """Returns the commit id of the ref with a full name, such as `refs/heads/main`, or None."""
        self.check()
        try:
            return str(_library().SymbolicReference.dereference_recursive(self._refs, ref))
        except (ValueError, AssertionError):  # the latter of an empty file: a power cut
            return None

    @cached_property
    def _refs(self) -> Any:
        with _git_variables_hidden():
            return _library().Repo(self.git_dir)

    def check(self) -> None:
        """Raises ConfigError if the repository's own settings could make git run a program."""
        if not self._checked:
            check_places(self.git_dir)
            check_keys(self.git_dir, _keys(self.git_dir / "config"))
            self._checked = True

    def _settings_variables(self) -> dict[str, str]:
        """Returns the settings as environment variables for the processes that GitPython starts."""
        settings = list(self._settings.items())
        keys = {f"GIT_CONFIG_KEY_{n}": key for n, (key, _) in enumerate(settings)}
        values = {f"GIT_CONFIG_VALUE_{n}": value for n, (_, value) in enumerate(settings)}
        return {"GIT_CONFIG_COUNT": str(len(settings))} | keys | values

    def _options(self) -> list[str]:
        return [part for key, value in self._settings.items() for part in ("-c", f"{key}={value}")]

    def _environment(self, when: int | None) -> dict[str, str]:
        env = _clean_environment() | {"GIT_DIR": str(self.git_dir)}
        env["GIT_ALLOW_PROTOCOL"] = self._transport
        if self.work_tree is not None:
            env["GIT_WORK_TREE"] = str(self.work_tree)
        if self._borrow is not None:
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(self._borrow)
        if when is not None:
            env |= {"GIT_AUTHOR_DATE": f"{when} +0000", "GIT_COMMITTER_DATE": f"{when} +0000"}
        return env


def _library() -> Any:
    """Imports GitPython on first use and returns it."""
    import git  # noqa: TID251

    return git


@contextmanager
def _git_variables_hidden() -> Iterator[None]:
    """Hides GIT_DIR and similar variables, which GitPython would obey (inside a git hook, say).

    Nothing in this process uses them, so another thread that misses them meanwhile loses nothing.
    """
    hidden = {name: value for name, value in os.environ.items() if name.startswith("GIT_")}
    for name in hidden:
        os.environ.pop(name, None)
    try:
        yield
    finally:
        os.environ.update(hidden)


@contextmanager
def scratch(host: Git | None, *more: Git, transport: str = "") -> Iterator[Git]:
    """Yields a temporary bare repository that can also read the objects of `host` and `more`.

    It can fetch over `transport` only, such as `https`; if that is empty, it cannot fetch.
    """
    hosts = [str(lender.objects.resolve()) for lender in (host, *more) if lender is not None]
    borrow = Path(os.pathsep.join(hosts)) if hosts else None
    with tempfile.TemporaryDirectory(prefix="meta-agent-git-") as folder:
        place = Path(folder) / "scratch.git"
        git = Git(place, borrow=borrow, durable=False, transport=transport, trusted=True)
        git.run("init", "-q", "--bare", "--template=", "--object-format=sha1")
        yield git


def migrate(source: Git, host: Git, tip: str, base: str | None = None) -> None:
    """Copies the objects of commit `tip` and its past from `source` to `host`, down to `base`."""
    revisions = f"{tip}\n" + (f"^{base}\n" if base else "")
    pack = source.run("pack-objects", "-q", "--stdout", "--revs", stdin=revisions.encode()).stdout
    host.run("index-pack", "--stdin", "--strict", "--fsck-objects", stdin=pack)
    # git flushes files but not folders
    sync(host.objects / "pack")


def read_commit(repo: Any, oid: str) -> Commit:
    """Returns the commit `oid`, which must exist. `repo` is what `Git.reader` yields."""
    raw = repo.commit(oid)
    parents = tuple(parent.hexsha for parent in raw.parents)
    message = raw.message
    text = message if isinstance(message, str) else message.decode("utf-8", "replace")
    return Commit(raw.hexsha, raw.tree.hexsha, parents, int(raw.committed_date), text)


def read_files(repo: Any, oid: str) -> Mapping[str, tuple[int, bytes]]:
    """Returns (mode, content) of each file of a commit by path. `repo` is what `reader` yields."""
    entries = repo.commit(oid).tree.traverse()
    leaves = sorted((e for e in entries if e.type != "tree"), key=lambda e: str(e.path))
    return {str(e.path): (int(e.mode), _content(e)) for e in leaves}


def _content(entry: Any) -> bytes:
    return bytes(entry.data_stream.read()) if entry.type == "blob" else b""


def git_version() -> tuple[int, ...]:
    """Returns the version of git, such as (2, 39, 5). Raises PreflightError if git is missing."""
    done = _start_git(["version"], b"", _clean_environment())
    digits = done.stdout.decode("ascii", "replace").split()[2].split(".")
    return tuple(int(part) for part in digits if part.isdigit())


def _start_git(
    argv: Sequence[str], stdin: bytes, environment: Mapping[str, str], folder: Path | None = None
) -> CompletedProcess[bytes]:
    """Runs git; the only function that does. Raises InfrastructureError if it takes too long."""
    try:
        return run(
            [_executable(), *argv],
            data=stdin,
            variables=environment,
            inherit=False,
            cwd=folder or "/",
            timeout_sec=_TIMEOUT_SEC,
            # In a session of its own: Ctrl-C on a terminal must not stop git halfway.
            start_new_session=True,
        )
    except TimeoutExpired as error:
        raise InfrastructureError(
            f"git took over {_TIMEOUT_SEC:.0f} s and was stopped: git {' '.join(argv)[-200:]}",
            hint="check the disk, then run the same command again: it resumes",
        ) from error


def _without_programs(argv: Sequence[str]) -> list[str]:
    """Returns the command with options that keep git from running programs for a comparison."""
    command, *rest = argv
    return [command, *(_NO_PROGRAMS if command in _COMPARING else ()), *rest]


def _keys(config: Path) -> list[str]:
    """Returns the names of a configuration's settings. Raises ConfigError if unreadable."""
    argv = ["config", "--file", str(config.resolve()), "--no-includes", "--list", "-z"]
    done = _start_git(argv, b"", _clean_environment() | {"GIT_DIR": "/nonexistent"})
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip()[-200:]
        raise ConfigError(f"git cannot read {config}: {reason}", hint="correct that file")
    rows = done.stdout.split(b"\0")
    return [row.partition(b"\n")[0].decode("utf-8", "replace") for row in rows if row]


def _executable() -> str:
    path = shutil.which("git")
    if path is None:
        raise PreflightError(
            "the program git is not on PATH", hint="install it, for example: apt-get install git"
        )
    return path


def _clean_environment() -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "XDG_CONFIG_HOME": "/nonexistent",
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_EDITOR": "false",
        "GIT_PAGER": "cat",
        "GIT_AUTHOR_NAME": NAME,
        "GIT_AUTHOR_EMAIL": EMAIL,
        "GIT_COMMITTER_NAME": NAME,
        "GIT_COMMITTER_EMAIL": EMAIL,
    }
