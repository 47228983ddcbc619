"""Blocks of a Markdown page, and a shell that carries them out as a reader would.

The words after the language say what a block needs: ```` ```bash key ````. What is not here is not
carried out: such a block is read by the parsers of its commands alone (`tests/docs/_parsed.py`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)


class Block(NamedTuple):
    """One fenced block."""

    language: str
    needs: frozenset[str]
    text: str
    line: int
    after: str
    """The page's words from here to the next block."""


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    ends = [one.start() for one in found[1:]] + [len(text)] * bool(found)
    for one, end in zip(found, ends, strict=True):
        language, *needs = one["info"].split() or [""]
        line = text.count("\n", 0, one.start()) + 2
        yield Block(language, frozenset(needs), one["text"], line, text[one.end() : end])


class Shell:
    """A folder in which blocks are carried out one after the other; variables and `cd` stay."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self._bin, self._state = folder.parent / "bin", folder.parent / "state.sh"
        self._bin.mkdir()
        program = self._bin / "meta-agent"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m meta_agent "$@"\n')
        program.chmod(0o755)
        self._state.write_text("")
        kept = {k: v for k, v in os.environ.items() if not k.startswith("META_AGENT_")}
        paths = {"PATH": f"{self._bin}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self._variables = {**kept, **paths, "HOME": str(folder.parent), **variables}

    def __call__(self, text: str, timeout_sec: float = 600) -> str:
        """What a block printed on stdout. Raises AssertionError where a command of it fails."""
        keep = f"{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} > {self._state}"
        script = f"set -euo pipefail\n. {self._state}\n{text}\n{keep}\n"
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=timeout_sec,
            check=False,
        )
        assert ran.returncode == 0, f"exit {ran.returncode}\n{text}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout
