"""Reading and grading math answers within limits: `test_math_answers` holds what is equal."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import SandboxError
from meta_agent.domains.formats.math_sets import MathRow
from meta_agent.domains.math import MathDomain, Verifier, final_answer, literal, sort_golds, words

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None, reason="needs the math extra"
)


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    made = Verifier(wall_sec=2.5)
    yield made
    made.close()


def asked(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"gold": gold, "answer": answer} for gold, answer in pairs]


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
        (r"0.\overline{3}", "1/3"),
        (r"2.1\overline{6}", "13/6"),
        (r"0.\overline{9}", "1"),
    ],
)
def test_plain_numbers_are_compared_exactly(text: str, same: str) -> None:
    assert literal(text) is not None
    assert literal(text) == literal(same)


def test_what_is_no_plain_number_is_none_and_words_are_compared_as_words() -> None:
    for text in ("", "x", "1,23", "1/0", "--1", "1.2.3", "1 2", "٣", "9" * 500):
        assert literal(text) is None, text
    assert words(r"\text{Evelyn}") == words("evelyn") == "evelyn"
    assert words("x+1") is words("12") is None


def test_blanks_without_end_after_a_marker_are_read_once() -> None:
    assert final_answer("answer is" + "\n" * 200_000) is None  # it took cubic time: days


# --- text that costs -----------------------------------------------------------------------------


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
    assert domain.notes
    assert list(sort_golds([MathRow("k", "p", "1 2", "train", 7, "t")], verifier).refused) == [7]


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
