"""The same loop on another suite: nano-math, from its own warm start to a report."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.evolve.conftest import TINY, Cli

pytestmark = [pytest.mark.train, pytest.mark.slow]
VERDICTS = {"PROMOTE", "REJECT", "INVALID", "INCONCLUSIVE"}
RUN = ("evolve", "--domain", "math", *TINY, "--sandbox", "process")


@pytest.fixture(scope="module")
def finished_math(make_cli: Callable[[str], Cli]) -> tuple[Cli, Any]:
    cli = make_cli("math")
    return cli, cli.json(*RUN)


def test_a_run_on_math_ends_with_verdicts(finished_math: tuple[Cli, Any]) -> None:
    _, result = finished_math
    assert result["domain"] == "math" and result["exit_reason"] == "done"
    assert result["candidates"]
    assert {candidate["verdict"] for candidate in result["candidates"]} <= VERDICTS
    assert all(candidate["reasons"] for candidate in result["candidates"])


def test_the_cut_replies_of_the_default_seed_are_noticed(finished_math: tuple[Cli, Any]) -> None:
    """Its own bottleneck: working that does not fit into a reply."""
    _, result = finished_math
    rules = {candidate["hypothesis"]["rule"] for candidate in result["candidates"]}
    assert "longer-replies" in rules


def test_the_same_command_again_only_reads(finished_math: tuple[Cli, Any]) -> None:
    cli, result = finished_math
    assert cli.json(*RUN) == result


def test_verify_recomputes_every_verdict(finished_math: tuple[Cli, Any]) -> None:
    cli, result = finished_math
    for candidate in result["candidates"]:
        assert cli.json("verify", candidate["commit"])["ok"] is True
