"""Reads an owner's files once: from a git repository, or from a plain folder.

Promises: the original is only read. Of a repository the committed files are taken, by one shallow
fetch into a throw-away repository (no checkout, so no filter, hook or submodule runs), over `https`
or from this machine. Files that cannot be harness files are left out and listed. So are files with
the names of key files, since models read a harness.
Does not cover: keys in files of other names; private repositories behind other transports: clone
them yourself and give the folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.harness import matches_any
from meta_agent.core.history._git import Git, GitError, scratch
from meta_agent.core.history._limits import AdmissionLimits
from meta_agent.core.history._policy import check_collisions, check_path

MAX_FILE_BYTES: Final = 256 << 10
MAX_TREE_BYTES: Final = 4 << 20
MAX_FILES: Final = 500
"""The bounds of a candidate's tree: a larger harness could not be edited."""
SKIPPED_FOLDERS: Final = frozenset(
    {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"}
    | {".pytest_cache", ".tox", ".eggs", "build", "dist"}
)
KEPT_SECRET: Final = (
    *("**/.env", "**/.env.*", "**/*.env", "**/.envrc", "**/.netrc", "**/.npmrc", "**/.pypirc"),
    *("**/*.pem", "**/*.key", "**/*.p12", "**/*.pfx", "**/id_rsa", "**/id_ecdsa", "**/id_ed25519"),
    *("**/.aws/**", "**/.ssh/**", "**/.gnupg/**", "**/credentials.json"),
    *("**/secrets.json", "**/secrets.toml", "**/secrets.yaml", "**/secrets.yml"),
)
"""File names under which people store keys."""
EXAMPLES: Final = ("**/*.example", "**/*.sample", "**/*.template", "**/*.dist")
LINK: Final = "a link"
NOT_REGULAR: Final = "not a regular file"
_SHOWN: Final = 5


class Foreign(NamedTuple):
    """The files read from a user's agent, by path, and those left out, each with a reason."""

    files: dict[str, bytes]
    source: str
    commit: str | None  # None: a plain folder
    left_out: dict[str, str]
    uncommitted: tuple[str, ...] = ()
    """Committed files that differ in the user's folder. The committed content is taken."""


def is_address(source: str) -> bool:
    """Returns True if `source` is a network address, False if it is a folder."""
    return "://" in source or source.startswith("git@")


def read_foreign(source: str, *, leave_out: Sequence[str] = ()) -> Foreign:
    """Returns the files of a user's agent, in a folder or at a git address.

    Files that match a pattern of `leave_out`, that are large or whose names suggest keys are left
    out. Raises ConfigError if no file is left, or if all together are too large.
    """
    if is_address(source):
        foreign = _fetched(source, _transport(source), source, leave_out)
    elif (Path(source) / ".git").exists():
        foreign = _fetched(f"file://{Path(source).resolve()}", "file", source, leave_out)
        foreign = foreign._replace(uncommitted=tuple(_changed(Path(source), foreign.files)))
    else:
        foreign = _folder(Path(source), leave_out)
    try:
        check_collisions(foreign.files)
    except CandidateError as error:
        raise ConfigError(f"{source}: {error}", hint="leave it out: --leave-out PATTERN") from error
    return foreign


def _transport(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("https", "file"):
        raise ConfigError(
            f"{address} cannot be imported: only folders and https:// addresses can",
            hint="run git clone yourself, then name the folder: --harness FOLDER",
        )
    if parts.username or parts.password:
        raise ConfigError(
            "the harness's address holds a user name or a key, which would be stored",
            hint="run git clone yourself, then name the folder: --harness FOLDER",
        )
    return parts.scheme


def _fetched(address: str, transport: str, source: str, leave_out: Sequence[str]) -> Foreign:
    with scratch(None, transport=transport) as git:
        try:
            git.run(
                *("-c", "fetch.fsckObjects=true", "fetch", "-q", "--depth=1", "--no-tags"),
                *("--no-recurse-submodules", "--no-write-fetch-head", address, "HEAD:refs/import"),
            )
        except GitError as error:
            words = error.stderr.strip()[-300:]
            raise ConfigError(
                f"cannot read {source}: {words}", hint=error.hint_or("is it a git repository?")
            ) from error
        return _committed(git, source, leave_out)


def _committed(git: Git, source: str, leave_out: Sequence[str]) -> Foreign:
    commit = git.line("rev-parse", "--verify", "refs/import^{commit}")
    rows = git.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit).stdout.split(b"\0")
    blob_ids: dict[str, str] = {}
    sizes: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for head, _, name in (row.partition(b"\t") for row in rows if row):
        mode, _, oid, size = head.decode("ascii").split()
        path = name.decode("utf-8", "replace")
        reason = _odd_mode(mode) or (_too_large(int(size)) if size != "-" else "")
        if reason := reason or _unwanted(path, leave_out):
            left_out[path] = reason
        else:
            blob_ids[path], sizes[path] = oid, int(size)
    _check_bounds(source, sizes)
    files = {path: git.run("cat-file", "blob", oid).stdout for path, oid in blob_ids.items()}
    return Foreign(files, source, commit, left_out)


def _changed(folder: Path, files: Mapping[str, bytes]) -> Iterator[str]:
    """Yields the committed files that the folder lacks or holds with other text.

    Reads bytes and runs no git in the folder, so no hook or filter of it runs. Line ends may
    differ, because git changes them on some machines.
    """
    for path, data in sorted(files.items()):
        beside = folder / path
        if not beside.is_file() or _lines(beside.read_bytes()) != _lines(data):
            yield path


def _lines(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def _odd_mode(mode: str) -> str:
    return {"120000": LINK, "160000": "a submodule"}.get(mode, "")


def _too_large(size: int) -> str:
    return f"{size} bytes" if size > MAX_FILE_BYTES else ""


def _folder(root: Path, leave_out: Sequence[str]) -> Foreign:
    if not root.is_dir():
        raise ConfigError(
            f"there is no folder {root}",
            hint="--harness takes seed, competent, a folder or an https:// address",
        )
    sizes: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for path in _walk(root):
        name = path.relative_to(root).as_posix()
        if reason := _odd_file(path) or _unwanted(name, leave_out):
            left_out[name] = reason
        else:
            sizes[name] = path.stat().st_size
    _check_bounds(str(root), sizes)
    files = {name: (root / name).read_bytes() for name in sizes}
    return Foreign(files, str(root), None, left_out)


def _walk(root: Path) -> Iterator[Path]:
    for top, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        yield from (Path(top) / name for name in sorted(names))


def _odd_file(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return NOT_REGULAR
    return _too_large(path.stat().st_size)


def _unwanted(path: str, leave_out: Sequence[str]) -> str:
    """Returns why a file may not be part of a harness, or "" if it may."""
    return "as asked" if matches_any(leave_out, path) else _secret(path) or _unfit(path)


def _secret(path: str) -> str:
    looks_secret = matches_any(KEPT_SECRET, path) and not matches_any(EXAMPLES, path)
    return "its name says that it holds keys" if looks_secret else ""


def _unfit(path: str) -> str:
    try:
        check_path(path, AdmissionLimits())
    except CandidateError as error:
        return error.reason
    return ""


def _check_bounds(source: str, files: Mapping[str, int]) -> None:
    """Raises ConfigError if there are no files, or too many or too large ones (path to bytes)."""
    total = sum(files.values())
    if not files:
        raise ConfigError(
            f"{source} has no file that can be imported",
            hint="name the agent's folder: --harness FOLDER",
        )
    if len(files) > MAX_FILES or total > MAX_TREE_BYTES:
        raise ConfigError(
            f"{source} has {len(files)} files of {total} bytes; the limits are {MAX_FILES} files "
            f"and {MAX_TREE_BYTES} bytes. The largest folders: {_largest(files)}",
            hint="leave out what the agent does not need: --leave-out 'docs/**'",
        )


def _largest(files: Mapping[str, int]) -> str:
    sums: dict[str, int] = {}
    for path, size in files.items():
        top = path.partition("/")[0]
        sums[top] = sums.get(top, 0) + size
    return ", ".join(_first_sizes(sorted(sums.items(), key=lambda pair: -pair[1])))


def _first_sizes(pairs: Iterable[tuple[str, int]]) -> list[str]:
    return [f"{name} ({size} bytes)" for name, size in pairs][:_SHOWN]
