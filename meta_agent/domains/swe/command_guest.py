"""Runs a set's own test command behind the walls of `walls_guest` (in the sandbox).

The host passes this file's text, behind that of `walls_guest`, to `python3 -I -c`, and one JSON
document on stdin: `texts`, `places`, `script`, `hook`. Every Python that the command starts reads
the texts once, from a descriptor that it then closes: `hook` is put before its own path for that.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from meta_agent.domains.swe.walls_guest import Texts, make_read_only

_TEXTS = 9
"""The descriptor of a file without a name that holds the texts."""


def main() -> None:
    """Becomes the shell that runs the command. Raises OSError if there is no bash."""
    order = json.loads(sys.stdin.buffer.readline())
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(order["texts"]).encode())
        file.flush()
        os.dup2(file.fileno(), _TEXTS)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    make_read_only([".", order["hook"]], order["places"])
    os.execvp("bash", ["bash", "-c", order["script"]])


def install() -> None:
    """Puts the texts where this Python imports them from; does nothing if there are none."""
    try:
        size = os.fstat(_TEXTS).st_size
        texts = json.loads(os.pread(_TEXTS, size, 0))
        os.close(_TEXTS)
    except (OSError, ValueError):
        return
    sys.meta_path.insert(0, Texts(texts))
