"""What holds for the tasks, the environment and the grader of every suite."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from meta_agent.core.protocols import SPLITS, Task
from meta_agent.domains import load_domain
from meta_agent.domains.nano import code, code_tasks, expression, math, math_tasks, swe, swe_tasks


class Suite(NamedTuple):
    domain: Any
    tasks: Any
    fingerprint: str
    key: Callable[[Any], object]
    """What makes two problems the same."""
    steps: Callable[[Any], list[tuple[str, dict[str, Any]]]]
    """Calls that solve a problem, the submission last."""
    right: Callable[[Any], dict[str, Any]]
    hostile: list[dict[str, Any]]


def _edit(problem: Any) -> dict[str, Any]:
    return {"position": str(problem.position), "char": problem.fixed[problem.position]}


# Changing a fingerprint makes every stored figure incomparable: measure the warm start again.
SUITES: Final = {
    "swe": Suite(
        swe.NanoSwe,
        swe_tasks,
        "0721b2c3ec0d8c01",
        lambda problem: expression.polynomial(problem.fixed),
        lambda problem: [("edit", _edit(problem)), ("submit", {})],
        lambda problem: {"code": problem.fixed, "submitted": True},
        [{"code": text, "submitted": True} for text in (None, "x" * 10**6, "9**9*", ["x"] * 5)],
    ),
    "math": Suite(
        math.NanoMath,
        math_tasks,
        "dd2723b67430ef16",
        lambda problem: math_tasks.semantic_key(problem.chain),
        lambda problem: [("submit", {"answer": str(problem.answer)})],
        lambda problem: {"answer": str(problem.answer), "submitted": True},
        [{"answer": answer, "submitted": True} for answer in (None, 0, ["0"], "9" * 10**6)],
    ),
    "code": Suite(
        code.NanoCode,
        code_tasks,
        "38fac7bf55075f42",
        lambda problem: code_tasks.semantic_key(problem.body),
        lambda problem: [("write", {"code": problem.solution}), ("submit", {})],
        lambda problem: {"code": problem.solution, "submitted": True},
        [{"code": text, "submitted": True} for text in (None, "=" * 10**6, ["=x*2"], {"a": 1})],
    ),
}
EVERY = pytest.mark.parametrize("name", SUITES)


@EVERY
def test_splits_have_their_promised_sizes_and_share_no_problem(name: str) -> None:
    suite = SUITES[name]
    problems = {split: suite.tasks.problems(split) for split in SPLITS}
    assert {split: len(found) for split, found in problems.items()} == dict(suite.tasks.COUNTS)
    everything = [problem for found in problems.values() for problem in found]
    assert len({p.key for p in everything}) == len({p.content_hash for p in everything})
    assert len({p.key for p in everything}) == len(everything)
    keys = [{suite.key(problem) for problem in found} for found in problems.values()]
    assert not any(one & other for one, other in itertools.combinations(keys, 2))
    hashes = "".join(problem.content_hash for problem in everything)
    assert hashlib.sha256(hashes.encode()).hexdigest()[:16] == suite.fingerprint


@EVERY
def test_solutions_pass_and_what_is_stored_is_graded_the_same_again(name: str) -> None:
    suite = SUITES[name]
    domain = suite.domain()
    for problem in (problem for split in SPLITS for problem in suite.tasks.problems(split)):
        assert domain.regrade(problem.key, suite.right(problem)).success
    for number, problem in enumerate(suite.tasks.problems("search")[:20]):
        environment = domain.open(domain.tasks("search")[number])
        for tool, arguments in suite.steps(problem)[number % 2 :]:
            assert environment.call(tool, arguments).flags == ()
        stored = json.loads(json.dumps(environment.verifier_inputs()))
        assert domain.regrade(problem.key, stored) == environment.grade()


@EVERY
def test_nothing_counts_before_or_changes_after_it_is_handed_in(name: str) -> None:
    suite = SUITES[name]
    domain, problem = suite.domain(), suite.tasks.problems("search")[0]
    environment = domain.open(domain.tasks("search")[0])
    *work, (submit, answer) = suite.steps(problem)
    for tool, arguments in work:
        assert environment.call(tool, arguments).ok
    assert not environment.grade().success, "it was not handed in"
    for tool in ("", "grade", "shell", "__class__"):
        assert not environment.call(tool, {}).ok
    wrong = {"answer": "7777"} if answer else {}
    fresh = domain.open(domain.tasks("search")[0])
    assert fresh.call(submit, wrong).done
    for tool, arguments in suite.steps(problem):
        late = fresh.call(tool, arguments)
        assert late.done and not late.ok
    assert not fresh.grade().success


@EVERY
def test_stored_inputs_are_not_trusted(name: str) -> None:
    suite = SUITES[name]
    domain, problem = suite.domain(), suite.tasks.problems("search")[0]
    unsubmitted = [{**suite.right(problem), "submitted": value} for value in (1, "yes", None)]
    for stored in ({}, {"submitted": True}, *suite.hostile, *unsubmitted):
        assert not domain.regrade(problem.key, stored).success, stored
    with pytest.raises(KeyError):
        domain.open(Task("other", "other/search/0000", "search", "", {}))


def test_a_suite_is_found_by_name_and_hashes_what_it_measures_with() -> None:
    loaded = {name: load_domain(name) for name in SUITES}
    assert {name: domain.name for name, domain in loaded.items()} == {
        name: f"nano-{name}" for name in SUITES
    }
    hashes = {domain.evaluator_hash for domain in loaded.values()}
    assert len(hashes) == 3
    assert hashes == {suite.domain().evaluator_hash for suite in SUITES.values()}
