"""A folder whose settings name code: looking runs none of it, and running asks first."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from ._command import ANYWHERE, Runner

ROWS = "".join(
    json.dumps({"prompt": f"Say {n}.", "gold": str(n), "split": split}) + "\n"
    for split in ("train", "search", "confirm", "vault")
    for n in range(4)
)
GRADER = """
import pathlib
pathlib.Path({mark!r}).touch()

def grade(task, answer):
    return answer == task["gold"]
"""
LOOKS = (
    "doctor",
    "evolve --dry-run --policy openai/m",
    "status",
    "log",
    "tasks check --list",
    "why main",
)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A folder that a stranger made, with a grader that leaves the mark that is returned."""
    mark = tmp_path / "mark"
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "tasks.jsonl").write_text(ROWS)
    (folder / "grader.py").write_text(GRADER.format(mark=str(mark)))
    (folder / "meta-agent.toml").write_text(
        '[evolve]\ntasks = "tasks.jsonl"\ngrade = "grader.py"\n'
    )
    return mark


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("command", LOOKS)
def test_a_command_that_looks_runs_no_grader_of_the_folder(
    mark: Path, tmp_path: Path, meta_agent: Runner, command: str
) -> None:
    done = meta_agent(*command.split(), cwd=tmp_path / "theirs", **ANYWHERE)
    assert "Usage:" not in done.stderr
    assert not mark.exists()


@pytest.mark.parametrize("command", [look for look in LOOKS if "list" not in look])
def test_a_command_that_looks_runs_no_python_of_a_workspace(
    tmp_path: Path, meta_agent: Runner, command: str
) -> None:
    mark, evil = tmp_path / "mark", tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {mark}\nexit 1\n")
    evil.chmod(0o755)
    root = tmp_path / "w"
    assert meta_agent("init", "--workspace", str(root), cwd=tmp_path).returncode == 0
    (root / "tasks.jsonl").write_text(ROWS)
    (root / "grader.py").write_text("def grade(task, answer):\n    return False\n")
    with (root / "meta-agent.toml").open("a") as file:
        file.write(f'\n[evolve]\ntasks = "reasoning-gym:leg_counting"\npython = "{evil}"\n')
    meta_agent(*command.split(), cwd=root, **ANYWHERE)
    assert not mark.exists()


def test_a_command_that_runs_needs_trust_once_and_again_after_a_change(
    mark: Path, tmp_path: Path, meta_agent: Runner
) -> None:
    folder = tmp_path / "theirs"
    check = ("tasks", "check", "tasks.jsonl")
    refused = meta_agent(*check, cwd=folder, **ANYWHERE)
    assert refused.returncode == 2 and "--trust" in refused.stderr
    assert not mark.exists()
    assert "--trust" not in meta_agent(*check, "--trust", cwd=folder, **ANYWHERE).stderr
    assert mark.exists()
    mark.unlink()
    assert "--trust" not in meta_agent(*check, cwd=folder, **ANYWHERE).stderr
    assert mark.exists()
    mark.unlink()
    (folder / "beside.py").write_text("x = 1\n")
    assert "--trust" in meta_agent(*check, cwd=folder, **ANYWHERE).stderr
    assert not mark.exists()


def test_what_the_user_names_needs_no_trust(mark: Path, tmp_path: Path, meta_agent: Runner) -> None:
    folder = tmp_path / "theirs"
    (folder / "meta-agent.toml").unlink()
    check = ("tasks", "check", "tasks.jsonl", "--grade", "grader.py")
    assert "--trust" not in meta_agent(*check, cwd=folder, **ANYWHERE).stderr
    assert mark.exists()


@pytest.mark.parametrize(("answer", "runs"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_at_a_terminal_it_is_asked(mark: Path, tmp_path: Path, answer: str, runs: bool) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    command = [sys.executable, "-m", "meta_agent", "tasks", "check", "tasks.jsonl"]
    done = subprocess.run(
        command,
        cwd=tmp_path / "theirs",
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **ANYWHERE},
        timeout=120,
    )
    os.close(ours)
    os.close(theirs)
    assert (mark.exists(), done.returncode == 2) == (runs, not runs)
