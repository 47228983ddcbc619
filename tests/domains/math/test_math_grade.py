"""Grading math answers: against the official string graders, against cheats, and within limits."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from math_official import gsm8k_correct, math_equal

from meta_agent.core.errors import SandboxError
from meta_agent.domains.formats.math_sets import MathRow
from meta_agent.domains.math import (
    Gold,
    MathDomain,
    Verifier,
    final_answer,
    grade_text,
    literal,
    sort_golds,
    words,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None, reason="needs the math extra"
)
DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    made = Verifier(wall_sec=2.5)
    yield made
    made.close()


def gold_of(text: str, verifier: Verifier) -> Gold:
    row = MathRow("k", "p", text, "train", 1, "t")
    found = sort_golds([row], verifier)
    assert not found.refused, found.refused
    return found.usable["k"]


def asked(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"gold": gold, "answer": answer} for gold, answer in pairs]


def ours(gold: str, answer: str, verifier: Verifier) -> bool:
    return grade_text(gold_of(gold, verifier), f"\\boxed{{{answer}}}", verifier).success


# --- what a text gives as its answer -------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{41}, wait: \boxed{42}", "42"),
        (r"#### 7 but \boxed{8}", "8"),
        ("#### 5\nno\n#### 6", "6"),
        ("The answer is 12.", "12"),
        ("So the final answer is: $\\frac{1}{2}$.", r"\frac{1}{2}"),
        ("**Answer:** 3.5", "3.5"),
        ("Answer: $34", "34"),
        ("it is 12", None),
        ("", None),
        (r"\boxed{" + "9" * 3000 + "}", None),
    ],
)
def test_the_answer_is_the_last_box_then_the_last_marker(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1,234", "1234"),
        (r"\$5.00", "5"),
        ("$-3$", "-3"),
        ("3/4", r"\frac{3}{4}"),
        (r"\dfrac{-3}{4}", "-3/4"),
        (r"10\%", "10"),
        (r"1{,}000", "1000"),
        (r"90^\circ", "90"),
        (".5", "1/2"),
        ("023", "23"),
    ],
)
def test_plain_numbers_are_compared_exactly(text: str, same: str) -> None:
    assert literal(text) is not None
    assert literal(text) == literal(same)


@pytest.mark.parametrize("text", ["", "x", "1,23", "1/0", "--1", "1.2.3", "1 2", "٣", "9" * 500])
def test_what_is_no_plain_number_is_none(text: str) -> None:
    assert literal(text) is None


def test_words_are_compared_as_words() -> None:
    assert words(r"\text{Evelyn}") == words("evelyn") == "evelyn"
    assert words("x+1") is None
    assert words("12") is None


# --- against the official graders ----------------------------------------------------------------

# form -> (official, ours, why they differ, empty where they agree)
GSM8K_FORMS: dict[str, tuple[bool, bool, str]] = {
    "#### {gold}": (True, True, ""),
    "#### {plain}": (True, True, ""),
    "#### {wrong}": (False, False, ""),
    "It is {plain}": (False, False, ""),
    "#### {plain}.00": (False, True, "the same number, spelled with a fraction"),
    "#### ${plain}": (False, True, "the same number, with its currency"),
    "#### {plain}.": (False, True, "the same number, at the end of a sentence"),
    "####{plain}": (False, True, "the marker without a space"),
    r"\boxed{{{plain}}}": (False, True, "a box is an answer"),
    "#### {wrong}\nNo: #### {plain}": (False, True, "the last answer counts, not the first"),
    "#### {plain}\nNo: #### {wrong}": (True, False, "the last answer counts, not the first"),
    "#### {plain} or {wrong}": (True, False, "two answers are no answer"),
}


def test_gsm8k_agrees_with_the_official_grader_but_where_said(verifier: Verifier) -> None:
    path = DATA / "gsm8k_test.jsonl"
    if not path.is_file():
        pytest.skip("no shared sample gsm8k_test.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    golds = [row["answer"].rpartition("####")[2].strip() for row in rows[::4]]
    seen: Counter[tuple[str, bool, bool]] = Counter()
    for text in golds:
        gold, plain = Gold(text, "literal"), text.replace(",", "")
        for form in GSM8K_FORMS:
            if "or {wrong}" in form:
                continue  # needs the worker: once is enough, below
            reply = form.format(gold=text, plain=plain, wrong=int(plain) + 1)
            mine = grade_text(gold, reply, verifier).success
            seen[form, gsm8k_correct(reply, text), mine] += 1
    wanted = {(f, a, b): len(golds) for f, (a, b, _) in GSM8K_FORMS.items() if "or {" not in f}
    assert dict(seen) == wanted
    for official, mine, why in GSM8K_FORMS.values():
        assert bool(why) is (official != mine), "every disagreement has its reason, and no other"


def test_two_answers_after_one_marker_are_no_answer(verifier: Verifier) -> None:
    official, mine, _ = GSM8K_FORMS["#### {plain} or {wrong}"]
    assert gsm8k_correct("#### 18 or 19", "18") is official
    assert grade_text(Gold("18", "literal"), "#### 18 or 19", verifier).success is mine


# (gold, answer, official, ours, why they differ)
MATH_PAIRS: list[tuple[str, str, bool, bool, str]] = [
    (r"\frac{1}{2}", r"\dfrac12", True, True, ""),
    (r"\frac{1}{2}", "0.5", True, True, ""),
    (r"\frac{1}{2}", "1/2", True, True, ""),
    (r"\frac{1}{2}", r"\frac{2}{4}", False, True, "equal, not spelled alike"),
    ("0.25", r"\frac{1}{4}", False, True, "equal, not spelled alike"),
    (r"3\sqrt{2}", r"\sqrt{18}", False, True, "equal, not spelled alike"),
    (r"\sqrt{3}", r"\sqrt3", True, True, ""),
    ("x^2+1", "1+x^2", False, True, "equal, not spelled alike"),
    ("(x+1)^2", "x^2+2x+1", False, True, "equal, not spelled alike"),
    ("10", r"10\%", True, True, ""),
    (r"10\%", "0.1", False, False, ""),
    (r"90^\circ", "90", True, True, ""),
    ("5", r"5\text{ cm}", True, True, ""),
    ("x=5", "5", True, True, ""),
    ("5", "y = 5", True, True, ""),
    (r"\left(1,2\right)", "(1,2)", True, True, ""),
    ("(1,2)", "(2,1)", False, False, ""),
    ("(1,2)", "[1,2]", False, False, ""),
    ("1,2", "2,1", False, True, "the solutions of an equation have no order"),
    (r"\{1,2,3\}", r"\{3,2,1\}", False, True, "a set has no order"),
    ("1000", "1,000", False, True, "a thousands separator"),
    (r"\$12", "12", True, True, ""),
    (r"12", r"12.0", False, True, "equal, not spelled alike"),
    (r"\text{Evelyn}", "Evelyn", False, True, "the same word without its dress"),
    (r"\text{even}", r"\text{odd}", False, False, ""),
    (r"\text{(B)}", "B", False, True, "the same choice without its dress"),
    ("7", "8", False, False, ""),
    ("7", "7 or 8", False, False, ""),
    ("7", r"\{7,8\}", False, False, ""),
    ("7", r"\text{7 or 8}", False, False, ""),
    (r"\infty", "x", False, False, ""),
    (r"\pi", "3.14", False, False, ""),
    (r"\pi", "3.14159265", False, True, "equal to six digits"),
    (r"\frac{\pi}{3}", r"60^\circ", False, False, ""),
    (r"[0,1)", r"0\le x<1", False, False, ""),
    (r"x\in[0,1)", r"[0,1)", False, True, "the set without its variable"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", True, True, ""),
    (r"2^{10}", "1024", False, True, "equal, not spelled alike"),
    (r"5\text{ cm}", r"5\text{ inches}", True, False, "another length"),
    (r"1+2i", "2i+1", False, True, "equal, not spelled alike"),
]


@pytest.mark.parametrize(("gold", "answer", "official", "mine", "why"), MATH_PAIRS)
def test_math_agrees_with_the_official_grader_but_where_said(
    gold: str, answer: str, official: bool, mine: bool, why: str, verifier: Verifier
) -> None:
    assert math_equal(gold, answer) is official
    assert ours(gold, answer, verifier) is mine
    assert bool(why) is (official != mine)


def test_two_missing_answers_are_not_equal_here(verifier: Verifier) -> None:
    assert math_equal(None, None), "officially no answer equals no answer"
    assert not grade_text(Gold("7", "literal"), "no idea", verifier).success


# --- cheats, and text that costs -----------------------------------------------------------------

CHEATS = [
    r"\boxed{1,2,3,4,5,6,7,8,9,10,41,42,43}",
    r"\boxed{x}",
    r"\boxed{}",
    r"\boxed{\text{any}}",
    r"\boxed{42 \text{ or } 41}",
    r"\boxed{42 \lor 41}",
    r"\boxed{\{41, 42\}}",
    r"\boxed{[0,100]}",
    r"\boxed{x \in [0,100]}",
    r"\boxed{42 \pm 1}",
    r"\boxed{\infty}",
    r"\boxed{\text{42}\text{41}}",
    r"\boxed{__import__('os').system('true')}",
    r"\boxed{42} \boxed{41}",
    "42 42 42",
]


@pytest.mark.parametrize("reply", CHEATS)
def test_no_hedge_or_trick_passes(reply: str, verifier: Verifier) -> None:
    assert not grade_text(Gold("42", "literal"), reply, verifier).success


def test_an_answer_that_runs_on_ends_at_its_deadline_and_the_next_one_works(
    verifier: Verifier,
) -> None:
    endless, fine = verifier.check(asked(("2", "9^{9^{9^9}}"), (r"\frac{1}{2}", r"\frac{2}{4}")))
    assert endless.end in ("timeout", "died")
    assert not endless.equal
    assert fine.equal


def test_a_deep_nest_or_a_flood_of_memory_is_not_the_next_ones_concern(verifier: Verifier) -> None:
    pairs = [("42", "(" * 900), ("42", r"10^{10^{9}}!"), ("42", r"6\cdot 7")]
    found = verifier.check(asked(*pairs))
    assert [one.equal for one in found] == [False, False, True]


def test_a_worker_that_is_gone_is_replaced(verifier: Verifier) -> None:
    assert verifier.check(asked(("1", "1")))[0].equal
    assert verifier._sandbox is not None
    verifier._sandbox.close()
    assert verifier.check(asked(("x", "x")))[0].equal


def test_model_text_is_parsed_without_network_or_files(verifier: Verifier) -> None:
    verifier.check(asked(("1", "1")))
    fences = getattr(verifier._sandbox, "fences", frozenset())
    if not fences:
        pytest.skip("this kernel allows no fences")
    assert {"network", "files"} <= fences


def test_a_worker_that_never_starts_is_infrastructure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_agent.domains.math._verify.guest_source", lambda: "OPERATIONS = {}")
    with pytest.raises(Exception) as caught:
        Verifier().check(asked(("x", "y")))
    assert not isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, SandboxError) or "warm" in str(caught.value)


# --- golds and the domain ------------------------------------------------------------------------


def test_golds_that_cannot_be_graded_are_refused_by_line(
    tmp_path: Path, verifier: Verifier
) -> None:
    golds = ["5", r"\text{Evelyn}", r"\frac{x}{2}", r"\frac{1}{", "}{", r"x \mapsto"]
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(json.dumps({"problem": g, "answer": g}) for g in golds))
    domain = MathDomain(path, verifier)
    assert sorted(domain.refused) == [4, 5, 6]
    assert {domain.gold(key).kind for key in domain.rows} == {"literal", "words", "expression"}
    assert any("rows refused: the gold" in note for note in domain.notes)


def test_an_attempt_is_graded_by_what_was_submitted(tmp_path: Path, verifier: Verifier) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({"problem": "6*7", "answer": "42", "split": "search"}))
    domain = MathDomain(path, verifier)
    (task,) = domain.tasks("search")
    assert "42" not in str(task.view)
    for arguments, success in (
        ({"text": r"so \boxed{42}"}, True),
        ({"answer": "42"}, True),
        ({"answer": 42}, True),
        ({"text": "42"}, False),
        ({"answer": r"\boxed{41}"}, False),
    ):
        env = domain.open(task)
        assert env.call("submit", arguments).done
        assert not env.call("submit", {"answer": "42"}).ok, "only the first one counts"
        assert env.grade().success is success
        assert domain.regrade(task.key, env.verifier_inputs()) == env.grade()
    assert domain.open(task).grade().detail == {"verdict": "no_answer"}


def test_the_evaluator_hash_follows_what_decides(tmp_path: Path, verifier: Verifier) -> None:
    def hash_of(*golds: str) -> str:
        path = tmp_path / "set.jsonl"
        rows = [{"problem": str(n), "answer": gold} for n, gold in enumerate(golds)]
        path.write_text("\n".join(map(json.dumps, rows)))
        return MathDomain(path, verifier).evaluator_hash

    assert hash_of("1", "2") == hash_of("1", "2")
    assert hash_of("1", "2") != hash_of("1", "3")
