"""Two texts that SWE sets carry: the evaluation script of SWE-bench, and SWE-smith's patch.

The script resets tests, applies the test patch and installs the package before it runs the tests.
We do the first two ourselves, outside (the agent's tree never meets the script), and install
nothing, since there is no network. What is left is the command between the two markers, and the
lines before it that choose an environment.

SWE-smith's `patch` is the bug; its fix is the same diff reversed. Hunks are walked by the counts in
their heads, so a removed line that looks like a file head is a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

START: Final = ">>>>> Start Test Output"
END: Final = ">>>>> End Test Output"
# Lines that change only the shell's own state.
_SETS_UP: Final = re.compile(r"\s*(?:source|\.|conda activate|export|unset|cd|ulimit|nvm use)\s")


class Commands(NamedTuple):
    prelude: str
    command: str


def commands_of(script: str) -> Commands | None:
    """Returns the test command and what sets it up, or None if the markers are missing."""
    lines = script.split("\n")
    start, end = (_marked(lines, mark) for mark in (START, END))
    if start is None or end is None or end <= start + 1:
        return None
    before = [line for line in lines[:start] if _SETS_UP.match(line)]
    return Commands("\n".join(before), "\n".join(lines[start + 1 : end]).strip())


def _marked(lines: list[str], mark: str) -> int | None:
    """The first line that prints a marker. One inside a test patch begins with the diff's sign."""
    for number, line in enumerate(lines):
        if mark in line and line.lstrip().startswith((":", "echo")):
            return number
    return None


# --- the other way round ----------------------------------------------------------------

_HUNK = re.compile(r"@@ -(\d+(?:,(\d+))?) \+(\d+(?:,(\d+))?) @@(.*)")
_OPPOSITE = (
    ("new file mode ", "deleted file mode "),
    ("deleted file mode ", "new file mode "),
    ("rename from ", "rename to "),
    ("rename to ", "rename from "),
)


def reversed_patch(text: str) -> str:
    """Returns the diff that undoes a diff."""
    lines = iter(text.split("\n"))
    return "\n".join(_turned(lines))


def _turned(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        hunk = _HUNK.match(line)
        if line.startswith("--- "):
            new = next(lines, "")
            yield f"--- {_renamed(new[4:], 'b/', 'a/')}"
            yield f"+++ {_renamed(line[4:], 'a/', 'b/')}"
        elif hunk:
            old, new = hunk[1], hunk[3]
            yield f"@@ -{new} +{old} @@{hunk[5]}"
            yield from _body(lines, int(hunk[2] or 1), int(hunk[4] or 1))
        else:
            yield _head(line)


def _renamed(name: str, prefix: str, other: str) -> str:
    return name if name.startswith("/dev/null") else other + name.removeprefix(prefix)


def _head(line: str) -> str:
    for mark, opposite in _OPPOSITE:
        if line.startswith(mark):
            return opposite + line[len(mark) :]
    return line


def _body(lines: Iterator[str], old: int, new: int) -> Iterator[str]:
    while old > 0 or new > 0:
        line = next(lines, "")
        kind = line[:1]
        old -= kind in ("-", " ", "")
        new -= kind in ("+", " ", "")
        yield {"-": "+", "+": "-"}.get(kind, kind) + line[1:]
