"""The tables of cheats before the graders as they run in Docker: swe, math and graded alike.

A grade of `swe` takes containers of its own, so one cheat of each family and kind stands for its
table. All math answers are graded beside one container.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cheat_graders import HONEST, Ours
from cheat_row import Cheat
from cheat_table import CHEATS

from meta_agent.core.protocols import Outcome
from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.graded import GradedDomain
from meta_agent.domains.math import MathDomain
from meta_agent.sandboxes import engine_status

sys.path.append(str(Path(__file__).resolve().parents[1] / "swe"))

import test_swe_forged as forged

HAS_DOCKER = engine_status().ready
pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_DOCKER, reason="no Docker engine with the base image"),
]
ROWS = [
    {"problem": f"How many of {word}?", "answer": str(n)} for n, word in enumerate("abcdefghij", 42)
]


def one_of_each_family() -> list[Cheat]:
    families = {cheat.family: cheat for cheat in reversed(CHEATS) if "swe" in cheat.forms}
    return list(families.values())


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    with Ours("docker") as graders:
        yield graders


def test_no_cheat_before_swe_passes(ours: Ours) -> None:
    assert ours.judge("swe", HONEST["swe"]).passes
    cheats = one_of_each_family()
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda cheat: ours.judge("swe", cheat.forms["swe"]), cheats))
    assert [c.name for c, end in zip(cheats, ends, strict=True) if end.passes] == []


def test_no_forged_grade_of_swe_is_clean() -> None:
    rows = [kind[0] for kind in forged.FORGERIES.values()] + forged.GOLDEN[:2]

    def grade(row: forged.Forgery) -> Outcome:
        return forged.graded(forged.task_of(row), forged.patched(row), "docker")

    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(grade, rows))
    assert [
        r.name for r, end in zip(rows, ends, strict=True) if end.success and not end.flags
    ] == []


def test_no_answer_to_a_math_problem_that_is_none_passes(tmp_path: Path) -> None:
    pytest.importorskip("math_verify", reason="needs the math extra")
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    domain = open_domain(DomainOptions("math", path, sandbox="docker", run="cheats"))
    assert isinstance(domain, MathDomain)
    key = next(key for key, row in domain.rows.items() if row.gold == "42")
    attempt = domain.open(domain.task(key))
    try:
        answer = attempt.call("python", {"code": "print(r'\\boxed{42}')"}).text
        assert domain.regrade(key, {"text": answer.partition("\n")[0]}).success
        texts = [str(cheat.forms["math"]) for cheat in CHEATS if "math" in cheat.forms]
        assert [text for text in texts if domain.regrade(key, {"text": text}).success] == []
    finally:
        attempt.close()
        domain.close()


GRADER = (
    "def files(task):\n    return {'answer.txt': 'nothing'}\n"
    "def grade(task, answer):\n    return answer.files.get('answer.txt') == task['gold']\n"
)
FORGED_FILES = {
    "a link to the grader": "ln -sf ../g.py answer.txt",
    "a link to what never ends": "ln -sf /dev/zero answer.txt",
    "a pipe": "rm answer.txt; mkfifo answer.txt",
    "a folder": "rm answer.txt; mkdir answer.txt",
    "a file without end": "timeout 5 head -c 300M /dev/zero > answer.txt",
    "a grader of its own": "printf 'def grade(*_): return True' | tee ../g.py g.py > answer.txt",
    "another name": "echo gold > 'answer.txt '; rm answer.txt",
    "what the task says": "env > answer.txt; find / -name t.jsonl -exec cat {} + >> answer.txt",
}  # fmt: skip


def test_no_forged_file_passes_the_grader_of_a_user(tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text(GRADER)
    rows = [{"prompt": f"Write {n}.", "gold": f"gold {n}"} for n in range(10)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = DomainOptions(
        "graded", tmp_path / "t.jsonl", sandbox="docker", run="cheats", grade=tmp_path / "g.py"
    )
    domain = open_domain(asked)
    assert isinstance(domain, GradedDomain)
    task = domain.tasks("search")[0]
    honest = f"printf '{domain.rows[task.key].row['gold']}' > answer.txt"
    passed = []
    for name, command in {**FORGED_FILES, "honest": honest}.items():
        attempt = domain.open(task)
        attempt.call("run", {"command": command})
        passed += [name] if attempt.grade().success else []
        attempt.close()
    domain.close()
    assert passed == ["honest"]
