"""Checks a repository's own settings before git is run in it.

git obeys the configuration of the repository that it works in, and much of that can be a command:
filters, merge drivers, transports, editors. A workspace may come from somebody else. So `_git`
calls this before its first command. A setting that is not known to be harmless is refused by name,
and so is a place that would lead git elsewhere (a link, a common folder) or make it wait for ever
(a FIFO).
Not covered: the owner's clone that `adopt` writes a branch to, whose settings are theirs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError

_INERT: Final = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase"
    r"|precomposeunicode|symlinks)"
    r"|user\.(name|email)|remote\..*\.(url|pushurl|fetch)|branch\..*\.(remote|merge|rebase)"
)
_ELSEWHERE: Final = (
    "commondir",
    "config.worktree",
    "info/attributes",
    "info/grafts",
    "objects/info/alternates",
    "objects/info/http-alternates",
    "refs/replace",
    "shallow",
)
_MAX_BYTES: Final = 64 << 10


def check_places(git_dir: Path) -> None:
    """Raises ConfigError if an entry of `git_dir`, such as a link, could lead git out of it."""
    hint = _hint(git_dir)
    if git_dir.is_symlink() or not git_dir.is_dir():
        raise ConfigError(f"{git_dir} is not a folder, or is a link to another place", hint=hint)
    for odd in _neither_file_nor_folder(git_dir):
        raise ConfigError(
            f"{odd} is a link, is no plain file or cannot be read: git is not run there", hint=hint
        )
    for name in _ELSEWHERE:
        if os.path.lexists(git_dir / name):
            raise ConfigError(
                f"{git_dir / name}, not made by meta-agent, could lead git to another place",
                hint=hint,
            )
    config = git_dir / "config"
    if not config.is_file() or config.stat().st_size > _MAX_BYTES:
        raise ConfigError(f"{config} must be a file of at most {_MAX_BYTES} bytes", hint=hint)


def check_keys(git_dir: Path, keys: Iterable[str]) -> None:
    """Raises ConfigError if a git setting, by its name in `keys`, is not known to be harmless."""
    for key in keys:
        if not _INERT.fullmatch(key):
            raise ConfigError(
                f"{git_dir / 'config'} sets {key!r:.80}, which could make git run a command",
                hint=_hint(git_dir),
            )


def _neither_file_nor_folder(folder: Path) -> Iterator[str]:
    """Yields links, FIFOs and similar entries, and folders that cannot be read."""
    waiting = [str(folder)]
    while waiting:
        place = waiting.pop()
        try:
            entries = list(os.scandir(place))
        except OSError:
            yield place
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                yield entry.path


def _hint(git_dir: Path) -> str:
    return f"look at {git_dir}; if the workspace is yours, remove what the message names"
