"""What starts a container, a policy child or a whole run fails without the mark that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = "pytester"

STARTS = {
    "docker": "HTTPConnection(*listening.getsockname()).send(b'POST /v1.47/containers/create')",
    "train": "subprocess.run([sys.executable, '-c', '', 'meta_agent.policies.training.child'])",
    "run": "subprocess.run([sys.executable, '-c', '', 'meta_agent', 'evolve'])",
    "engine": "subprocess.run([sys.executable, '-c', '', '-m', 'vllm.entrypoints'])",
}
MARKS = {"run": "slow", "engine": "slow"}


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


@pytest.mark.parametrize("name", STARTS)
def test_what_starts_it_without_its_mark_fails(name: str, pytester: pytest.Pytester) -> None:
    mark = MARKS.get(name, name)
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makepyfile(program(mark, STARTS[name]))
    ran = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "ignore")
    ran.assert_outcomes(passed=2, failed=2, errors=1)
    ran.stdout.fnmatch_lines([f"*without the mark `{mark}`*"])
