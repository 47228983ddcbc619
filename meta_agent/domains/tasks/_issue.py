"""Issue texts: a script that shows a fault, what it gives and what it should give.

Promises: the script runs as it is beside the package alone, gives on the faulty source what the
text says, twice, and on the sound source what the text asks for; no line of the fix, no path and no
line number of the source; the same package gives the same text on every run (addresses, ports of
this machine and temporary paths are taken out).

Does not cover: why somebody wants it. Three layouts, chosen by the script, say what was run.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import shorten
from typing import NamedTuple

from meta_agent.domains.swe import Tree
from meta_agent.domains.tasks._bench import Bench, Failure, Said
from meta_agent.domains.tasks._script import Script, scripts
from meta_agent.domains.tasks._suite_source import UnreachableError, plain_name

UNSHOWN = "no script without the test's own frame shows it"
_TRIED = 16  # scripts of a fault
_TESTS = 3  # that they come from
_AT_ONCE = 4
_SHOWN_LINES = 12
_SHOWN_CHARS = 900
_SHORT_CHARS = 40
_TELLING_CHARS = 12  # shorter lines (`return x`, `else:`) give nothing away
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_PLACE = re.compile(r"(/[\w.~-]+)+/")
_PORT = re.compile(r"\b(localhost|127(?:\.\d+){3})(:|['\"]?, (?:port=)?)\d{4,5}\b")
# Errors of a script that lacks something, not of the package.
_UNFIT = frozenset({"NameError", "ImportError", "ModuleNotFoundError", "SyntaxError", "timeout"})


class Shown(NamedTuple):
    """One script that shows a fault."""

    script: Script
    sound: Said
    faulty: Said


def issue_text(
    bench: Bench,
    names: frozenset[str],
    trees: tuple[Tree, Tree],
    failures: Mapping[str, Failure],
) -> str:
    """The text, empty where no failure can be shown. `names`: what the package defines; `trees`:
    the sound one and the faulty one, both with the tests."""
    wanted = _candidates(trees[0], bench.package.pythonpath[0], failures)
    shown = _differing(bench, trees, wanted)
    return _written(bench.package.name, names, shown) if shown else ""


def gives_away(text: str, fixed_lines: Iterable[str]) -> bool:
    """Whether a text repeats a telling line of the fix."""
    told = " ".join(text.split())
    lines = (" ".join(line.split()) for line in fixed_lines)
    return any(line in told for line in lines if len(line) >= _TELLING_CHARS)


def scrubbed(message: str) -> str:
    """A message without what differs from run to run."""
    return _PLACE.sub(".../", _PORT.sub(r"\1\2PORT", _ADDRESS.sub("0x...", message)))


def _candidates(tests: Tree, root: str, failures: Mapping[str, Failure]) -> list[Script]:
    """The plainest ways to show each failure: a way of each, the shortest first, then others."""
    ways: list[list[Script]] = []
    for test in sorted(failures):
        path, name = plain_name(test)
        failure = failures[test]
        try:
            lines, given = failure.lines, failure.parameters
            ways.append(scripts(tests[path], path, name, lines=lines, parameters=given, root=root))
        except (UnreachableError, KeyError):
            continue
    nearest = sorted((of for of in ways if of), key=lambda of: len(of[0].code))[:_TESTS]
    ranked = [(rank, one) for of in nearest for rank, one in enumerate(of)]
    ranked.sort(key=lambda row: ("pytest" in row[1].code, row[0], len(row[1].code), row[1].code))
    return list(dict.fromkeys(one for _, one in ranked))[:_TRIED]


def _differing(bench: Bench, trees: tuple[Tree, Tree], wanted: Sequence[Script]) -> Shown | None:
    """The first script that tells the two trees apart, alike in two runs."""
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        codes = [one.code for one in some]
        sound, faulty = bench.said(trees[0], codes), bench.said(trees[1], [*codes, *codes])
        for script, *said in zip(some, sound, faulty, faulty[len(codes) :], strict=False):
            right, wrong, again = map(_clean, said)
            if wrong == again and _tells(script, right, wrong):
                return Shown(script, right, wrong)
    return None


def _clean(said: Said) -> Said:
    return Said(scrubbed(said.out).rstrip(), said.kind, scrubbed(said.message).strip())


def _tells(script: Script, sound: Said, faulty: Said) -> bool:
    """Whether a script fits, shows the fault, and can be read."""
    unfit = sound.kind in _UNFIT or faulty.kind in _UNFIT
    expected = bool(sound.kind) == script.refuses
    texts = [part for said in (sound, faulty) for part in (said.out, said.message)]
    readable = all(len(t) <= _SHOWN_CHARS and t.count("\n") < _SHOWN_LINES for t in texts)
    return not unfit and expected and readable and sound != faulty


# --- words ---------------------------------------------------------------------------------------


def _written(package: str, names: frozenset[str], one: Shown) -> str:
    called = next((name for name in _called(one.script.subject) if name in names), "")
    called = called or next((name for name in _called(one.script.code) if name in names), "")
    subject = f"`{called}`" if called else package
    chosen = hashlib.sha256(one.script.code.encode()).digest()[0]
    return "\n\n".join([_title(subject, one), *_LAYOUTS[chosen % len(_LAYOUTS)](one)]) + "\n"


def _called(code: str) -> Iterator[str]:
    """What a piece of code calls or takes from a module, the outermost call last."""
    nodes = list(ast.walk(ast.parse(code)))
    for node in reversed(nodes):
        if isinstance(node, ast.Call):
            func = node.func
            yield func.attr if isinstance(func, ast.Attribute) else ast.unparse(func)
    for node in nodes:
        if isinstance(node, ast.Attribute):
            yield node.attr


def _title(subject: str, one: Shown) -> str:
    wrong, right = one.faulty, one.sound
    if wrong.kind and right.kind:
        return f"{subject} raises {wrong.kind} instead of {right.kind}"
    if wrong.kind == "AssertionError":
        return f"{subject}: an assertion that should hold fails"
    if wrong.kind:
        said = shorten(wrong.message, 2 * _SHORT_CHARS, placeholder=" ...")
        return f"{subject} fails with {said}"
    if right.kind:
        return f"{subject} does not raise {right.kind}"
    values = [right.out.strip(), wrong.out.strip()]
    if all(0 < len(value) <= _SHORT_CHARS and "\n" not in value for value in values):
        return f"{subject}: {values[1]} instead of {values[0]}"
    return f"Wrong output from {subject}"


def _layout_story(one: Shown) -> list[str]:
    return [
        "I run this:",
        _block(one.script.code, "python"),
        *_told("and it gives", "and {nothing}.", one.faulty, one.sound),
        *_told("I expected", "I expected that {nothing}.", one.sound, one.faulty),
    ]


def _layout_form(one: Shown) -> list[str]:
    return [
        "**To reproduce**",
        _block(one.script.code, "python"),
        *_told("**Actual result**", "**Actual result**: {nothing}.", one.faulty, one.sound),
        *_told("**Expected result**", "**Expected result**: {nothing}.", one.sound, one.faulty),
    ]


def _layout_report(one: Shown) -> list[str]:
    return [
        *_told(
            "This script should give",
            "This script should run so that {nothing}:",
            one.sound,
            one.faulty,
        ),
        _block(one.script.code, "python"),
        *_told("What comes out here is", "Here {nothing}.", one.faulty, one.sound),
    ]


_LAYOUTS = (_layout_story, _layout_form, _layout_report)


def _told(gives: str, empty: str, said: Said, other: Said) -> list[str]:
    """What a run showed; where it showed nothing, what that means beside the other run."""
    if _output(said):
        return [gives, _block(_output(said))]
    nothing = "there is no error" if other.kind else "an empty line is printed"
    return [empty.format(nothing=nothing)]


def _output(said: Said) -> str:
    return "\n".join(part for part in (said.out, said.message) if part)


def _block(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```"
