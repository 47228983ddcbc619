"""Every strategy that branches finishes a tiny run; one that was killed goes on where it was."""

from __future__ import annotations

from typing import Any

import pytest

from tests.evolve.test_resume import end_like

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


def test_a_run_that_was_killed_ends_like_one_that_was_not(make_cli: Any) -> None:
    whole = make_cli("way-whole").json(*RUN, "--strategy", "bilevel")
    argv = (*RUN, "--strategy", "bilevel")
    end_like(whole, make_cli("way-killed"), argv, "after_outcome:cell:1", "before_work:verdict")
