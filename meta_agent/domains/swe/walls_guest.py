"""Two walls around a run of tests: their texts are not on the disk, and the tree cannot be written.

Part of the runner's text (`pytest_guest`), and of what runs a set's own command (`command_guest`).
Stdlib only; it takes what it needs from the interpreter before code under test is imported.

Does not cover: a kernel without Landlock (before 5.13, or not Linux). There `make_read_only` says
False and changes nothing. Modes, times and owners of files can be changed everywhere.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
import sys
from pathlib import Path
from typing import Any

REALPATH = os.path.realpath
_CREATE, _ADD, _RESTRICT, _NO_NEW_PRIVILEGES = 444, 445, 446, 38
_OF_FILES, _OF_FOLDERS = 1 << 1, sum(1 << bit for bit in range(4, 13))  # writing; make, remove
_BY_VERSION = {2: 1 << 13, 3: 1 << 14}  # moving between folders; cutting short


class Texts:
    """An import finder of files whose texts came by stdin: on the disk they are empty or others."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = {
            REALPATH(path): text.encode("utf-8", "surrogateescape") for path, text in texts.items()
        }
        parts = [Path(path).with_suffix("").parts for path in self._texts]
        self._names = {part[-2] if part[-1] == "__init__" else part[-1] for part in parts}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Returns the import spec of such a file, or None for any other module."""
        if name.rpartition(".")[2] not in self._names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        text = self._texts.get(REALPATH(spec.origin)) if spec and spec.origin else None
        if spec is None or text is None:
            return None
        spec.loader = loader = _Loader(name, str(spec.origin))
        loader.text = text
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    text: Any = None

    def get_code(self, fullname: str) -> Any:
        """Compiles the text once and forgets it. Raises SyntaxError if it is no Python."""
        text, self.text = self.text, None
        return compile(text or b"", self.get_filename(fullname), "exec", dont_inherit=True)


class Opened:
    """Counts how often this Python opens each of the files `sources`: an import does so once.

    A file is imported if its code is executed: what a module says of itself (`__file__`) counts for
    nothing. A Python without audit hooks (before 3.8) takes all sources for imported.
    """

    def __init__(self, sources: list[str]) -> None:
        self._counts = {REALPATH(path): 0 for path in sources}
        self._executed: set[str] = set()
        listen = getattr(sys, "addaudithook", None)
        if listen is None:
            self._executed.update(self._counts)
        else:
            listen(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("exec", "cpython.run_file", "open") or isinstance(arguments[0], int):
            return
        file = arguments[0].co_filename if event == "exec" else arguments[0]
        path = REALPATH(os.fsdecode(file))
        if path not in self._counts:
            return
        if event == "open":
            self._counts[path] += 1
        else:
            self._executed.add(path)

    def imported(self, sources: list[str]) -> dict[str, int]:
        """Returns those of `sources` that were imported, with how often each was opened."""
        places = {path: REALPATH(path) for path in sources}
        return {p: self._counts[place] for p, place in places.items() if place in self._executed}


def make_read_only(folders: list[str], places: list[str]) -> bool:
    """Denies this process and its children to write below `folders`, except below `places`.

    Returns False if the kernel cannot do that, or if a place is a whole folder of `folders`.
    """
    closed = {REALPATH(folder) for folder in folders}
    spared = [REALPATH(place) for place in places]
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, 0, 1)
    if version < 1 or closed.intersection(spared):
        return False
    rights = _OF_FILES | _OF_FOLDERS
    rights |= sum(bit for since, bit in _BY_VERSION.items() if version >= since)
    rules = libc.syscall(_CREATE, ctypes.byref(ctypes.c_uint64(rights)), ctypes.c_size_t(8), 0)
    for path in [*_beside(closed), *spared]:
        _allow(libc, rules, path, rights)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    is_denied = bool(libc.syscall(_RESTRICT, rules, 0) == 0)
    os.close(rules)
    return is_denied


def _beside(closed: set[str]) -> list[str]:
    """Returns the paths that together hold everything but the folders `closed`."""
    paths, waiting = [], [Path("/")]
    while waiting:
        for path in waiting.pop().iterdir():
            if any(f"{keep}/".startswith(f"{path}/") for keep in closed):
                waiting += [] if str(path) in closed else [path]
            elif not path.is_symlink():
                paths.append(str(path))
    return paths


def _allow(libc: Any, rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    granted = rights if Path(path).is_dir() else rights & (_OF_FILES | _BY_VERSION[3])
    rule = granted.to_bytes(8, "little") + place.to_bytes(4, "little")
    libc.syscall(_ADD, rules, 1, rule, 0)
    os.close(place)
