"""Somebody's agent in somebody's repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from meta_agent.core.harness import parse_contract
from meta_agent.core.history import HarnessRepo

from ..harness._agents import AGENT

FILES = {
    "agent.py": AGENT,
    "prompt.md": "You mend files.\n",
    "README.md": "An agent.\n",
    "tests/test_agent.py": "def test(): pass\n",
}


def git(folder: Path, *argv: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=o", "-c", "user.email=o@example.org")
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *argv], capture_output=True, check=True, env=env
    )
    return done.stdout.decode().strip()


def written(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def promoted(repo: HarnessRepo, path: str, text: str) -> str:
    """An edit through admission and merge, with a verdict on it."""
    contract = parse_contract(repo.tree(repo.head()))
    ref, head = "refs/heads/candidate/run/1", repo.head()
    tip = repo.admit(
        {path: text.encode()},
        base=head,
        ref=ref,
        message="feat(scaffold): look first\n\nHypothesis: it helps.\n",
        when=repo.when(head) + 1,
        editable=contract.editable,
        protected=contract.protected,
    ).commit
    merged = repo.merge(ref, onto=head, message="feat: merge run/1", trailers={})
    repo.note(tip, "PROMOTE\n\n0.40 to 0.60 on 100 tasks")
    return merged
