"""Runs a set's own test command behind the walls of `walls_guest` (in the sandbox).

The host passes this file's text, behind that of `walls_guest`, to `python3 -I -c`, and one JSON
document on stdin: `texts`, `places`, `sources`, `script`, `hook`. `hook` is put before the path of
every Python that the command starts. Each reads the texts once, from a descriptor that it then
closes, and at its end adds to the file `../imported` which of `sources` it had imported, and
how often it opened each.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
from pathlib import Path

from meta_agent.domains.swe.walls_guest import REALPATH, Opened, Texts, make_read_only

_ORDER = 9
"""The descriptor of a file without a name that holds the texts and the sources."""


def main() -> None:
    """Becomes the shell that runs the command. Raises OSError if there is no bash."""
    order = json.loads(sys.stdin.buffer.readline())
    sources = [REALPATH(path) for path in order["sources"]]
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps([order["texts"], sources, REALPATH("../imported")]).encode())
        file.flush()
        os.dup2(file.fileno(), _ORDER)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    make_read_only([".", order["hook"]], order["places"])
    os.execvp("bash", ["bash", "-c", order["script"]])


def install() -> None:
    """Puts the texts where this Python imports them from; does nothing if there is no order."""
    try:
        size = os.fstat(_ORDER).st_size
        texts, sources, notes = json.loads(os.pread(_ORDER, size, 0))
        os.close(_ORDER)
    except (OSError, ValueError):
        return
    sys.meta_path.insert(0, Texts(texts))
    atexit.register(_note, Opened(sources), sources, notes)


def _note(opened: Opened, sources: list[str], notes: str) -> None:
    with Path(notes).open("a", encoding="utf-8") as file:
        file.write("".join(f"{n} {path}\n" for path, n in opened.imported(sources).items()))
