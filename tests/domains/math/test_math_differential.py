"""Our grader and the official ones on real golds and generated spellings: where they part and why.

Each table has one row a spelling: what the official grader says, what ours says, and the reason
where that is not the same. A row that agrees has no reason, one that does not has one; so every
disagreement is listed, and none is listed that is not there.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from math_official import aime_correct, gsm8k_answer, gsm8k_last_number, math_equal

from meta_agent.domains.formats.math_sets import MathRow, read_math
from meta_agent.domains.math import Gold, Verifier, grade_text, sort_golds

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None, reason="needs the math extra"
)
DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
LM_EVAL = "lm-eval==0.4.13"
Table = dict[str, tuple[bool, bool, str]]


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    made = Verifier(wall_sec=4.0)
    yield made
    made.close()


def golds_of(name: str) -> list[str]:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"no shared sample {name}")
    return [row.gold for row in read_math(path).rows]


def explained(table: Table) -> bool:
    return all(bool(why) is (theirs != ours) for theirs, ours, why in table.values())


def compared(
    table: Table, golds: list[str], official: Callable[[str, str], bool], verifier: Verifier
) -> None:
    """Every gold in every spelling comes out as its row says."""
    assert explained(table)
    for form, (theirs, ours, _) in table.items():
        for text in golds:
            plain = text.replace(",", "")
            wrong = int(plain) + 1
            reply = form.format(gold=text, plain=plain, wrong=wrong)
            assert official(reply, plain) is theirs, (form, text, "official")
            found = grade_text(Gold(text, "literal"), reply, verifier)
            assert found.success is ours, (form, text, "ours", found.detail)


# --- GSM8K, by the last number -------------------------------------------------------------------

LAST_NUMBER: Table = {
    "#### {plain}": (True, True, ""),
    "#### {gold}": (True, True, ""),
    r"So \boxed{{{plain}}}": (True, True, ""),
    "The answer is {plain}.": (True, True, ""),
    "The answer is ${plain}.": (True, True, ""),
    "#### {wrong}": (False, False, ""),
    "No idea.": (False, False, ""),
    "It took {plain}": (True, False, "a number that merely stands last is no answer"),
    "First {wrong}, then {plain}": (True, False, "a number that merely stands last is no answer"),
    "#### {wrong}, not {plain}": (True, False, "two answers are no answer"),
    r"\boxed{{{plain}}} (of {wrong})": (
        False,
        True,
        "the answer is the box, whatever comes after it",
    ),
    "#### {plain}\n\nChecked {wrong} times": (False, True, "the answer stands after its marker"),
    "#### {plain}.0": (False, True, "the same number, spelled with a fraction"),
}


def test_gsm8k_by_the_last_number(verifier: Verifier) -> None:
    golds = golds_of("gsm8k_test.jsonl")
    assert len(golds) == 1319
    quick = {form: row for form, row in LAST_NUMBER.items() if ", not" not in form}
    compared(quick, golds[::8], gsm8k_last_number, verifier)
    compared(LAST_NUMBER, golds[:3], gsm8k_last_number, verifier)


# --- AIME ----------------------------------------------------------------------------------------

INTEGERS: Table = {
    r"\boxed{{{plain}}}": (True, True, ""),
    r"So ${plain}$ it is: $\boxed{{{plain}}}$": (True, True, ""),
    r"\boxed{{{wrong}}}": (False, False, ""),
    r"\boxed{{{plain}}} \boxed{{{wrong}}}": (False, False, ""),
    r"\boxed{{{wrong}}} \boxed{{{plain}}}": (True, True, ""),
    "": (False, False, ""),
    r"\boxed{{x={plain}}}": (True, True, ""),
    r"\boxed{{{plain}^\circ}}": (True, True, ""),
    r"\boxed{{{plain}.0}}": (False, True, "equal, not spelled alike"),
    r"\boxed{{0{plain}}}": (False, True, "AIME writes three digits: 025 is 25"),
    r"\boxed{{\text{{{plain}}}}}": (False, True, "the same number without its dress"),
    "{plain}": (True, False, "a bare number is no answer"),
    "I get ${plain}$ and ${plain}$": (False, False, ""),
    r"\boxed{{{plain}\text{{ or {wrong}}}}}": (True, False, "a second answer in the unit's place"),
}


@pytest.mark.parametrize("name", ["AIME24.json", "AIME25.json"])
def test_aime_by_the_integer(name: str, verifier: Verifier) -> None:
    golds = golds_of(name)
    assert golds and all(re.fullmatch(r"\d{1,3}", gold) for gold in golds)
    compared(INTEGERS, golds, aime_correct, verifier)


# --- MATH: kinds of golds, each in many spellings -----------------------------------------------

ALIKE = "equal, not spelled alike"
DRESS = "the same without its dress"
BRACKETS = "brackets around one value"
HEDGE = "a second answer in the unit's place"
NAMED = "the value of a named thing"

SPELLINGS: dict[str, tuple[list[str], Table]] = {
    "whole": (
        ["7", "12", "360", "1000"],
        {
            "{g}.0": (False, True, ALIKE),
            "+{g}": (False, True, "its sign"),
            "0{g}": (False, True, "a leading zero"),
            "({g})": (False, True, BRACKETS),
            "{g}.": (False, True, "a full stop"),
            "{g}\\text{{ cm}}": (True, True, ""),
            "{g}\\text{{ and 8}}": (True, False, HEDGE),
            "{g}\\text{{cm}}": (False, True, DRESS),
            "{g} \\text{{ or }} 8": (True, False, HEDGE),
            "\\${g}": (True, True, ""),
            "{g}\\%": (True, True, ""),
            "{g}^\\circ": (True, True, ""),
            "{g}^{{1}}": (False, True, ALIKE),
            "\\mathrm{{{g}}}": (False, True, DRESS),
            "x={g}": (True, True, ""),
            "abc={g}": (False, True, NAMED),
            "{g}=x": (False, False, ""),
            "\\frac{{{g}}}{{1}}": (False, True, ALIKE),
            "\\sqrt{{{g}}}": (False, False, ""),
            "-{g}": (False, False, ""),
            "\\{{{g}\\}}": (False, True, BRACKETS),
            "{g}!": (False, False, ""),
            "\\approx {g}": (False, False, ""),
            "{g}+0": (False, True, ALIKE),
            "{g}\\times 1": (False, True, ALIKE),
            "{g} units": (False, True, DRESS),
            "\\text{{{g}}}": (False, True, DRESS),
        },
    ),
    "fraction": (
        ["\\frac{1}{2}", "\\frac{3}{4}", "\\frac{7}{3}"],
        {
            "\\dfrac{{{p}}}{{{q}}}": (True, True, ""),
            "\\tfrac{{{p}}}{{{q}}}": (True, True, ""),
            "{p}/{q}": (True, True, ""),
            "{p} / {q}": (True, True, ""),
            "\\frac{p}{q}": (True, True, ""),
            "\\frac{{2\\cdot{p}}}{{2\\cdot{q}}}": (False, True, ALIKE),
            "\\left(\\frac{{{p}}}{{{q}}}\\right)": (False, True, BRACKETS),
            "\\frac{{{p}}}{{{q}}}.": (False, False, ""),
            "{p}\\div {q}": (False, True, ALIKE),
            "{p}:{q}": (False, True, ALIKE),
            "\\frac{{{q}}}{{{p}}}": (False, False, ""),
            "\\frac{{{p}}}{{{q}}}\\text{{ cm}}": (True, True, ""),
            "{p}{q}^{{-1}}": (False, False, ""),
            "{p}\\cdot {q}^{{-1}}": (False, True, ALIKE),
            "-\\frac{{-{p}}}{{{q}}}": (False, True, ALIKE),
            "\\frac{{{p}}}{{{q}}}\\%": (True, True, ""),
        },
    ),
    "root": (
        ["2\\sqrt{3}", "5\\sqrt{2}"],
        {
            "{a}\\sqrt{b}": (True, True, ""),
            "{a} \\sqrt{{{b}}}": (True, True, ""),
            "{a}\\cdot\\sqrt{{{b}}}": (False, True, ALIKE),
            "{a}*\\sqrt{{{b}}}": (False, True, ALIKE),
            "\\sqrt{{{b}}}\\cdot {a}": (False, True, ALIKE),
            "\\sqrt{{{a}\\cdot{a}\\cdot{b}}}": (False, True, ALIKE),
            "{a}\\cdot {b}^{{1/2}}": (False, True, ALIKE),
            "{a}\\sqrt[3]{{{b}}}": (False, False, ""),
            "\\sqrt{{{a}}}{b}": (False, False, ""),
            "{f}": (False, True, "equal to six digits"),
        },
    ),
    "pair": (
        ["(1,2)", "(3,-4)"],
        {
            "({a}, {b})": (True, True, ""),
            "\\left({a},{b}\\right)": (True, True, ""),
            "({b},{a})": (False, False, ""),
            "{a},{b}": (False, True, "a pair without its brackets"),
            "\\{{{a},{b}\\}}": (False, True, "a pair in braces, in its order"),
            "({a};{b})": (False, True, "a semicolon"),
            "(x,y)=({a},{b})": (False, True, NAMED),
            "({a},{b},0)": (False, False, ""),
            "\\langle {a},{b}\\rangle": (False, False, ""),
            "x={a},y={b}": (False, True, NAMED),
        },
    ),
    "interval": (
        ["[0,1)", "(2,5]"],
        {
            "{i}": (True, True, ""),
            "\\left{i0}{a},{b}\\right{i1}": (True, True, ""),
            "x\\in {i}": (False, True, "the set without its variable"),
            "[{a},{b}]": (False, False, ""),
            "({a},{b})": (False, False, ""),
            "{a}\\le x<{b}": (False, False, ""),
            "{a}<x\\le {b}": (False, False, ""),
            "({b},{a})": (False, False, ""),
        },
    ),
    "polynomial": (
        ["x^2+3x+2"],
        {
            "x^{{2}}+3x+2": (False, True, ALIKE),
            "3x+x^2+2": (False, True, ALIKE),
            "x^2 + 3x + 2": (True, True, ""),
            "(x+1)(x+2)": (False, True, ALIKE),
            "y=x^2+3x+2": (True, True, ""),
            "f(x)=x^2+3x+2": (False, True, NAMED),
            "t^2+3t+2": (False, False, ""),
            "x^2+3x+3": (False, False, ""),
            "x^2+3\\cdot x+2": (False, True, ALIKE),
            "x^2+3x+2=0": (False, False, ""),
        },
    ),
    "word": (
        ["\\text{Evelyn}", "\\text{odd}"],
        {
            "{w}": (False, True, DRESS),
            "\\textbf{{{w}}}": (False, True, DRESS),
            "\\mathrm{{{w}}}": (False, True, DRESS),
            "{l}": (False, True, DRESS),
            "\\text{{ {w}}}": (False, True, DRESS),
            "\\text{{{w} }}": (True, True, ""),
            "\\text{{{w}.}}": (False, True, DRESS),
            "\\text{{not {w}}}": (False, False, ""),
            "\\text{{{w} or other}}": (False, False, ""),
            "\\text{{other}}": (False, False, ""),
        },
    ),
    "percent": (
        ["10\\%"],
        {
            "10": (True, True, ""),
            "10\\%": (True, True, ""),
            "10%": (False, True, "the sign without its backslash"),
            "0.1": (False, False, ""),
            "\\frac{{1}}{{10}}": (False, False, ""),
            "10 percent": (False, True, DRESS),
            "10\\text{{ percent}}": (True, True, ""),
            "10 \\%": (True, True, ""),
        },
    ),
}


def _parts(kind: str, gold: str) -> dict[str, Any]:
    """What the spellings of a kind are made of."""
    numbers = re.findall(r"-?\d+", gold)
    one, two = [*numbers, "", ""][:2]
    word = gold[6:-1] if kind == "word" else ""
    value = f"{float(one) * float(two) ** 0.5:.8f}" if kind == "root" else ""
    ends = {"i": gold, "i0": gold[0], "i1": gold[-1]}
    more = {"p": one, "q": two, "a": one, "b": two, "w": word, "l": word.lower(), "f": value}
    return {"g": gold, **ends, **more}


def _spelled(kind: str) -> Iterator[tuple[str, str, bool, bool]]:
    """Gold, answer, what the official grader says and what ours must say."""
    golds, table = SPELLINGS[kind]
    for form, (theirs, ours, _) in table.items():
        for gold in golds:
            yield gold, form.format(**_parts(kind, gold)), theirs, ours


@pytest.mark.parametrize("kind", SPELLINGS)
def test_spellings_of_math_answers(kind: str, verifier: Verifier) -> None:
    golds, table = SPELLINGS[kind]
    assert explained(table)
    rows = [MathRow(gold, gold, gold, "train", n, "t") for n, gold in enumerate(golds)]
    usable = sort_golds(rows, verifier).usable
    for gold, answer, theirs, ours in _spelled(kind):
        assert math_equal(gold, answer) is theirs, (gold, answer, "official")
        found = grade_text(usable[gold], f"\\boxed{{{answer}}}", verifier)
        assert found.success is ours, (gold, answer, "ours", found.detail)


# --- the official graders themselves -------------------------------------------------------------


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The graders as lm-eval ships them, so that what is written down here is what they do."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    try:
        subprocess.run([*command, LM_EVAL], check=True, capture_output=True, timeout=120)
    except (subprocess.SubprocessError, OSError) as problem:
        pytest.skip(f"the package index does not give {LM_EVAL}: {problem}")
    names: dict[str, Any] = {}
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        for name in ("hendrycks_math", "aime"):
            source = wheel.read(f"lm_eval/tasks/{name}/utils.py").decode()
            source = source.replace("import datasets", "").replace("datasets.Dataset", "object")
            made: dict[str, Any] = {}
            with warnings.catch_warnings(action="ignore"):  # it spells escapes in an old way
                exec(compile(source, name, "exec"), made)  # noqa: S102 - the evaluator's own code
            names[name] = made
        names["gsm8k"] = wheel.read("lm_eval/tasks/gsm8k/gsm8k.yaml").decode()
    return names


@pytest.mark.slow
def test_the_official_graders_are_written_down_as_they_are(published: dict[str, Any]) -> None:
    is_equiv = published["hendrycks_math"]["is_equiv"]
    for kind in SPELLINGS:
        for gold, answer, theirs, _ in _spelled(kind):
            assert is_equiv(gold, answer) is theirs, (gold, answer)
    for form in INTEGERS:
        for gold in ("25", "204"):
            reply = form.format(gold=gold, plain=gold, wrong=int(gold) + 1)
            said = published["aime"]["process_results"]({"answer": gold}, [reply])
            assert bool(said["exact_match"]) is aime_correct(reply, gold), reply
    patterns = re.findall(r'regex_pattern: "(.*)"', published["gsm8k"])
    strict, flexible = (pattern.replace("\\\\", "\\") for pattern in patterns)
    for form in LAST_NUMBER:
        reply = form.format(gold="1,234", plain="1234", wrong=1235)
        found = re.findall(strict, reply)
        assert (found[0].replace(",", "") if found else None) == gsm8k_answer(reply), reply
        groups = re.findall(flexible, reply)
        last = next((one for one in groups[-1] if one), "") if groups else ""
        plain = re.sub(r",|\$|\.$", "", last)
        assert (plain == "1234") is gsm8k_last_number(reply, "1234"), reply
