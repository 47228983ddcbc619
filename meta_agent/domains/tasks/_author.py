"""A language model that writes a small bug, and the report of a user who met it.

`opening` writes the question, and `read_reply` takes an edit of one file and a report out of the
reply. The model sees one source file, the names of tests and the beginning of the list of changes,
never the text of a test. It is asked at most twice.

Does not cover: whether the bug and the report are true. `_synth` runs them.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

from meta_agent.core.chat import ChatRequest, ModelClient
from meta_agent.core.protocols import Message
from meta_agent.domains.tasks._faults import Fault
from meta_agent.domains.tasks._package import Package
from meta_agent.domains.tasks._source import Def, parsed

RULE = "author"
TURNS = 2
_REPLY_TOKENS = 8000
_WHOLE_FILE_CHARS = 30_000
_AROUND_LINES = 150
_CHANGES_CHARS = 2500
_MOST_TESTS = 60
# Where a function decides nothing every slip shows at once: authors decline most such functions.
_DECIDING = (
    *(ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.BoolOp, ast.Compare),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_EDIT = re.compile(r"<edit>\s*<old>\n?(.*?)\n?</old>\s*<new>\n?(.*?)\n?</new>\s*</edit>", re.DOTALL)
_REPORT = re.compile(r"<report>\s*(.*?)\s*</report>", re.DOTALL)
_DECLINE = re.compile(r"<decline>\s*(.*?)\s*</decline>", re.DOTALL)
_CHANGES = re.compile(r"(CHANGE|HISTORY|NEWS|RELEASE)", re.IGNORECASE)

Callers = Mapping[tuple[str, int], Sequence[str]]  # tests by path and line of a function


@dataclass(frozen=True, slots=True)
class FunctionUnderTest:
    """A function that tests call, from line `first` (decorators included) to line `last`."""

    path: str
    function: str
    first: int
    last: int

    @property
    def topic(self) -> str:
        """Returns `path:function`. Tasks with the same topic share a split."""
        return f"{self.path}:{self.function}"


class Reply(NamedTuple):
    """A model's reply as read: an edit and an issue report, or why it has none (`problem`)."""

    problem: str = ""
    declined: bool = False
    edit: Fault | None = None
    report: str = ""


@dataclass(frozen=True, slots=True)
class Author:
    """A language model, of the name `model`, that writes bugs and issue reports."""

    client: ModelClient
    model: str

    def ask(self, messages: Sequence[Message], place: FunctionUnderTest, turn: int) -> Message:
        """Returns the model's reply to `messages` about a function. `turn`: its number, from 0."""
        request = ChatRequest("proposer", "", messages, _REPLY_TOKENS)
        name = hashlib.sha256(place.topic.encode()).hexdigest()[:12]
        return self.client.chat(request, conversation=f"author/{name}", turn=turn).message


def places(package: Package, callers: Callers, seed: int) -> list[FunctionUnderTest]:
    """Returns tested functions that branch, loop or compare, in an order that the seed draws."""
    turns: list[tuple[int, str, FunctionUnderTest]] = []
    for path in package.sources:
        functions = [p for p in _functions(path, package.tree[path]) if (path, p.first) in callers]
        functions.sort(key=lambda place: _draw(seed, place.topic))
        turns += [(turn, _draw(seed, path), place) for turn, place in enumerate(functions)]
    return [place for _, _, place in sorted(turns, key=lambda row: row[:2])]


def read_reply(text: str, source: bytes, place: FunctionUnderTest) -> Reply:
    """Returns the edit of `source` and the report in a model's reply, or why it has none."""
    if decline := _DECLINE.search(text):
        return Reply(decline[1], declined=True)
    edits, report = _EDIT.findall(text), _REPORT.search(text)
    if not edits or report is None:
        return Reply("the answer has no <edit> with <old> and <new>, or no <report>")
    before = source.decode()
    lines = before.replace("\r\n", "\n")
    for old, new in edits:
        if (count := lines.count(old)) != 1:
            return Reply(f"this <old> stands {count} times in the file, not once:\n{old}")
        lines = lines.replace(old, new)
    after = lines.replace("\n", "\r\n") if "\r\n" in before else lines
    return Reply(edit=_fault(place, source, after.encode()), report=report[1].strip() + "\n")


def _draw(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}\0{name}".encode()).hexdigest()


def _functions(path: str, source: bytes) -> Iterator[FunctionUnderTest]:
    """Yields top-level functions and methods that branch, loop or compare."""
    tree = parsed(source)
    bodies = [("", tree.body)] if tree else []
    for prefix, body in bodies:
        for node in body:
            if isinstance(node, ast.ClassDef):
                bodies.append((f"{prefix}{node.name}.", node.body))
            elif isinstance(node, Def) and any(isinstance(n, _DECIDING) for n in ast.walk(node)):
                first = min([node.lineno, *(line.lineno for line in node.decorator_list)])
                yield FunctionUnderTest(path, prefix + node.name, first, node.end_lineno or first)


def _fault(place: FunctionUnderTest, before: bytes, after: bytes) -> Fault:
    """Returns the edit that makes `after` of `before`: the lines without the common ends."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    front = _alike(old, new)
    back = _alike(old[front:][::-1], new[front:][::-1])
    start, end = sum(map(len, old[:front])), len(before) - sum(map(len, old[len(old) - back :]))
    text = b"".join(new[front : len(new) - back])
    return Fault(RULE, place.path, place.function, place.first, start, end, text)


def _alike(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    """Returns how many lines both texts have in common at their beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((n for n, (before, after) in pairs if before != after), min(len(old), len(new)))


def opening(
    package: Package, place: FunctionUnderTest, callers: Callers, seed: int
) -> list[Message]:
    """Returns the first message to the model, which asks for a bug in the function `place`."""
    guide = resources.files("meta_agent.domains.tasks").joinpath("author.md").read_text("utf-8")
    instructions, _, tones = guide.partition("\n--- tones\n")
    voices = tones.strip().split("\n")
    voice = voices[int(_draw(seed, place.topic)[:8], 16) % len(voices)]
    tests = callers[place.path, place.first]
    listed = "\n".join(tests[:_MOST_TESTS])
    lines = package.tree[place.path].decode("utf-8", "replace").split("\n")
    first, last = 0, len(lines)
    if sum(map(len, lines)) > _WHOLE_FILE_CHARS:
        first, last = max(0, place.first - _AROUND_LINES), place.last + _AROUND_LINES
    shown_lines = "\n".join(lines[first:last])
    changes = [
        package.tree[path].decode("utf-8", "replace")[:_CHANGES_CHARS]
        for path in sorted(package.tree)
        if "/" not in path and _CHANGES.match(path)
    ]
    parts = [
        instructions.replace("{voice}", voice),
        f"# The package\n{package.name} {package.version}".rstrip(),
        *(f"# Its list of changes begins\n{text}" for text in changes[:1]),
        f"# The function\n`{place.function}`, in {place.path}, lines {place.first}-{place.last}",
        f"# Tests that call it: {len(tests)}\n{listed}",
        f"# {place.path}, lines {first + 1}-{min(last, len(lines))}\n{shown_lines}",
    ]
    return [{"role": "user", "content": "\n\n".join(parts)}]
