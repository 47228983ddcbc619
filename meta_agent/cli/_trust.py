"""Decides whether code that a folder's settings file names may run: its grader, Python or domain.

Promises: commands that look run nothing that the file names (`looked_at`, `require_no_program`).
Commands that run ask once for a folder that this installation did not make (`require_trusted`). The
answer is stored in the user's state by content: a change of the settings, of a named file or of a
Python file beside it asks again. A folder is one's own if this installation made its workspace.

Does not cover: what the user names on the command line or in the environment, which is the user's
own word, and modules that named code imports from elsewhere.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.workspace import REPO, SETTINGS_FILE, made_here, state_dir

PROGRAMS: Final = ("grade", "python", "domain")
_MOST_FILES: Final = 1000  # Python files beside a named one


def programs(config: RunConfig, *, recorded: bool = False) -> dict[str, str]:
    """Returns settings that make code run and that the workspace's settings file gives.

    Settings that a run of the workspace `recorded` count whatever they came from.
    """
    file = str(config.workspace / SETTINGS_FILE)
    values = {name: str(getattr(config, name)) for name in PROGRAMS if getattr(config, name)}
    return {
        name: value
        for name, value in values.items()
        if (recorded or config.origin.get(name) == file)
        and (name != "domain" or ":" in value)
        and (name != "python" or value != sys.executable)
    }


def looked_at(config: RunConfig) -> RunConfig:
    """Returns the settings with our own Python in place of one that the settings file names."""
    if "python" not in programs(config):
        return config
    return config.model_copy(update={"python": sys.executable})


def require_no_program(config: RunConfig) -> None:
    """Raises ConfigError if opening the tasks would run code that the settings file names."""
    for name, value in programs(looked_at(config)).items():
        raise ConfigError(
            f"{name} = {value!r} of {config.workspace / SETTINGS_FILE} is code of this folder, "
            "which a command that only looks does not run",
            hint=f"if you trust it, say so on the command line: --{name} {value}",
        )


def require_trusted(
    config: RunConfig,
    *,
    trust: bool,
    ask: Callable[[str], bool] | None = None,
    recorded: bool = False,
) -> None:
    """Returns if this folder's code may run: it is one's own, trusted before, or trusted now.

    `trust` is the user's --trust; `ask` puts a question to the user. Raises ConfigError else.
    """
    root, settings = config.workspace, programs(config, recorded=recorded)
    is_foreign = not recorded and (root / SETTINGS_FILE).is_file() and (root / REPO).is_dir()
    if not (settings or is_foreign) or made_here(root):
        return
    mark = _trusted_folder() / _digest(root, settings)
    if mark.is_file():
        return
    words = ", ".join(f"{name} = {value!r}" for name, value in settings.items())
    what = f"runs {words}" if words else "holds a harness, which would run in sandboxes"
    if not trust and not (ask and ask(f"{root} was not made by you: it {what}. Trust it?")):
        raise ConfigError(
            f"{root} was not made by this installation, and it {what}",
            hint="read it; if you trust it, repeat the command with --trust",
        )
    mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mark.write_text(str(root), encoding="utf-8")


def _trusted_folder() -> Path:
    return state_dir() / "trusted"


def _digest(root: Path, settings: dict[str, str]) -> str:
    """Returns a hash of the folder's path, its settings, and the files that they name."""
    hashed = hashlib.sha256(str(root.absolute()).encode())
    files = {root / SETTINGS_FILE, *(f for v in settings.values() for f in _files_of(root, v))}
    for file in sorted(files):
        hashed.update(f"\0{file}\0".encode())
        if file.is_file():
            with file.open("rb") as content:
                hashed.update(hashlib.file_digest(content, "sha256").digest())
    return hashed.hexdigest()


def _files_of(root: Path, value: str) -> Iterator[Path]:
    """Yields the file that a setting names and the Python files beside it, ConfigError if many."""
    path = Path(value) if Path(value).is_absolute() else root / value.partition(":")[0]
    folder = path.parent if path.is_file() else root
    beside = sorted(folder.glob("*.py"))
    if len(beside) > _MOST_FILES:
        raise ConfigError(
            f"{folder} has {len(beside)} Python files; at most {_MOST_FILES} are trusted at once",
            hint="name the program on the command line",
        )
    yield from (path, *beside)
