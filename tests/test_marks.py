"""What starts a container, a policy child or a whole run fails without the mark that says so.

In CI a skip fails unless `.ci/skips.toml` allows it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_agent.policies.training._spawn import CHILD_EVENT

pytest_plugins = "pytester"

STARTS = {
    "docker": "HTTPConnection(*listening.getsockname()).send(b'POST /v1.47/containers/create')",
    "train": f"sys.audit({CHILD_EVENT!r})",
    "run": "subprocess.run([sys.executable, '-c', '', 'meta_agent', 'evolve'])",
    "in_process_run": "sys.audit('meta_agent.evolve', 'r1')",
    "engine": "subprocess.run([sys.executable, '-c', '', '-m', 'vllm.entrypoints'])",
}
MARKS = {"run": "slow", "in_process_run": "slow", "engine": "slow"}
CONFTEST = (Path(__file__).parent / "conftest.py").read_text()


def program(mark: str, start: str) -> str:
    return f"""
import socket, subprocess, sys, pytest
from contextlib import suppress
from http.client import HTTPConnection

listening = socket.create_server(("127.0.0.1", 0))

def start():
    {start}

@pytest.fixture(scope="module")
def started():
    start()

@pytest.mark.{mark}
def test_marked(): start()

def test_unmarked(): start()

def test_who_catches_it():
    with suppress(Exception):
        start()

def test_by_a_fixture(started): pass

def test_after_it_nothing_is_held_against(): pass
"""


def test_what_starts_it_without_its_mark_fails(pytester: pytest.Pytester) -> None:
    marks = {name: MARKS.get(name, name) for name in STARTS}
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(**{f"test_{n}": program(marks[n], start) for n, start in STARTS.items()})
    ran = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "ignore")
    ran.assert_outcomes(passed=2 * len(STARTS), failed=2 * len(STARTS), errors=len(STARTS))
    for name, mark in marks.items():
        ran.stdout.fnmatch_lines_random([f"*test_{name}.py*without the mark `{mark}`*"])


SKIPS = """
[[skip]]
reason = "not on this machine"

[[skip]]
reason = "needs vLLM"
check = "vllm"
"""
SHARDS = """
[vllm]
tests = ["tests/test_vllm.py"]
"""
REASONS = ["not on this machine", "needs vLLM: set it", "a reason that the list lacks"]


@pytest.mark.parametrize(
    ("checks", "file", "failing"),
    [
        pytest.param(None, "test_vllm.py", 0, id="by hand"),
        pytest.param("", "test_vllm.py", 1, id="its environment is not there"),
        pytest.param("vllm", "test_vllm.py", 2, id="its environment is there"),
        pytest.param("", "test_other.py", 2, id="in a file that its check does not run"),
    ],
)
def test_a_skip_fails_in_ci_unless_the_list_allows_it(
    checks: str | None,
    file: str,
    failing: int,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI_CHECKS", raising=False)
    if checks is not None:
        monkeypatch.setenv("CI_CHECKS", checks)
    tests, ci = pytester.mkdir("tests"), pytester.mkdir(".ci")
    (ci / "skips.toml").write_text(SKIPS)
    (ci / "shards.toml").write_text(SHARDS)
    (tests / "conftest.py").write_text(CONFTEST)
    calls = (f"def test_{n}(): pytest.skip({reason!r})" for n, reason in enumerate(REASONS))
    (tests / file).write_text("\n".join(["import pytest", *calls]))
    (tests / "test_whole.py").write_text(
        f"import pytest\npytest.skip({REASONS[2]!r}, allow_module_level=True)\n"
    )
    ran = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "1")
    in_ci = checks is not None
    ran.assert_outcomes(failed=failing, skipped=4 - failing - in_ci, errors=int(in_ci))
