"""Applies, checks or undoes one recorded harness edit. Standard library only; asks nothing.

The edit is the unified diff in PATCH. Blocks are found by their text, near the recorded line first,
so the edit also applies to a harness that has moved on around them.

An edit that was measured to bring nothing, or harm, is written only with `--force`.

Does not cover: a harness in which the surrounding lines themselves differ; that is exit status 1,
and nothing is written.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

PATCH: list[str] = []
DO_NOT_REPEAT = False
"""Whether a verdict spoke against this edit."""

_FILE = re.compile(r"diff --git a/(.*) b/(.*)")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
Hunk = tuple[int, list[str], list[str]]  # recorded line, lines before, lines after


class DoesNotApplyError(Exception):
    """The harness does not hold the text that the edit replaces."""


def lines_of(text: str) -> list[str]:
    """Lines with their ends; only a newline ends a line, as in git."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def read_patch(lines: list[str]) -> dict[str, list[Hunk]]:
    """The hunks of a `git diff`, by path. Lines keep their ends."""
    files: dict[str, list[Hunk]] = {}
    path, mark = "", ""
    for line in lines:
        if match := _FILE.match(line):
            path, mark = match[2].rstrip("\n"), ""
            files[path] = []
        elif match := _HUNK.match(line):
            files[path].append((int(match[1]), [], []))
            mark = "@"
        elif mark:
            mark = add_line(files[path][-1], line, mark)
    return files


def add_line(hunk: Hunk, line: str, above: str) -> str:
    """Adds one diff line to the sides it is on, and returns its mark."""
    _, before, after = hunk
    mark = line[0]
    if mark == "\\":  # "\ No newline at end of file" speaks of the line above it
        for side, marks in ((before, " -"), (after, " +")):
            if above in marks and side:
                side[-1] = side[-1].removesuffix("\n")
    if mark in " -":
        before.append(line[1:])
    if mark in " +":
        after.append(line[1:])
    return mark


def apply_hunks(text: str, hunks: list[Hunk], undo: bool) -> str:
    """The text with every hunk replaced, in order."""
    lines, shift = lines_of(text), 0
    for start, old, new in hunks:
        before, after = (new, old) if undo else (old, new)
        at = find(lines, before, start - 1 + shift)
        lines[at : at + len(before)] = after
        shift += len(after) - len(before)
    return "".join(lines)


def find(lines: list[str], block: list[str], near: int) -> int:
    """Where the block stands, nearest to the recorded line."""
    if not block:
        return min(max(near, 0), len(lines))
    places = [i for i in range(len(lines) - len(block) + 1) if lines[i : i + len(block)] == block]
    if not places:
        raise DoesNotApplyError(block[0].rstrip("\n"))
    return min(places, key=lambda i: (abs(i - near), i))


def edit(harness: Path, undo: bool) -> dict[str, str]:
    """The new text of every file that the edit touches."""
    changed = {}
    for path, hunks in read_patch(PATCH).items():
        target = harness / path
        if not target.resolve().is_relative_to(harness.resolve()):
            raise DoesNotApplyError(path)
        text = target.read_text("utf-8") if target.is_file() else ""
        changed[path] = apply_hunks(text, hunks, undo)
    return changed


def write(harness: Path, changed: dict[str, str]) -> None:
    """Writes each file whole; one that becomes empty was added by the edit, and goes."""
    for path, text in changed.items():
        target = harness / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(target.name + ".new")
        temporary.write_text(text, "utf-8")
        temporary.replace(target)
        if not text:
            target.unlink()


def measured() -> str:
    """What the verdict was, from the file beside the script."""
    try:
        text = (Path(__file__).parents[1] / "references/measured.md").read_text("utf-8")
    except OSError:
        return "a verdict spoke against it"
    return next((row for row in text.splitlines() if row and row[0] not in "#|"), text)


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 done, 1 the edit does not apply, 2 usage, 3 refused: do not repeat it."""
    parser = argparse.ArgumentParser(description="Apply a recorded harness edit.")
    parser.add_argument("harness", nargs="?", type=Path, help="folder with harness.toml")
    parser.add_argument(
        "--check", action="store_true", help="say whether it applies; write nothing"
    )
    parser.add_argument("--undo", action="store_true", help="replace the new text by the old")
    parser.add_argument("--force", action="store_true", help="also an edit not to be repeated")
    parser.add_argument("--show", action="store_true", help="print the diff and stop")
    options = parser.parse_args(argv)
    if options.show:
        sys.stdout.write("".join(PATCH))
        return 0
    if options.harness is None or not options.harness.is_dir():
        parser.error("name a harness folder")
    try:
        changed = edit(options.harness, options.undo)
    except (DoesNotApplyError, UnicodeDecodeError) as error:
        print(json.dumps({"applies": False, "missing": str(error)}))
        return 1
    if DO_NOT_REPEAT and not (options.check or options.undo or options.force):
        print(json.dumps({"applies": True, "written": False, "refused": measured()}))
        return 3
    if not options.check:
        write(options.harness, changed)
    print(json.dumps({"applies": True, "written": not options.check, "paths": sorted(changed)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
