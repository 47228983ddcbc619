"""What a repository's own settings may say before git is run in it.

git obeys the configuration of the repository that it works in, and much of that is a command:
filters, merge drivers, transports, editors. A workspace may come from somebody else. So its
settings are read as a file, by a git that is in no repository, and whatever is not known to be
inert is refused by name; so is a place that would lead git elsewhere (a link, a common folder) or
let it wait for ever (a FIFO).

Not covered: the owner's clone that `adopt` writes a branch to, whose settings are theirs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.history._git import Git, GitError

_NOWHERE: Final = Path("/nonexistent")
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


def check_settings(path: Path) -> None:
    """Raises ConfigError where the repository of a work tree would make git do what we never asked.

    Starts no command in it.
    """
    folder = path / ".git"
    if folder.is_symlink() or not folder.is_dir():
        raise ConfigError(f"{folder} is no folder: git would work elsewhere", hint=_hint(path))
    for odd in _neither_file_nor_folder(folder):
        raise ConfigError(f"{odd} would lead git elsewhere, or let it wait", hint=_hint(path))
    for name in _ELSEWHERE:
        if os.path.lexists(folder / name):
            raise ConfigError(f"{folder / name} is not ours: git would obey it", hint=_hint(path))
    for key in _keys(folder / "config", path):
        if not _INERT.fullmatch(key):
            raise ConfigError(f"{folder / 'config'} sets {key!r:.80}", hint=_hint(path))


def _neither_file_nor_folder(folder: Path) -> Iterator[str]:
    """Links, FIFOs and their like, and what is too deep to be looked into."""
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


def _keys(config: Path, path: Path) -> list[str]:
    if config.is_symlink() or not config.is_file() or config.stat().st_size > _MAX_BYTES:
        raise ConfigError(f"{config} is no file of at most {_MAX_BYTES} bytes", hint=_hint(path))
    argv = ("config", "--file", str(config.resolve()), "--no-includes", "--list", "-z")
    try:
        rows = Git(_NOWHERE).run(*argv).stdout.split(b"\0")
    except GitError as error:
        raise ConfigError(f"{config} cannot be read: {error.stderr.strip()[-200:]}") from error
    return [row.partition(b"\n")[0].decode("utf-8", "replace") for row in rows if row]


def _hint(path: Path) -> str:
    return f"look at {path}/.git yourself; take the entry out if the workspace is yours"
