"""A strategy over strategies trains a policy in a tiny run.

What each strategy finds, and that it goes on after a stop, is in `tests/steps/test_branching.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.timeout(900)]

# A training of one step is 16 attempts here, and 64 to measure it; two fifths are for the search.
SIZES = ("--profile", "tiny", "--train-steps", "1", "--candidates", "1", "--generations", "2")
RUN = ("evolve", *SIZES, "--budget", "960", "--sandbox", "process")


def test_a_tiny_run_tries_something_and_hands_it_over(make_cli: Any) -> None:
    whole = make_cli("way").json(*RUN, "--strategy", "bilevel")
    assert whole["exit_reason"] == "done" and whole["cells"], "something was tried"
    assert whole["handed_over"]["standing"] in ("proven", "unproven", "start")
