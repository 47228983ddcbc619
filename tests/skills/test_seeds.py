"""The skills that come with the product are valid, and their scripts say what is true."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from meta_agent.skills import SkillLibrary, validate

LIBRARY = Path(__file__).parents[2] / "skills_library"


def run(script: str, rows: list[dict[str, object]]) -> dict[str, object]:
    text = "\n".join(json.dumps(row) for row in rows)
    command = [sys.executable, "-I", str(LIBRARY / script)]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("folder", sorted(LIBRARY.iterdir()), ids=lambda path: path.name)
def test_seeds_are_valid_and_apply_everywhere(folder: Path) -> None:
    assert validate(folder) == []
    assert folder.name in {s.name for s in SkillLibrary(LIBRARY).find("math", None, "x", limit=9)}


def test_the_leak_report_tells_skill_from_reading() -> None:
    rows: list[dict[str, object]] = [{"outcome": True, "flags": ["leak:log"]}] * 3
    rows += [{"outcome": True, "flags": []}, {"outcome": False, "flags": []}]
    found = run("read-a-leak/scripts/leak_report.py", rows)
    assert (found["success"], found["clean_success"], found["solved_when_honest"]) == (
        0.8,
        0.2,
        0.5,
    )
    assert found["flags"] == {"leak:log": {"share": 0.6, "solved": 1.0}}


def test_dead_groups_are_told_apart() -> None:
    def group(name: str, *pairs: tuple[float, bool]) -> list[dict[str, object]]:
        return [{"group_id": name, "rewards": {"r": r}, "outcome": o} for r, o in pairs]

    rows = group("a", (1, True), (1, True)) + group("b", (0, False), (0, False))
    rows += group("c", (1, True), (1, False)) + group("d", (1, True), (0, False))
    found = run("revive-dead-groups/scripts/dead_groups.py", rows)
    assert found == {
        "groups": 4,
        "alive": 0.25,
        "dead_all_right": 0.25,
        "dead_all_wrong": 0.25,
        "dead_reward_blind": 0.25,
    }
