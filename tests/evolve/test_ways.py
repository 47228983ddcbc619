"""A strategy that branches over its own strategies trains a policy, and a killed run goes on.

What each of the strategies finds is in `tests/steps/test_branching.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.evolve.test_resume import end_like

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.timeout(900)]

# A training of one step is 16 attempts here, and 64 to measure it; two fifths are for the search.
SIZES = ("--profile", "tiny", "--train-steps", "1", "--candidates", "1", "--generations", "2")
RUN = ("evolve", *SIZES, "--budget", "960", "--sandbox", "process")


def test_a_run_that_was_killed_ends_like_one_that_was_not(make_cli: Any) -> None:
    argv = (*RUN, "--strategy", "bilevel")
    whole = make_cli("way-whole").json(*argv)
    assert whole["exit_reason"] == "done" and whole["cells"], "something was tried"
    assert whole["handed_over"]["standing"] in ("proven", "unproven", "start")
    end_like(whole, make_cli("way-killed"), argv, "after_outcome:cell:1", "before_work:verdict")
