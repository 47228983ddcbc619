"""Tasks in images of their own, as public sets ship them: sealed, worked on, graded elsewhere."""

from __future__ import annotations

import json
import shlex
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_agent.domains.check import check_domain, render
from meta_agent.domains.swe import RealSwe, fetch_images, load_tasks_domain, make_patch
from meta_agent.sandboxes import BASE_IMAGE, _engine, engine_status
from meta_agent.sandboxes._seal import SEALED

pytestmark = [pytest.mark.docker, pytest.mark.slow]
ENGINE = _engine.engine("docker")

IMAGE, SMITH_IMAGE = (f"meta-agent-test-{name}:1" for name in ("task", "swesmith"))
FAULTY = '"""Sums."""\n\n\ndef total(prices):\n    return sum(prices[1:])\n'
SOUND = FAULTY.replace("[1:]", "")
MARK = "return sum(prices)"
SHOWN = (
    "import unittest\n\nfrom shelf.core import total\n\n\n"
    "class TestCore(unittest.TestCase):\n"
    "    def test_none(self):\n        self.assertEqual(total([]), 0)\n"
)
# What the agent left in its own container is not where its patch is graded.
HIDDEN = (
    "import os\n"
    + SHOWN
    + "\n    def test_total(self):\n"
    + "        for place in ('/tmp/left', '/scratch/left'):\n"
    + "            self.assertFalse(os.path.exists(place))\n"
    + "        self.assertEqual(total([1, 2]), 3)\n"
)
FILES = {
    "shelf/__init__.py": "",
    "shelf/core.py": FAULTY,
    "tests/__init__.py": "",
    "tests/test_core.py": SHOWN,
}
IN = "(tests.test_core.TestCore."
EVAL = """#!/bin/bash
set -uxo pipefail
cd /testbed
git status
python -m pip install -e .
: '>>>>> Start Test Output'
python3 -m unittest -v tests.test_core
: '>>>>> End Test Output'
git checkout 0000000 tests/test_core.py
"""
PATCH = make_patch({"shelf/core.py": FAULTY.encode()}, {"shelf/core.py": SOUND.encode()})
BUG = make_patch({"shelf/core.py": SOUND.encode()}, {"shelf/core.py": FAULTY.encode()})
TEST_PATCH = make_patch(
    {"tests/test_core.py": SHOWN.encode()}, {"tests/test_core.py": HIDDEN.encode()}
)


def line(kind: str, content: str) -> dict[str, str]:
    return {"type": kind, "content": content}


ROWS: dict[str, dict[str, Any]] = {
    "swe-bench-5": {
        "instance_id": "own__shelf-1",
        "repo": "own/shelf",
        "base_commit": "0" * 40,
        "version": "1",
        "problem_statement": "total([1, 2]) gives 2",
        "patch": PATCH,
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": json.dumps([f"test_total {IN}test_total)"]),
        "PASS_TO_PASS": json.dumps([f"test_none {IN}test_none)"]),
        "image": IMAGE,
        "eval_script": EVAL,
        "log_parser": "parse_log_django",
        "eval_type": "pass_and_fail",
        "split": "search",
    },
    "swe-smith": {
        "instance_id": "own__shelf.0000.func_pm__1",
        "repo": "swesmith/own__shelf.0000",
        "image_name": SMITH_IMAGE,
        "problem_statement": "total([1, 2]) gives 2",
        "patch": BUG,
        "FAIL_TO_PASS": ["tests/test_core.py::TestCore::test_total"],
        "PASS_TO_PASS": ["tests/test_core.py::TestCore::test_none"],
        "split": "search",
        "source": {"image_path": "/testbed", "setup_patch": BUG, "hidden": ["tests/test_core.py"]},
    },
}


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def build(folder: Path, name: str, files: dict[str, str]) -> None:
    """An image with a repository whose later branch is the fix."""
    base = ENGINE.find_image(BASE_IMAGE)
    assert base
    repo = folder / "testbed"
    for path, content in files.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(content)
    (repo / ".gitignore").write_text(".venv\n")
    git(folder, "init", "-q", "-b", "main", "testbed")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "base")
    git(repo, "checkout", "-q", "-b", "later")
    (repo / "shelf/core.py").write_text(SOUND)
    git(repo, "commit", "-q", "--allow-empty", "-a", "-m", "fix")
    git(repo, "checkout", "-q", "main")

    def readable(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.mode |= 0o755 if member.isdir() or ".venv/bin" in member.name else 0o644
        return member

    with tarfile.open(folder / "layer.tar", "w") as tar:
        tar.add(repo, "testbed", filter=readable)
    ENGINE.derive_image(base.id, folder / "layer.tar", name, {})


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if problem := engine_status().problem:
        pytest.skip(f"no Docker sandbox: {problem}")
    sealed = {one["Id"] for one in ENGINE.api.images(SEALED)}
    sound = {**FILES, "shelf/core.py": SOUND, "tests/test_core.py": HIDDEN}
    made = {IMAGE: FILES, SMITH_IMAGE: sound}
    for name, files in made.items():
        build(tmp_path_factory.mktemp("image"), name, files)
    yield
    ours = [one["Id"] for one in ENGINE.api.images(SEALED) if one["Id"] not in sealed]
    for name in (*ours, *made):
        ENGINE.api.remove_image(name, force=True)


def load(folder: Path, *names: str) -> RealSwe:
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(ROWS[name]) + "\n" for name in names))
    return load_tasks_domain(path)


# Everything that the user in the container can read, and git's own view of it.
LOOK = """
import os, subprocess, zlib
mark = b"return sum(prices)"
for root in ("/testbed", "/scratch"):
    for top, dirs, files in os.walk(root, followlinks=True):
        if {"HEAD", "objects"} <= set(dirs + files):
            words = ["--git-dir", top, "cat-file", "--batch-all-objects", "--batch"]
            done = subprocess.run(["git", "-c", "safe.directory=*", *words], capture_output=True)
            if mark in done.stdout:
                print("FOUND in the objects of", top)
        for name in files:
            path = os.path.join(top, name)
            if not os.path.isfile(path):
                continue  # a link to what is not there
            data = open(path, "rb").read()
            try:
                data += zlib.decompress(data)
            except zlib.error:
                pass
            if mark in data:
                print("FOUND in", path)
print("looked")
"""


@pytest.mark.parametrize("name", ROWS)
def test_an_agent_finds_neither_the_fix_nor_the_tests(
    images: None, tmp_path: Path, name: str
) -> None:
    domain = load(tmp_path, name)
    (task,) = domain.tasks("search")
    attempt = domain.open(task)
    try:
        said = attempt.call("run", {"command": f"python3 -c {shlex.quote(LOOK)}"}).text
        assert said == "looked\n[exit 0]"
        log = attempt.call("run", {"command": "git -C /testbed log --all; ls -A . /testbed"}).text
        assert "not a git repository" in log or "invalid gitfile" in log
        hidden = attempt.call("run", {"command": "grep -rl test_total . /testbed/ || echo none"})
        assert "none" in hidden.text
        core = attempt.call("run", {"command": "cat /testbed/shelf/core.py"}).text
        assert "prices[1:]" in core, "the place that the image knows leads to the working copy"
    finally:
        attempt.close()


def test_the_image_without_a_seal_gives_the_fix_away(images: None) -> None:
    """The positive control of the test above."""
    from meta_agent.sandboxes import open_sandbox

    box = open_sandbox("docker", run="test", image=IMAGE)
    try:
        said = box.exec(["python3", "-c", LOOK]).stdout.decode()
    finally:
        box.close()
    assert "FOUND in the objects of /testbed/.git" in said


def test_a_patch_is_graded_in_a_container_that_the_agent_never_had(
    images: None, tmp_path: Path
) -> None:
    domain = load(tmp_path, "swe-bench-5")
    attempt = domain.open(domain.tasks("search")[0])
    try:
        attempt.call("run", {"command": "touch /tmp/left /scratch/left"})
        edit = {"path": "shelf/core.py", "old": "prices[1:]", "new": "prices"}
        assert attempt.call("edit", edit).ok
        assert attempt.call("submit", {}).done
        outcome = attempt.grade()
        assert (outcome.success, outcome.flags) == (True, ()), outcome.detail
        assert outcome.detail["fail_to_pass"] == [1, 1]
    finally:
        attempt.close()


@pytest.mark.parametrize("name", ROWS)
def test_gold_passes_nothing_fails_and_no_cheat_wins(
    images: None, tmp_path: Path, name: str
) -> None:
    report = check_domain(load(tmp_path, name))
    assert report.ok, render(report)
    assert report.totals["gold"].clean == 1


def test_images_are_fetched_by_name_and_missing_ones_are_told(images: None, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    gone = {**ROWS["swe-bench-5"], "instance_id": "own__shelf-2", "image": "127.0.0.1:9/own/none:1"}
    path.write_text("".join(json.dumps(row) + "\n" for row in (ROWS["swe-bench-5"], gone)))
    found = fetch_images(path, pull=True)
    assert list(found.image_ids) == [IMAGE]
    assert "cannot pull" in found.missing["127.0.0.1:9/own/none:1"]
    domain = load_tasks_domain(path)
    report = check_domain(domain)
    assert [task.ok for task in report.tasks] == [True, False]
    assert report.totals["gold"].infrastructure == 1
