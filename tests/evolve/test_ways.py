"""Every strategy that branches trains a policy in a tiny run.

What each strategy finds, and that it goes on after a stop, is in `tests/steps/test_branching.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.timeout(900)]

WAYS = ("frontier", "archive", "islands", "pareto", "tree", "specialists", "bilevel")
# A training of one step is 16 attempts here, and 64 to measure it; two fifths are for the search.
SIZES = ("--profile", "tiny", "--train-steps", "1", "--candidates", "1", "--generations", "2")
RUN = ("evolve", *SIZES, "--budget", "960", "--sandbox", "process")


@pytest.mark.parametrize("name", WAYS)
def test_each_finishes_a_tiny_run_with_a_trained_policy(make_cli: Any, name: str) -> None:
    result = make_cli(f"way-{name}").json(*RUN, "--strategy", name)
    assert result["exit_reason"] == "done" and result["cells"], "something was tried"
    assert result["handed_over"]["standing"] in ("proven", "unproven", "start")
