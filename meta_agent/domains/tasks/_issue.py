"""Issue texts: a script that shows a fault, what it gives and what it should give.

Promises: the script runs as it is beside the package alone, gives on the faulty source what the
text says, twice, and on the sound source what the text asks for; no line of the fix, no path and no
line number of the source; the same package gives the same text on every run (addresses, ports of
this machine and temporary paths are taken out). Where a like use gives the same on both sources,
the text sets it beside the fault.

Does not cover: why somebody wants it. Three layouts, chosen by the script, say what was run.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from textwrap import shorten
from typing import NamedTuple

from meta_agent.core.parsing.syntax import parse_python
from meta_agent.domains.swe import Tree
from meta_agent.domains.tasks._bench import Bench, Failure, Probed, Said
from meta_agent.domains.tasks._package import Package
from meta_agent.domains.tasks._script import Script, scripts, uses
from meta_agent.domains.tasks._suite_source import UnreachableError, plain_name

UNSHOWN = "no script of a user's shows it"
_TRIED = 16  # scripts of a fault
_TESTS = 3  # that they come from
_AT_ONCE = 4
_USES = 12  # like uses that are run, of
_MOST_USES = 400
SHOWN_LINES = 12
SHOWN_CHARS = 900
_SHORT_CHARS = 40
_TELLING_CHARS = 12  # shorter lines (`return x`, `else:`) give nothing away
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_PLACE = re.compile(r"/(?:tmp|var|home|root|work|repo|usr|opt|private)(/[\w.~-]+)*/")
_PORT = re.compile(r"\b(localhost|127(?:\.\d+){3})(:|['\"]?, (?:port=)?)\d{4,5}\b")
# Errors of a script that lacks something, not of the package.
UNFIT = frozenset({"NameError", "ImportError", "ModuleNotFoundError", "SyntaxError", "timeout"})


class Shown(NamedTuple):
    """One script that shows a fault, and what a like use gives: an expression and its output."""

    script: Script
    sound: Said
    faulty: Said
    works: tuple[str, str] = ("", "")


class Told(NamedTuple):
    """A text, empty where no failure can be shown. `plain`: nothing odd in its script; `compared`:
    with a like use that works."""

    text: str = ""
    plain: bool = False
    compared: bool = False


@dataclass(frozen=True, slots=True)
class Material:
    """What a text is made of. `names`: what the package defines; both trees have the tests."""

    names: frozenset[str]
    sound: Tree
    faulty: Tree
    failures: Mapping[str, Failure]
    near: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Tests of the same function that pass on both, with their parameters."""


def issue_text(bench: Bench, material: Material) -> Told:
    """The text of a fault."""
    root = bench.package.pythonpath[0]
    shown = _differing(bench, material, _candidates(material, root))
    if shown is None:
        return Told()
    shown = shown._replace(works=_like_use(bench, material, shown.script))
    plain = not shown.script.odd and shown.faulty.kind != "AssertionError"
    about = f"{bench.package.name} {bench.package.version}".strip()
    return Told(_written(about, material.names, shown), plain, bool(shown.works[0]))


def same_failures(first: Probed, whole: Probed, failing: Sequence[str]) -> dict[str, Failure]:
    """Failures that two runs tell alike: what varies is no symptom to report."""
    return {
        test: whole.failures[test]
        for test in failing
        if test in whole.failures
        and test in first.failures
        and scrubbed(first.failures[test].message) == scrubbed(whole.failures[test].message)
    }


def gives_away(text: str, fixed_lines: Iterable[str]) -> bool:
    """Whether a text repeats a telling line of the fix."""
    told = " ".join(text.split())
    lines = (" ".join(line.split()) for line in fixed_lines)
    return any(line in told for line in lines if len(line) >= _TELLING_CHARS)


def scrubbed(message: str) -> str:
    """A message without what differs from run to run."""
    return _PLACE.sub(".../", _PORT.sub(r"\1\2PORT", _ADDRESS.sub("0x...", message)))


def _candidates(material: Material, root: str) -> list[Script]:
    """The plainest ways to show each failure: a way of each, the shortest first, then others."""
    ways: list[list[Script]] = []
    for test, failure in sorted(material.failures.items()):
        path, name = plain_name(test)
        try:
            lines, given, source = failure.lines, failure.parameters, material.sound[path]
            ways.append(scripts(source, path, name, lines=lines, parameters=given, root=root))
        except (UnreachableError, KeyError):
            continue
    nearest = sorted((of for of in ways if of), key=lambda of: (of[0].odd, len(of[0].code)))
    ranked = [(rank, one) for of in nearest[:_TESTS] for rank, one in enumerate(of)]
    ranked.sort(key=lambda row: (row[1].odd, row[0], len(row[1].code), row[1].code))
    return list(dict.fromkeys(one for _, one in ranked))[:_TRIED]


def _differing(bench: Bench, material: Material, wanted: Sequence[Script]) -> Shown | None:
    """The first script that tells the two trees apart, alike in two runs."""
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        codes = [one.code for one in some]
        sound = bench.said(material.sound, codes)
        faulty = bench.said(material.faulty, [*codes, *codes])
        for script, *said in zip(some, sound, faulty, faulty[len(codes) :], strict=False):
            right, wrong, again = map(cleaned, said)
            meant = not right.kind or _is_meant(bench.package, right)
            if wrong == again and meant and _tells(script, right, wrong):
                return Shown(script, right, wrong)
    return None


def _is_meant(package: Package, error: Said) -> bool:
    """Whether the package itself words an error; another just happens, and nobody asks for it."""
    pieces = re.findall(r"\w[\w ]{6,}\w", error.message.partition(": ")[2])
    own = (package.tree[path].decode("utf-8", "replace") for path in package.sources)
    kind = hasattr(builtins, error.kind)
    return not kind or any(piece in text for text in own for piece in pieces)


def _like_use(bench: Bench, material: Material, script: Script) -> tuple[str, str]:
    """A use of the same function, as like as there is, that gives the same on both trees."""
    called = _main(script.subject, material.names) or "\0"
    found: dict[str, Script] = {}
    tests = {test: one.parameters for test, one in material.failures.items()} | dict(material.near)
    for test, given in sorted(tests.items())[:_MOST_USES]:
        path, name = plain_name(test)
        try:
            some = uses(material.sound[path], path, name, given, bench.package.pythonpath[0])
        except (UnreachableError, KeyError):
            continue
        found |= {one.code: one for one in some if _main(one.subject, material.names) == called}
    found.pop(script.code, None)

    def likeness(one: Script) -> tuple[float, str]:
        return -SequenceMatcher(None, one.subject, script.subject).ratio(), one.code

    some = sorted(found.values(), key=likeness)[:_USES]
    codes = [one.code for one in some]
    both = (bench.said(tree, codes) if codes else [] for tree in (material.sound, material.faulty))
    for one, right, other in zip(some, *both, strict=False):
        short = 0 < len(right.out.strip()) <= _SHORT_CHARS and "\n" not in right.out.strip()
        if right == other and not right.kind and short and right == _unscrubbed(right):
            return one.expression, right.out.strip()
    return "", ""


def _unscrubbed(said: Said) -> Said:
    return said._replace(out=scrubbed(said.out))


def cleaned(said: Said) -> Said:
    return Said(scrubbed(said.out).rstrip(), said.kind, scrubbed(said.message).strip())


def _tells(script: Script, sound: Said, faulty: Said) -> bool:
    """Whether a script fits, shows the fault, and can be read."""
    unfit = sound.kind in UNFIT or faulty.kind in UNFIT
    expected = bool(sound.kind) == script.refuses
    texts = [part for said in (sound, faulty) for part in (said.out, said.message)]
    readable = all(len(t) <= SHOWN_CHARS and t.count("\n") < SHOWN_LINES for t in texts)
    silent = script.code.splitlines()[-1].startswith("print(") and not (sound.out or sound.kind)
    silent = silent or (not (faulty.out or faulty.kind) and bool(sound.out))
    return not unfit and expected and readable and not silent and sound != faulty


# --- words ---------------------------------------------------------------------------------------


def _written(package: str, names: frozenset[str], one: Shown) -> str:
    called = _main(one.script.subject, names) or _main(one.script.code, names)
    subject = f"`{called}`" if called else package.split()[0]
    chosen = hashlib.sha256(one.script.code.encode()).digest()[0]
    layout = _LAYOUTS[chosen % len(_LAYOUTS)]
    return "\n\n".join([_title(subject, one), *layout(package, one)]) + "\n"


def _main(code: str, names: frozenset[str]) -> str:
    """What of these a piece of code calls, or else takes: the outermost of its end."""
    nodes = [one for part in reversed(parse_python(code).body) for one in ast.walk(part)]
    called = (one.func for one in nodes if isinstance(one, ast.Call))
    taken = (one for one in nodes if isinstance(one, ast.Attribute))
    return next((name for one in (*called, *taken) if (name := _last_name(one)) in names), "")


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


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
    asked = f"`{one.script.expression}`" if one.script.expression else subject
    if all(0 < len(value) <= _SHORT_CHARS and "\n" not in value for value in values):
        return f"{asked} gives {values[1]} instead of {values[0]}"
    return f"Wrong output from {asked}"


def _layout_story(package: str, one: Shown) -> list[str]:
    return [
        f"I run this with {package}:",
        _block(one.script.code, "python"),
        *_told("and it gives", "and {nothing}.", one.faulty, one.sound),
        *_told("I expected", "I expected that {nothing}.", one.sound, one.faulty),
        *_beside("`{}` is fine, it gives `{}`.", one),
    ]


def _layout_form(package: str, one: Shown) -> list[str]:
    return [
        "**To reproduce**",
        _block(one.script.code, "python"),
        *_told("**Actual result**", "**Actual result**: {nothing}.", one.faulty, one.sound),
        *_told("**Expected result**", "**Expected result**: {nothing}.", one.sound, one.faulty),
        *_beside("`{}` still gives `{}`.", one),
        f"**Version**: {package}",
    ]


def _layout_report(package: str, one: Shown) -> list[str]:
    return [
        *_told(
            "This script should give",
            "This script should run so that {nothing}:",
            one.sound,
            one.faulty,
        ),
        _block(one.script.code, "python"),
        *_told("What comes out here is", "Here {nothing}.", one.faulty, one.sound),
        *_beside("With `{}` it is `{}`, as it should be.", one),
        f"({package})",
    ]


def _beside(sentence: str, one: Shown) -> list[str]:
    return [sentence.format(*one.works)] if one.works[0] else []


_LAYOUTS = (_layout_story, _layout_form, _layout_report)


def _told(gives: str, empty: str, said: Said, other: Said) -> list[str]:
    """What a run showed; where it showed nothing, what that means beside the other run."""
    if shown_of(said):
        return [gives, _block(shown_of(said))]
    nothing = "there is no error" if other.kind else "an empty line is printed"
    return [empty.format(nothing=nothing)]


def shown_of(said: Said) -> str:
    return "\n".join(part for part in (said.out, said.message) if part)


def _block(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```"
