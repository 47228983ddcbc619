"""A report as a model wrote it, held against what its script really gives.

Promises: a report that passes has one script, which ran beside the package alone, twice the same on
the faulty source; every line that it printed is in the text, and every line of a block of output is
one that a run gave. The text names no hidden test, no path of the source, no line of the fix.

Does not cover: whether what the prose says around it is true.
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterable, Iterator, Sequence

from meta_agent.domains.swe import Tree
from meta_agent.domains.tasks._bench import Bench
from meta_agent.domains.tasks._issue import (
    SHOWN_CHARS,
    SHOWN_LINES,
    UNFIT,
    cleaned,
    gives_away,
    scrubbed,
    shown_of,
)
from meta_agent.domains.tasks._suite_source import plain_name

_BLOCK = re.compile(r"^[ \t]*```(\w*)[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(`+)(.+?)\1")
_COMMENT = re.compile(r"#\s*(?:(?:->|=>|prints|gives|got|=)\s*)?(.+)$", re.MULTILINE)
_PRIVATE = re.compile(r"(?:\.|\bimport )_(?!_)\w")
_FRAME = ("Traceback", "File ", "...")
_SESSION = """for one in {sources!r}:
    try:
        exec(compile(one, "session", "single"))
    except Exception as error:
        print("".join(__import__("traceback").format_exception_only(error)).strip())
"""


def problem_of(
    bench: Bench,
    report: str,
    sound: Tree,
    faulty: Tree,
    *,
    tests: Iterable[str],
    fixed: Sequence[str],
    path: str,
) -> str:
    """Why a report is none, in words for whoever wrote it; empty where it holds.

    Args:
        bench: where its script runs.
        report: the text.
        sound, faulty: the two sources.
        tests: the deciding tests, by id.
        fixed: the lines that the fix puts back.
        path: of the file that is fixed.
    """
    blocks = _BLOCK.findall(report)
    scripts = [text for language, text in blocks if language in ("python", "pycon", "py")]
    if len(scripts) != 1:
        return f"the report has {len(scripts)} ```python blocks, not one"
    if named := [name for name in _hidden(tests) if re.search(rf"\b{re.escape(name)}\b", report)]:
        return f"the report names the test {named[0]}"
    if path in report:
        return f"the report names the source {path}"
    if gives_away(report, fixed):
        return "the report repeats a line of the fix"
    if _PRIVATE.search(scripts[0]):
        return "the script takes a private name"
    return _untrue(bench, report, scripts[0], sound, faulty)


def _hidden(tests: Iterable[str]) -> Iterator[str]:
    for test in tests:
        yield plain_name(test)[1].rpartition("::")[2]


def _untrue(bench: Bench, report: str, script: str, sound: Tree, faulty: Tree) -> str:
    try:
        code = _code(script)
    except ValueError as problem:
        return f"the session cannot be read: {problem}"
    right = [cleaned(one) for one in bench.said(sound, [code])]
    wrong = [cleaned(one) for one in bench.said(faulty, [code, code])]
    if len(right) != 1 or len(wrong) != 2 or wrong[0] != wrong[1]:
        return "the script does not end, or gives something else every time"
    good, bad = shown_of(right[0]), shown_of(wrong[0])
    ran = f"It printed with the bug:\n{bad}\nand without it:\n{good}"
    if {right[0].kind, wrong[0].kind} & UNFIT:
        return f"the script lacks something of its own. {ran}"
    if good == bad:
        return f"the script gives the same with the bug and without it:\n{bad}"
    if max(len(bad), len(good)) > SHOWN_CHARS or bad.count("\n") >= SHOWN_LINES:
        return f"the script prints more than {SHOWN_LINES} lines or {SHOWN_CHARS} characters"
    told, stated = _told(report, script)
    lines = {
        side: [one.strip() for one in text.split("\n")] for side, text in ((0, bad), (1, good))
    }
    missing = [one for one in lines[0] if one and one not in told]
    if missing:
        return f"the report does not state this output word for word: {missing[0]}\n{ran}"
    false = [one for one in stated if one not in lines[0] + lines[1]]
    return f"neither version gives this line: {false[0]}\n{ran}" if false else ""


def _code(script: str) -> str:
    if not re.search(r"^\s*>>> ", script, re.MULTILINE):
        return script
    examples = doctest.DocTestParser().get_examples(script)
    return _SESSION.format(sources=[one.source for one in examples])


def _told(report: str, script: str) -> tuple[set[str], list[str]]:
    """Everything that could be output, and what is plainly meant as such."""
    stated: list[str] = []
    for language, text in _BLOCK.findall(report):
        if language not in ("python", "pycon", "py"):
            stated += text.split("\n")
    if re.search(r"^\s*>>> ", script, re.MULTILINE):
        for one in doctest.DocTestParser().get_examples(script):
            stated += one.want.split("\n")
    clean = [scrubbed(one).strip() for one in stated]
    clean = [one for one in clean if one and not one.startswith(_FRAME)]
    loose = [text for _, text in _INLINE.findall(_BLOCK.sub("", report))]
    loose += _COMMENT.findall(script)
    return {*clean, *(scrubbed(one).strip() for one in loose)}, clean
