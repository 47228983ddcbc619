"""Killed at every git command of a promotion, then run again: the same history, each step once."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.history import HarnessRepo
from meta_agent.core.history._git import Git, Ran

from ._kit import REF, SEED, admit

MAX_COMMANDS = 80


def promote(path: Path) -> str:
    """What the loop does with a winner, written to be repeated."""
    repo = HarnessRepo.create(path, SEED, "feat: seed harness\n")
    base = repo.log(99)[-1].commit
    admit(repo, base=base)
    merged = repo.merge(REF, onto=base, message="feat: more turns", trailers={"A": "1"})
    repo.note(merged, "PROMOTE")
    return merged


def killed_at(command: int, after: bool, path: Path) -> bool:
    """Runs `promote` in a child that dies by SIGKILL at a git command; whether it got there."""
    pid = os.fork()
    if pid == 0:
        _die_at(command, after)
        promote(path)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def _die_at(command: int, after: bool) -> None:
    run, count = Git.run, 0

    def counted(self: Git, *argv: str, **options: Any) -> Ran:
        nonlocal count
        count += 1
        if count == command and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        ran = run(self, *argv, **options)
        if count == command:
            os.kill(os.getpid(), signal.SIGKILL)
        return ran

    Git.run = counted  # type: ignore[method-assign]


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_promotion_killed_anywhere_is_finished_by_the_next_run(
    after: bool, tmp_path: Path
) -> None:
    undisturbed = HarnessRepo.create(tmp_path / "u" / "harness_repo", SEED, "feat: seed harness\n")
    wanted = promote(undisturbed.path)
    for command in range(1, MAX_COMMANDS):
        path = tmp_path / str(command) / "harness_repo"
        if not killed_at(command, after, path):
            break
        assert promote(path) == wanted, f"killed at command {command}"
        log = HarnessRepo.open(path).log(9)
        assert [(e.commit, e.note) for e in log] == [(e.commit, e.note) for e in undisturbed.log(9)]
        assert (path / "swe/agent.py").read_bytes() == b"MAX_TURNS = 8\n"
    assert 20 < command < MAX_COMMANDS - 1
