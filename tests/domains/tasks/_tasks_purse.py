"""A small package with a suite, as text, in folders and in repositories."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from meta_agent.core.protocols import Sandbox
from meta_agent.domains.swe import SandboxFactory
from meta_agent.domains.tasks import Bench, Package, sandboxes

SOURCE = '''"""A purse of coins."""


def total(coins, start=0):
    """What the coins are worth."""
    if start < 0:
        raise ValueError("a purse never starts below zero")
    for coin in coins:
        start = start + coin
    return start


def largest(coins, default=None):
    best = default
    for coin in coins:
        if best is None or coin > best:
            best = coin
    return best


def change(amount, coins):
    """The fewest large coins first."""
    given = []
    for coin in sorted(coins, reverse=True):
        while amount >= coin:
            amount -= coin
            given.append(coin)
    return given


def unused(amount):
    return amount + 1
'''
TESTS = """import pytest

from purse.coins import change, largest, total


def test_total():
    coins = [1, 2, 5]
    assert total(coins) == 8
    assert total(coins, start=2) == 10


def test_total_of_nothing():
    assert total([]) == 0


class TestLargest:
    def test_some(self):
        assert largest([1, 5, 2]) == 5

    def test_default(self):
        assert largest([], default=7) == 7


def test_a_negative_start_is_refused():
    with pytest.raises(ValueError):
        total([1], start=-1)


@pytest.mark.parametrize(("amount", "wanted"), [(8, [5, 2, 1]), (10, [5, 5])])
def test_change(amount, wanted):
    assert change(amount, [1, 2, 5]) == wanted


def test_nothing_to_give():
    assert change(0, [1]) == []
"""
MOODY = """from pathlib import Path


def test_moody():
    assert int(Path("turn.txt").read_text()) % 2
"""
FILES = {
    "purse/__init__.py": '"""Coins."""\n',
    "purse/coins.py": SOURCE,
    "tests/test_coins.py": TESTS,
    "README.md": "A purse.\n",
    "pyproject.toml": '[project]\nname = "purse"\nversion = "1.2"\n',
}


def numbered_sandboxes() -> SandboxFactory:
    """Process sandboxes in which each run finds its own number: what makes `MOODY` moody."""
    opened = sandboxes("process", "tests")
    turn = itertools.count()

    def numbered(image: str | None) -> Sandbox:
        sandbox = opened(image)
        sandbox.write({"repo/turn.txt": str(next(turn)).encode()})
        return sandbox

    return numbered


def bench_of(package: Package, factory: SandboxFactory) -> Bench:
    return Bench(package, factory, python=sys.executable)


def written(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


class Repository:
    """A git repository as a person makes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._clock = itertools.count(1_700_000_000, 60)
        self.git("init", "-q", "-b", "main")

    def git(self, *argv: str) -> str:
        when = f"{next(self._clock)} +0000"
        identity = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org"}
        identity |= {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}
        env = {**os.environ, **identity, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        done = subprocess.run(
            ["git", *argv], cwd=self.folder, env=env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, message: str, files: Mapping[str, str]) -> str:
        written(self.folder, files)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")
