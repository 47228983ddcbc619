"""The skills that come with the product are valid, and their checks say what is true."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meta_agent.skills import SkillLibrary, check_script, validate, watched

LIBRARY = Path(__file__).parents[2] / "skills_library"
CHECKS: dict[str, tuple[list[tuple[str, str, float]], list[str]]] = {
    "read-a-leak": (
        [("behaviour.leak_use", "above", 0.0), (r"shape\.suspect\.[^.]+", "above", 0.0)],
        ["behaviour.leak_share_of_solved", "score.success", "score.clean_success"],
    ),
    "revive-dead-groups": (
        [("signal.dead_group_ratio", "above", 0.3), ("signal.reward_spread", "below", 0.05)],
        ["signal.dead_solved_ratio", "signal.dead_unsolved_ratio", "signal.groups"],
    ),
}


def check(name: str, path: Path, *more: str) -> tuple[int, dict[str, Any]]:
    script = str(LIBRARY / name / "scripts/check.py")
    command = [sys.executable, script, str(path), *more]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.returncode, json.loads(ran.stdout)


def rows(path: Path, made: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return path


def attempt(task: int, sample: int, **more: Any) -> dict[str, Any]:
    """A row of chat messages, as other tools write them."""
    said = [
        {"role": "user", "content": f"do {task}"},
        {"role": "assistant", "content": f"{sample}"},
    ]
    return {"messages": said, "task_id": f"t{task}", "sample_idx": sample, **more}


def made(**more: Any) -> list[dict[str, Any]]:
    return [attempt(n % 6, n // 6, **more) for n in range(24)]


@pytest.mark.parametrize("folder", sorted(LIBRARY.iterdir()), ids=lambda path: path.name)
def test_seeds_are_valid_and_apply_everywhere(folder: Path) -> None:
    assert validate(folder) == []
    assert folder.name in {s.name for s in SkillLibrary(LIBRARY).find("math", None, "x", limit=9)}
    table, beside = CHECKS[folder.name]
    written = (folder / "scripts/check.py").read_text()
    assert written == check_script([watched(*row) for row in table], beside)


@pytest.mark.parametrize("name", CHECKS)
def test_rollouts_that_do_not_say_are_never_all_clear(name: str, tmp_path: Path) -> None:
    status, told = check(name, rows(tmp_path / "a.jsonl", made()))
    assert status == 3 and told["answer"] == "it could not be looked at"
    assert told["shows"] == {} and told["not_looked_at"]


def test_a_file_that_nobody_can_read_is_none_either(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("not json\n")
    status, told = check("read-a-leak", tmp_path / "a.jsonl")
    assert status == 3 and told["not_looked_at"]


def test_few_attempts_are_none_either(tmp_path: Path) -> None:
    few = [{**attempt(0, n), "flags": [], "outcome": True} for n in range(3)]
    status, told = check("read-a-leak", rows(tmp_path / "a.jsonl", few))
    assert status == 3 and "fewer than 10" in told["not_looked_at"][0]


def test_a_leak_shows_with_what_it_is_worth(tmp_path: Path) -> None:
    flagged = [{**row, "outcome": n % 2 == 0} for n, row in enumerate(made(flags=["leak:log"]))]
    honest = [{**attempt(n, 9), "outcome": False, "flags": []} for n in range(24)]
    status, told = check("read-a-leak", rows(tmp_path / "a.jsonl", [*flagged, *honest]))
    assert status == 1 and told["shows"] == {"behaviour.leak_use": 0.5}
    assert told["beside"]["score.success"] == 0.25


def dead(spread: float) -> list[dict[str, Any]]:
    return [
        attempt(
            n % 6, n // 6, outcome=False, rewards={"r": spread * (n // 6)}, group_id=f"g{n % 6}"
        )
        for n in range(24)
    ]


def test_dead_groups_show_and_living_ones_are_all_clear(tmp_path: Path) -> None:
    status, told = check("revive-dead-groups", rows(tmp_path / "a.jsonl", dead(0.0)))
    assert status == 1 and told["shows"]["signal.dead_group_ratio"] == 1.0
    assert told["beside"]["signal.dead_unsolved_ratio"] == 1.0
    status, told = check("revive-dead-groups", rows(tmp_path / "b.jsonl", dead(0.5)))
    assert (status, told["answer"]) == (0, "it does not show")
