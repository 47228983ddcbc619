"""`tasks synth`, `tasks check` and `tasks mine` as typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meta_agent.domains.bfcl import CATEGORIES
from meta_agent.domains.formats.public import PUBLIC
from meta_agent.sandboxes import engine_status
from tests.cli.conftest import Runner

SOURCE = """def clamp(value, low, high):
    if value < low:
        return low
    return min(value, high)


def titled(text):
    return text.title() or "Untitled"
"""
TESTS = """from pair import clamp, titled


def test_clamp():
    assert [clamp(n, 1, 3) for n in (0, 2, 4)] == [1, 2, 3]


def test_titled():
    assert [titled("a tale"), titled("")] == ["A Tale", "Untitled"]
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "pair"
    (folder / "tests").mkdir(parents=True)
    (folder / "pair.py").write_text(SOURCE)
    (folder / "tests" / "test_pair.py").write_text(TESTS)
    return folder


@pytest.mark.slow
def test_a_package_becomes_a_checked_task_file(package: Path, meta_agent: Any) -> None:
    here = package.parent
    where = ["--sandbox", "process", "--python", sys.executable, "--jobs", "1"]
    made = meta_agent(
        *("tasks", "synth", "pair", "--out", "tasks.jsonl", "--count", "2", "--json", *where),
        cwd=here,
    ).document
    assert (made["tasks"], made["manifest"]["made"]["wanted"]) == (2, 2)
    assert made["lacks"] == "" and not made["manifest"]["splits"]["confirm"], made
    checked = meta_agent(
        "tasks", "check", "tasks.jsonl", "--sandbox", "process", "--jobs", "2", cwd=here
    )
    assert checked.returncode == 0 and "2 tasks, all fit" in checked.stdout
    assert "[2/2]" in checked.stderr
    manifest = json.loads((here / "tasks.checked.json").read_text())
    assert manifest["ok"] and manifest["sha256"] == made["manifest"]["sha256"]
    assert all(one["ok"] for one in manifest["tasks"].values())
    assert manifest["archives"] == made["manifest"]["archives"]
    assert {one["trials"]["gold"] for one in manifest["tasks"].values()} == {True}
    asked = ("--dry-run", "--policy", "openai/none", "--allow-unsafe", "--tasks", "tasks.jsonl")
    done = meta_agent("evolve", "--domain", "swe", "--sandbox", "process", *asked, cwd=here)
    assert done.returncode == 0, done.stderr


def test_a_search_that_finds_nothing_says_what_to_do(package: Path, meta_agent: Any) -> None:
    subprocess.run(["git", "init", "-q", package], check=True)
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false"]
    subprocess.run(["git", "-C", package, "add", "."], check=True)
    commit = ["commit", "-q", "-m", "start"]
    subprocess.run(["git", *identity, "-C", package, *commit], check=True)
    done = meta_agent(
        *("tasks", "mine", "pair", "--out", "m.jsonl", "--sandbox", "process"),
        *("--python", sys.executable),
        cwd=package.parent,
    )
    assert done.returncode == 2
    assert (
        "all 0 candidates for tasks were refused" in done.stderr and "--any-message" in done.stderr
    )


@pytest.mark.parametrize("command", ["synth", "mine"])
def test_a_path_that_is_nothing_is_refused(command: str, tmp_path: Path, meta_agent: Any) -> None:
    done = meta_agent("tasks", command, "nowhere", "--out", "o.jsonl", cwd=tmp_path)
    assert (done.returncode, "nowhere" in done.stderr) == (2, True)


def test_a_file_of_another_domain_is_checked_by_its_grader(tmp_path: Path, meta_agent: Any) -> None:
    _sums(tmp_path / "sums.jsonl", "search", "confirm")
    done = meta_agent("tasks", "check", "sums.jsonl", "--domain", "math", cwd=tmp_path)
    assert done.returncode == 0 and "2 tasks, all fit" in done.stdout
    assert json.loads((tmp_path / "sums.checked.json").read_text())["domain"] == "math"


def _sums(path: Path, *splits: str) -> None:
    rows = [
        {"question": f"What is {n} + {n}?", "answer": f"#### {2 * n}", "split": split}
        for n, split in enumerate(splits, 2)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("splits", "lacks"),
    [
        (("search", "vault"), "one task outside the vault;"),
        (("train", "train"), "no task in the split search and confirm;"),
        (("search", "search", "vault"), ""),
        (("train", "confirm"), ""),
        (("search", "confirm"), ""),
    ],
)
def test_a_set_that_evolve_refuses_is_not_called_fit(
    splits: tuple[str, ...], lacks: str, tmp_path: Path, meta_agent: Any
) -> None:
    """A small set is used in halves by a frozen policy, so it needs only two tasks."""
    _sums(tmp_path / "sums.jsonl", *splits)
    tasks = ("sums.jsonl", "--domain", "math", "--sandbox", "process")
    done = meta_agent("tasks", "check", *tasks, cwd=tmp_path)
    assert done.returncode == (1 if lacks else 0)
    assert (f"evolve refuses the set: it has {lacks}" in done.stdout) is bool(lacks)
    assert ("all fit" in done.stdout) is not bool(lacks)
    asked = ("--dry-run", "--policy", "openai/none", "--allow-unsafe", "--tasks")
    refused = meta_agent("evolve", *asked, *tasks, cwd=tmp_path)
    assert refused.returncode == (2 if lacks else 0)
    assert not lacks or f"has {lacks}" in refused.stderr, refused.stderr


def test_a_domain_with_tasks_of_its_own_is_checked_without_a_file(
    tmp_path: Path, meta_agent: Any
) -> None:
    done = meta_agent("tasks", "check", "--domain", "tests.test_adding:_Echo", cwd=tmp_path)
    assert "8 tasks" in done.stdout, done.stderr
    assert not list(tmp_path.iterdir())  # a manifest lies beside a file, or where it is asked for
    refused = meta_agent("tasks", "check", "--domain", "code", cwd=tmp_path)
    assert "--domain code needs tasks" in refused.stderr


@pytest.mark.docker
def test_images_that_are_missing_are_told_by_name(tmp_path: Path, meta_agent: Any) -> None:
    if engine_status().problem:
        pytest.skip(f"no Docker engine: {engine_status().problem}")
    row = {
        "instance_id": "own__r-1",
        "repo": "own/r",
        "base_commit": "0" * 40,
        "problem_statement": "it breaks",
        "test_patch": "",
        "FAIL_TO_PASS": ["t.py::a"],
        "PASS_TO_PASS": [],
        "version": "1",
    }
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row) + "\n")
    done = meta_agent("tasks", "images", "tasks.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "xingyaoww/sweb.eval.x86_64.own_s_r-1:latest  missing" in done.stdout


# --- public sets by name --------------------------------------------------------------------------


def test_the_public_sets_are_listed(meta_agent: Runner, tmp_path: Path) -> None:
    done = meta_agent("tasks", "list", cwd=tmp_path)
    assert done.returncode == 0
    names = [line.split()[0] for line in done.stdout.splitlines()]
    categories = [f"bfcl:{category}" for category in CATEGORIES]
    assert names == ["name", *PUBLIC, "reasoning-gym:NAME", *categories]
    listed = json.loads(meta_agent("tasks", "list", "mbpp", "--json", cwd=tmp_path).stdout)
    assert listed["sets"][0]["licence"] == "CC-BY-4.0"
    assert meta_agent("tasks", "list", "mbp", cwd=tmp_path).returncode == 2


def test_a_run_takes_a_public_set_by_name(meta_agent: Runner, tmp_path: Path) -> None:
    rows = [
        {"task_id": n, "text": f"Add {n}.", "code": f"def add(x):\n    return x + {n}\n"}
        | {"test_list": [f"assert add(1) == {n + 1}"]}
        for n in range(60)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ("--tasks", "mbpp=rows.jsonl", "--policy", "openai/x", "--meta-model", "openai/x")
    done = meta_agent(
        *("evolve", *flags, "--sandbox", "process", "--allow-unsafe", "--dry-run", "--json"),
        cwd=tmp_path,
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    assert done.returncode == 0, done.stderr
    config = json.loads(done.stdout)["config"]
    assert config["domain"] == "code" and Path(config["tasks"]).is_relative_to(tmp_path / "cache")
    assert "command line: rows.jsonl, SHA-256" in config["origin"]["tasks"]


def test_a_name_that_no_set_has_names_the_nearest(meta_agent: Runner, tmp_path: Path) -> None:
    done = meta_agent("evolve", "--tasks", "human-eval", "--dry-run", cwd=tmp_path)
    assert done.returncode == 2
    assert "the nearest set is humaneval" in done.stderr and "meta-agent tasks list" in done.stderr
