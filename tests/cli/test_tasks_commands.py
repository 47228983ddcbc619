"""`tasks make`, `tasks check` and `tasks make --from commits` as typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meta_agent.domains.bfcl import CATEGORIES
from meta_agent.domains.formats.public import PUBLIC
from tests.cli._command import Runner

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
        *("tasks", "make", "pair", "--out", "tasks.jsonl", "--count", "2", "--json", *where),
        cwd=here,
    ).document
    assert (made["tasks"], made["manifest"]["made"]["wanted"]) == (2, 2)
    assert made["lacks"] == "" and not made["manifest"]["splits"]["confirm"], made
    checked = meta_agent(
        "tasks", "check", "tasks.jsonl", "--sandbox", "process", "--jobs", "2", cwd=here
    )
    assert checked.returncode == 0 and "[2/2]" in checked.stderr
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
        *("tasks", "make", "pair", "--from", "commits", "--out", "m.jsonl", "--sandbox", "process"),
        *("--python", sys.executable),
        cwd=package.parent,
    )
    assert done.returncode == 2 and "--any-message" in done.stderr


def _sums(path: Path, *splits: str) -> None:
    rows = [
        {"question": f"What is {n} + {n}?", "answer": f"#### {2 * n}", "split": split}
        for n, split in enumerate(splits, 2)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("splits", "lacks"),
    [
        (("search", "vault"), True),
        (("train", "train"), True),
        (("search", "search", "vault"), False),
        (("train", "confirm"), False),
    ],
)
def test_a_set_that_evolve_refuses_is_not_called_fit(
    splits: tuple[str, ...], lacks: bool, tmp_path: Path, meta_agent: Any
) -> None:
    """A small set is used in halves by a frozen policy, so it needs only two tasks."""
    _sums(tmp_path / "sums.jsonl", *splits)
    tasks = ("sums.jsonl", "--domain", "math", "--sandbox", "process")
    done = meta_agent("tasks", "check", *tasks, cwd=tmp_path)
    assert done.returncode == (1 if lacks else 0)
    assert json.loads((tmp_path / "sums.checked.json").read_text())["domain"] == "math"
    asked = ("--dry-run", "--policy", "openai/none", "--allow-unsafe", "--tasks")
    refused = meta_agent("evolve", *asked, *tasks, cwd=tmp_path)
    assert refused.returncode == (2 if lacks else 0), refused.stderr


def test_a_domain_with_tasks_of_its_own_is_checked_without_a_file(
    tmp_path: Path, meta_agent: Any
) -> None:
    done = meta_agent("tasks", "check", "--domain", "tests.test_adding:_Echo", cwd=tmp_path)
    assert "8 tasks" in done.stdout, done.stderr
    assert not list(tmp_path.iterdir())  # a manifest lies beside a file, or where it is asked for


# --- public sets by name --------------------------------------------------------------------------


def test_the_public_sets_are_listed(meta_agent: Runner, tmp_path: Path) -> None:
    done = meta_agent("tasks", "check", "--list", cwd=tmp_path)
    assert done.returncode == 0
    names = [line.split()[0] for line in done.stdout.splitlines()]
    categories = [f"bfcl:{category}" for category in CATEGORIES]
    assert names == ["name", *PUBLIC, "reasoning-gym:NAME", *categories]
    listed = json.loads(
        meta_agent("tasks", "check", "mbpp", "--list", "--json", cwd=tmp_path).stdout
    )
    assert listed["sets"][0]["licence"] == "CC-BY-4.0"


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
