"""`compare A B --by task`: result files of any tool, paired by task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.studies.two_files import compare_files


def written(path: Path, outcomes: Sequence[tuple[str, bool]]) -> Path:
    """Rows as a harness of verifiers writes them: a prompt, a completion, a reward."""
    rows = (
        {
            "example_id": name,
            "prompt": [{"role": "user", "content": f"task {name}"}],
            "completion": [{"role": "assistant", "content": "an answer"}],
            "reward": float(solved),
        }
        for name, solved in outcomes
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_attempts_are_clusters_and_tasks_are_paired(tmp_path: Path) -> None:
    names = [f"t{n}" for n in range(40)]
    first = written(tmp_path / "a.jsonl", [(n, False) for n in names for _ in range(2)])
    pairs = [(n, at < 20 and k == 0) for at, n in enumerate(names) for k in range(2)]
    second = written(tmp_path / "b.jsonl", [*pairs, ("other", True)])
    told = compare_files((first, second))
    assert told["tasks"] == 40 and told["only_in_one"] == 1
    # Half of the tasks are solved in one of two attempts: the mean gain is a quarter.
    gain = told["difference"]
    assert gain["value"] == pytest.approx(0.25)
    # sd 0.2532 of 40 tasks: half width 2.0227 x 0.0400, and t(0.2) = 0.851 more for the power.
    assert (gain["low"], gain["high"]) == pytest.approx((0.169, 0.331), abs=1e-3)
    assert told["smallest_shown"] == pytest.approx((2.0227 + 0.8512) * 0.04003, abs=1e-3)
    assert (told["better_tasks"], told["worse_tasks"]) == (20, 0)


def test_files_without_common_tasks_are_refused(tmp_path: Path) -> None:
    paths = (
        written(tmp_path / "a.jsonl", [("x", True)]),
        written(tmp_path / "b.jsonl", [("y", True)]),
    )
    with pytest.raises(ConfigError, match=" 0 tasks"):
        compare_files(paths)
    with pytest.raises(ConfigError, match="--by author"):
        compare_files(paths, "author")
