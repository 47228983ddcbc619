"""The same loop on the other suites, each from its own warm start."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.evolve._cli import TINY, Cli

pytestmark = [pytest.mark.train, pytest.mark.slow]
VERDICTS = {"PROMOTE", "REJECT", "INVALID", "INCONCLUSIVE"}
# What two steps of training show of the default seed: working that does not fit into a reply, and
# hidden tests that are read.
NOTICED = {"math": "longer-replies", "code": "drop-leaking-tool"}


class Finished(NamedTuple):
    """One undisturbed run."""

    domain: str
    cli: Cli
    result: Any


def run_of(domain: str) -> tuple[str, ...]:
    return ("evolve", "--domain", domain, *TINY, "--sandbox", "process")


@pytest.fixture(scope="module", params=sorted(NOTICED))
def ended(request: pytest.FixtureRequest, make_cli: Callable[[str], Cli]) -> Finished:
    cli = make_cli(request.param)
    return Finished(request.param, cli, cli.json(*run_of(request.param)))


def test_a_run_ends_with_verdicts(ended: Finished) -> None:
    result = ended.result
    assert result["domain"] == ended.domain and result["exit_reason"] == "done"
    assert result["candidates"]
    assert {candidate["verdict"] for candidate in result["candidates"]} <= VERDICTS
    assert all(candidate["reasons"] for candidate in result["candidates"])


def test_what_holds_the_default_seed_back_is_noticed(ended: Finished) -> None:
    rules = {candidate["hypothesis"]["rule"] for candidate in ended.result["candidates"]}
    assert NOTICED[ended.domain] in rules


def test_verify_recomputes_every_verdict(ended: Finished) -> None:
    told = ended.cli.json("verify", ended.result["candidates"][0]["commit"])  # the whole run
    assert told["ok"] is True and told["differences"] == []
