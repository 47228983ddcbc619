"""A workspace: the directory that holds a harness, its history and all records of its runs.

Promises: a directory is a workspace if it holds a `meta-agent.toml`. That file is written last, so
an interrupted `init_workspace` can be run again. A directory with other files is never changed.

Opening a workspace that another installation made logs a warning first.

Does not cover the content of its parts. The caller's `create_repo` makes the harness repository
(see `meta_agent.core.history`), and `meta_agent.core.ledger` makes the ledger.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import stat
import tomllib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from meta_agent.core.durable import part_of, write_whole
from meta_agent.core.errors import ConfigError

SETTINGS_FILE: Final = "meta-agent.toml"
DEFAULT_NAME: Final = "meta-agent-workspace"
SCHEMA_VERSION: Final = 2
BUILT_IN_HARNESSES: Final = ("seed", "competent")

_TABLES: Final = ("workspace", "evolve", "training", "engine", "prices")
REPO: Final = "harness_repo"
_DIRECTORIES: Final = ("skills_library", "rollouts", "reports", "checkpoints")
_LEDGER: Final = "ledger.sqlite"
AGENTS: Final = "agents"
"""The folder with the sessions of coding agents, by run."""
GIVEN: Final = "given"
"""The folder of files that `meta_agent.optimize` writes from its Python arguments."""
_MAKER: Final = ".maker"
_MARK = re.compile(r"[0-9a-f]{32}")
_SMALL_BYTES: Final = 4096
_log = logging.getLogger(__name__)
# Files that an interrupted `init_workspace` may have left.
_OURS: Final = {
    *_DIRECTORIES,
    *(GIVEN, REPO, _MAKER, f".{REPO}.building", part_of(Path(SETTINGS_FILE)).name),
}

_SETTINGS: Final = """\
# The identity of this workspace, written once by `meta-agent init`.
[workspace]
schema_version = {schema_version}
domain = "{domain}"
harness = "{harness}"
seed = {seed}

# Defaults of `meta-agent evolve` in this workspace. Flags and META_AGENT_* variables win.
[evolve]
domain = "{domain}"
harness = "{harness}"
# generations = 3
# candidates = 3
# train_steps = 30
# sandbox = "auto"
# max_usd = 5.0

# Prices of models that no table knows, or of your own server; USD per million tokens.
# [prices."openai/my-model"]
# input = 0.0
# output = 0.0
"""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace's root, the paths in it, and the domain, harness and seed it was made from."""

    root: Path
    domain: str
    harness: str  # what it started from: a built-in harness, a folder or an address
    seed: int  # chose the faults that were planted in that harness

    @property
    def settings_file(self) -> Path:
        return self.root / SETTINGS_FILE

    @property
    def harness_repo(self) -> Path:
        """Returns the folder of the harness's git repository; `main` is the proven harness."""
        return self.root / REPO

    @property
    def skills_library(self) -> Path:
        return self.root / "skills_library"

    @property
    def rollouts(self) -> Path:
        return self.root / "rollouts"

    @property
    def transcripts(self) -> Path:
        """Returns the folder of recorded model exchanges, with a folder for each run."""
        return self.root / "transcripts"

    @property
    def ledger_file(self) -> Path:
        return self.root / _LEDGER

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"


def find_workspace(chosen: Path | None, cwd: Path) -> Path:
    """Returns the workspace's path: `chosen`, else `cwd` if it is one, else a folder inside it."""
    if chosen is not None:
        return (cwd / chosen.expanduser()).absolute()
    return cwd.absolute() if (cwd / SETTINGS_FILE).is_file() else (cwd / DEFAULT_NAME).absolute()


def is_workspace(root: Path) -> bool:
    """Returns True if the folder `root` is a complete workspace."""
    return (root / SETTINGS_FILE).is_file()


def init_workspace(
    root: Path,
    *,
    domain: str,
    harness: str = "seed",
    seed: int = 0,
    create_repo: Callable[[Path], object],
) -> Workspace:
    """Makes a workspace, completes an unfinished one, or opens the one that exists.

    `create_repo(path)` must make the whole harness repository or nothing. Raises ConfigError if
    `root` holds other files or is for another domain or harness.
    """
    if is_workspace(root):
        return _same(open_workspace(root), domain=domain, harness=harness)

    def fill(root: Path) -> None:
        if not (root / REPO).is_dir():
            create_repo(root / REPO)
        _write_settings(root, domain=domain, harness=harness, seed=seed)

    claim_workspace(root, fill)
    return open_workspace(root)


def claim_workspace(root: Path, fill: Callable[[Path], None]) -> None:
    """Makes a workspace in a directory without other files. `fill` writes the settings file last.

    Raises ConfigError if `root` holds other files or cannot be written.
    """
    _require_free(root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _alone_in(root):
            if is_workspace(root):  # somebody made it while we waited
                return
            _make_directories(root)
            _sign(root)
            fill(root)
    except OSError as error:
        raise ConfigError(
            f"cannot make a workspace in {root}: {error.strerror}",
            hint="choose another directory with --workspace",
        ) from error


@contextmanager
def _alone_in(root: Path) -> Iterator[None]:
    """Holds a lock on the folder, so that one process at a time makes a workspace in it."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def open_workspace(root: Path) -> Workspace:
    """Opens a workspace and returns its paths. Raises ConfigError if it is missing or damaged.

    If another installation made it, that is logged, and links in it raise ConfigError.
    """
    if not is_workspace(root):
        raise ConfigError(
            f"{root} is not a workspace (it has no {SETTINGS_FILE})",
            hint=f"meta-agent init --workspace {root}",
        )
    identity = _identity(root / SETTINGS_FILE)
    for part in (REPO, *_DIRECTORIES):
        if not (root / part).is_dir():
            raise ConfigError(
                f"the workspace {root} is damaged: {part}/ is missing",
                hint="restore it from a copy, or start a new one with --workspace DIR",
            )
    if not made_here(root):
        _refuse_odd(root)
        _log.warning(
            "%s was not made by this installation: its harness, settings and records may come "
            "from a stranger; read its %s before you run it",
            root,
            SETTINGS_FILE,
        )
    return Workspace(root, **identity)


def _refuse_odd(root: Path) -> None:
    """Raises ConfigError if a part is a link or a special file, such as a FIFO."""
    for entry in root.iterdir():
        if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
            raise ConfigError(
                f"{entry} is a link or a special file, in a workspace from another machine",
                hint="if it is yours, replace the link with its target; else use another workspace",
            )


def made_here(root: Path) -> bool:
    """Returns True if this installation of the program made the workspace `root`."""
    mark = read_small(root / _MAKER) or ""
    return bool(_MARK.fullmatch(mark)) and (_marks_folder() / mark).is_file()


def state_dir() -> Path:
    """Returns the folder of this program's state: `$XDG_STATE_HOME/meta-agent` or its default."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "meta-agent"


def read_small(path: Path, most_bytes: int = _SMALL_BYTES) -> str | None:
    """Returns a file's text, up to `most_bytes`; None if it is missing, a link or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        text = os.read(descriptor, most_bytes) if regular else None
    finally:
        os.close(descriptor)
    return None if text is None else text.decode("utf-8", "replace").strip()


def _marks_folder() -> Path:
    return state_dir() / "workspaces"


def _sign(root: Path) -> None:
    mark = uuid.uuid4().hex
    _marks_folder().mkdir(parents=True, exist_ok=True)
    (_marks_folder() / mark).write_text(str(root.absolute()), encoding="utf-8")
    (root / _MAKER).write_text(mark, encoding="ascii")


def require_fitting(root: Path, *, domain: str, harness: str) -> None:
    """Raises ConfigError if `root` is a workspace for another domain or harness. Writes nothing."""
    if is_workspace(root):
        _same(open_workspace(root), domain=domain, harness=harness)


def read_settings(path: Path) -> dict[str, Any]:
    """Returns the tables of a settings file. Raises ConfigError for bad TOML or unknown tables."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}", hint="correct the line that it names"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}; check that it exists and its permissions"
        ) from error
    for name, value in tables.items():
        if name not in _TABLES or not isinstance(value, dict):
            raise ConfigError(
                f"unknown key {name!r} in {path}", hint="move settings below a line [evolve]"
            )
    return tables


def _identity(path: Path) -> dict[str, Any]:
    table = dict(read_settings(path).get("workspace", {}))
    version = table.pop("schema_version", None)
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"{path} is of another version: its schema_version is {version!r}, and this "
            f"meta-agent reads {SCHEMA_VERSION}",
            hint="begin a new workspace: meta-agent evolve --workspace DIR",
        )
    expected: dict[str, type] = {"domain": str, "harness": str, "seed": int}
    for name in {*expected, *table}:
        if name not in expected or not isinstance(table.get(name), expected[name]):
            raise ConfigError(
                f"{path} is damaged: [workspace] {name} = {table.get(name)!r}",
                hint="restore the file from a copy: it is written once and not meant to be edited",
            )
    return table


def _same(workspace: Workspace, *, domain: str, harness: str) -> Workspace:
    if workspace.domain != domain:
        raise ConfigError(
            f"the workspace {workspace.root} is for the domain {workspace.domain}, not {domain}",
            hint=f"add --workspace ./{domain}-workspace, which begins another",
        )
    # An agent that is not built in may have come from another path, so only its files count.
    if workspace.harness != harness and not {workspace.harness, harness}.isdisjoint(
        BUILT_IN_HARNESSES
    ):
        raise ConfigError(
            f"the workspace {workspace.root} holds the harness {workspace.harness}, not {harness}",
            hint="leave --harness out, or start a new workspace with --workspace DIR",
        )
    return workspace


def _require_free(root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise ConfigError(f"{root} is a file, not a directory", hint="choose another --workspace")
    foreign = sorted({entry.name for entry in root.iterdir()} - _OURS) if root.is_dir() else []
    if foreign:
        raise ConfigError(
            f"{root} already holds other files ({foreign[0]}) and is not a workspace",
            hint=f"meta-agent init --workspace {root / DEFAULT_NAME}",
        )


def _make_directories(root: Path) -> None:
    for name in _DIRECTORIES:
        (root / name).mkdir(parents=True, exist_ok=True)


def _write_settings(root: Path, *, domain: str, harness: str, seed: int) -> None:
    escaped = json.dumps(harness, ensure_ascii=False)[1:-1]  # a path: TOML escapes as JSON does
    text = _SETTINGS.format(
        schema_version=SCHEMA_VERSION, domain=domain, harness=escaped, seed=seed
    )
    write_whole(root / SETTINGS_FILE, text)
