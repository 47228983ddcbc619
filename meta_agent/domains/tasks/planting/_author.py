"""A model that writes a small bug and the report of a user who met it.

Promises: what the model says is text until it was read here: an edit of one file that applies, and
a report. It sees one source file, the names of tests and the beginning of the list of changes,
never a test's text. A reply is asked for at most twice.

Does not cover: whether any of it is true. `_authored` runs it.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from meta_agent.core.chat import ChatRequest, ModelClient
from meta_agent.core.protocols import Message
from meta_agent.domains.tasks._names import parsed
from meta_agent.domains.tasks._package import Package
from meta_agent.domains.tasks.planting._mutations import Mutation
from meta_agent.domains.tasks.planting._sound import Sound

OPERATOR = "author"
TURNS = 2
_REPLY_TOKENS = 8000
_WHOLE_FILE_CHARS = 30_000
_AROUND_LINES = 150
_CHANGES_CHARS = 2500
_MOST_TESTS = 60
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DECIDING = (
    *(ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.BoolOp, ast.Compare),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_EDIT = re.compile(r"<edit>\s*<old>\n?(.*?)\n?</old>\s*<new>\n?(.*?)\n?</new>\s*</edit>", re.DOTALL)
_REPORT = re.compile(r"<report>\s*(.*?)\s*</report>", re.DOTALL)
_DECLINE = re.compile(r"<decline>\s*(.*?)\s*</decline>", re.DOTALL)
_CHANGES = re.compile(r"(CHANGE|HISTORY|NEWS|RELEASE)", re.IGNORECASE)
_VOICES = (
    "Tone: brief, without headings: what they did, a session with prompts, one sentence of wonder.",
    "Tone: a form with bold headings (what I do, what I see, what I expected), version at the end.",
    "Tone: friendly and a little long-winded; what their program is for comes before the script.",
    "Tone: terse, three sentences; the result in backticks in a sentence, no output block.",
    "Tone: a question from somebody who is not sure whether they use it wrongly.",
    "Tone: they compare a call that works for them with the one that does not, in one script.",
    "Tone: they found it late, in their data, and shortened it to a minimal script.",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A function that tests call. `def_line` as its code object says it."""

    path: str
    function: str
    def_line: int
    first: int
    last: int

    @property
    def topic(self) -> str:
        """What a task about it is about."""
        return f"{self.path}:{self.function}"


class Written(NamedTuple):
    """A reply, read: an edit and a report, or why there is none (`declined`: by the model)."""

    problem: str = ""
    declined: bool = False
    edit: Mutation | None = None
    report: str = ""


@dataclass(frozen=True, slots=True)
class Author:
    """Asks one model. `model` is its name for the record."""

    client: ModelClient
    model: str

    def opening(self, package: Package, sound: Sound, place: Place, seed: int) -> list[Message]:
        """The first question about a place."""
        return [{"role": "user", "content": _question(package, sound, place, seed)}]

    def ask(self, messages: Sequence[Message], place: Place, turn: int) -> Message:
        """The next reply; raises what a `ModelClient` does."""
        request = ChatRequest("proposer", "", messages, _REPLY_TOKENS)
        name = hashlib.sha256(place.topic.encode()).hexdigest()[:12]
        return self.client.chat(request, conversation=f"author/{name}", turn=turn).message


def places(package: Package, sound: Sound, seed: int) -> list[Place]:
    """Functions that decide something, by turns of the files, as the seed orders them."""
    by_file: list[tuple[int, str, Place]] = []
    for path in package.sources:
        found = [
            one
            for one in _functions(path, package.tree[path])
            if (path, one.def_line) in sound.covering
        ]
        found.sort(key=lambda one: _drawn(seed, one.topic))
        by_file += [(turn, _drawn(seed, path), one) for turn, one in enumerate(found)]
    return [one for _, _, one in sorted(by_file, key=lambda row: row[:2])]


def read_reply(text: str, source: bytes, place: Place) -> Written:
    """What a reply holds."""
    if declined := _DECLINE.search(text):
        return Written(declined.group(1), declined=True)
    edits, report = _EDIT.findall(text), _REPORT.search(text)
    if not edits or report is None:
        return Written("the answer has no <edit> with <old> and <new>, or no <report>")
    after = source.decode()
    for old, new in edits:
        if after.count(old) != 1:
            found = after.count(old)
            return Written(f"this <old> stands {found} times in the file, not once:\n{old}")
        after = after.replace(old, new)
    edit = _as_mutation(place, source, after.encode())
    return Written(edit=edit, report=report.group(1).strip() + "\n")


def _drawn(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}\0{name}".encode()).hexdigest()


def _functions(path: str, source: bytes) -> Iterator[Place]:
    """Top-level functions and methods that decide something."""
    tree = parsed(source)
    bodies = [("", tree.body)] if tree else []
    for prefix, body in bodies:
        for node in body:
            if isinstance(node, ast.ClassDef):
                bodies.append((f"{prefix}{node.name}.", node.body))
            elif isinstance(node, _FUNCTIONS) and _decides(node):
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                last = node.end_lineno or first
                yield Place(path, prefix + node.name, first, first, last)


def _decides(function: ast.AST) -> bool:
    """Where nothing is decided every slip shows at once: authors decline most such functions."""
    return any(isinstance(one, _DECIDING) for one in ast.walk(function))


def _as_mutation(place: Place, before: bytes, after: bytes) -> Mutation:
    """The whole lines between what both have in front and what both have behind."""
    one, two = before.splitlines(keepends=True), after.splitlines(keepends=True)
    front = _alike(one, two)
    behind = _alike(one[front:][::-1], two[front:][::-1])
    start = sum(map(len, one[:front]))
    end = len(before) - sum(map(len, one[len(one) - behind :]))
    new = b"".join(two[front : len(two) - behind])
    return Mutation(OPERATOR, place.path, place.function, place.def_line, start, end, new)


def _alike(one: Sequence[bytes], two: Sequence[bytes]) -> int:
    pairs = enumerate(zip(one, two, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(two)))


@cache
def _instructions() -> str:
    found = resources.files("meta_agent.domains.tasks.planting").joinpath("author.md")
    return found.read_text("utf-8")


def _question(package: Package, sound: Sound, place: Place, seed: int) -> str:
    voice = _VOICES[int(_drawn(seed, place.topic)[:8], 16) % len(_VOICES)]
    tests = sound.covering[place.path, place.def_line]
    shown = "\n".join(tests[:_MOST_TESTS])
    lines = package.tree[place.path].decode("utf-8", "replace").split("\n")
    first, last = 0, len(lines)
    if sum(map(len, lines)) > _WHOLE_FILE_CHARS:
        first, last = max(0, place.first - _AROUND_LINES), place.last + _AROUND_LINES
    parts = [
        _instructions().replace("{voice}", voice),
        f"# The package\n{package.name} {package.version}".rstrip(),
        f"# The function\n`{place.function}`, in {place.path}, lines {place.first}-{place.last}",
        f"# Tests that call it: {len(tests)}\n{shown}",
        f"# {place.path}, lines {first + 1}-{min(last, len(lines))}\n"
        + "\n".join(lines[first:last]),
    ]
    changes = sorted(path for path in package.tree if "/" not in path and _CHANGES.match(path))
    if changes:
        text = package.tree[changes[0]].decode("utf-8", "replace")[:_CHANGES_CHARS]
        parts.insert(2, f"# Its list of changes begins\n{text}")
    return "\n\n".join(parts)
