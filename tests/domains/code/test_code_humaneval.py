"""HumanEval, whole: every solution passes, mutants fail, and the official executor agrees."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from meta_agent.domains.code import CodeDomain, code_runner

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT.parent / "shared" / "data" / "HumanEval.jsonl.gz"

pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="no shared sample HumanEval.jsonl.gz")


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("_humaneval", ROOT / "benchmarks/_humaneval.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_humaneval"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def domain() -> Iterator[CodeDomain]:
    made = CodeDomain(FILE, code_runner("process", candidates_per_sandbox=40))
    yield made
    made.close()


def test_every_canonical_solution_passes(domain: CodeDomain) -> None:
    assert len(domain.rows) == 164
    found = {key: domain.runner.run(row, row.gold[0]) for key, row in domain.rows.items()}
    assert {key: verdict for key, verdict in found.items() if not verdict.success} == {}


@pytest.mark.slow
def test_a_mutant_of_every_solution_fails_where_the_official_executor_fails_it(
    domain: CodeDomain,
) -> None:
    """Of each solution, mutants are tried until one changes what the tests can see."""
    human = reference()
    killed, agreed = 0, 0
    for problem in human.problems(FILE):
        row = domain.rows[f"humaneval-{problem['task_id'].replace('/', '-')}"]
        for program in human.mutants(problem):
            theirs = human.official({**problem, "prompt": ""}, program)
            ours = domain.runner.run(row, program)
            assert ours.success is theirs, (row.key, ours, program)
            agreed += 1
            if not theirs:
                killed += 1
                break
    assert killed == 164
    assert agreed >= 164


def test_a_body_alone_is_completed_and_a_whole_function_is_taken_as_it_is(
    domain: CodeDomain,
) -> None:
    row = domain.rows["humaneval-HumanEval-38"]  # its tests use a helper of the prompt
    problem = next(p for p in reference().problems(FILE) if p["task_id"] == "HumanEval/38")
    from meta_agent.domains.code import graded

    body = problem["canonical_solution"]
    whole = problem["prompt"] + body
    alone = whole[whole.index("def decode_cyclic") :]
    for code in (body, whole, alone):
        assert graded(row, code, domain.runner).success, code
    assert not graded(row, "    return s\n", domain.runner).success
