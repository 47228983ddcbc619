"""An installation for API models: what needs torch says so, everything else works."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec

import pytest

from tests.acceptance._cli import Cli

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("torch") is not None, reason="this environment has torch: make acceptance has not"
    ),
]


@pytest.mark.parametrize("policy", ["nano", "hf:/models/some"])
def test_training_is_refused_before_anything_starts(
    policy: str, make_cli: Callable[..., Cli]
) -> None:
    cli = make_cli("training")
    ran = cli("evolve", "--workspace", "ws", "--policy", policy, "--sandbox", "process", ok=(2, 3))
    if policy == "nano":
        assert ran.returncode == 3
        assert re.search(r"hint: pip install .*\[train\]", ran.stderr)
    assert not (cli.folder / "ws" / "ledger.sqlite").exists()


def test_a_dry_run_needs_neither_torch_nor_a_server(make_cli: Callable[..., Cli]) -> None:
    cli = make_cli("dry")
    told = cli.json(
        *("evolve", "--dry-run", "--workspace", "ws", "--sandbox", "process"),
        *("--policy", "nano", "--meta-model", "anthropic/claude-opus-5"),
        "--allow-unsafe-process",
    )
    assert told["estimate"]["calls"] and told["plan"]["generations"] == 3
    assert not (cli.folder / "ws").exists()


def test_the_demo_plays_from_an_installation(make_cli: Callable[..., Cli]) -> None:
    told = make_cli("demo").json("demo", "--seconds", "1")
    assert told["exit_reason"] == "done" and told["final"]["clean_success"] > 0.5


def test_looking_at_the_help_imports_nothing_heavy(make_cli: Callable[..., Cli]) -> None:
    heavy = ("litellm", "openai", "anthropic", "docker")
    code = "import sys, meta_agent.cli; print(*[m for m in sys.argv[1:] if m in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", code, *heavy],
        cwd=make_cli("help").folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == []
