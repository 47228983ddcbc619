"""`compare` with real training: killed and taken up again, and what its document holds."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.evolve._cli import Cli

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.nightly, pytest.mark.timeout(900)]

# A training of one step is 16 attempts here, and 64 to measure it.
SIZES = ("--profile", "tiny", "--train-steps", "1", "--generations", "1", "--budget", "480")
CONDITIONS = ("static", "full")
COMPARE = (
    "compare",
    "--conditions",
    ",".join(CONDITIONS),
    "--seeds",
    "1",
    *SIZES,
    "--sandbox",
    "process",
)


def test_a_comparison_that_was_killed_goes_on_where_it_ended(make_cli: Any) -> None:
    cli: Cli = make_cli("killed")
    killed = cli(*COMPARE, env={"META_AGENT_CRASH_AT": "after_outcome:train:2"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    begun = cli.json(*COMPARE, "--read-only")
    assert begun["unfinished"]
    whole = cli.json(*COMPARE)
    assert whole["unfinished"] == []
    static, full = (whole["arms"][name] for name in CONDITIONS)
    assert static["spent"] == 480  # the whole budget, in one training
    assert static["trained_on"] == 96
    assert full["spent"] <= 480
    (of_static,) = (run for run in whole["runs"] if run["arm"] == "static")
    assert len(of_static["clean"]) == 96 and of_static["policy_steps"] in range(1, 7)

    page = cli.folder / "compared.html"
    cli(*COMPARE, "--read-only", "--html", str(page))
    assert "static" in page.read_text()
