"""Cheats before the graders as they run in Docker: swe and graded.

A grade of `swe` takes containers of its own, so one cheat of each family stands for its table.
Math answers are graded on the host, whatever the sandbox is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from _cheat_graders import HONEST, Ours
from _cheat_row import Cheat
from _cheat_table import CHEATS

from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.graded import GradedDomain
from meta_agent.sandboxes import engine_status

HAS_DOCKER = engine_status().ready
pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_DOCKER, reason="no Docker engine with the base image"),
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
