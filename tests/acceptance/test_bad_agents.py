"""Meta-agents that misbehave: each is stopped with a typed reason, within its budget.

One run whose analyst asks for a dozen candidates; each proposer does another bad deed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acceptance._canary import leaks
from tests.acceptance._cli import CANARIES, NOTHING_TRIED, Cli, behind
from tests.acceptance._tasks import few
from tests.acceptance.brains import Fix, Misbehaving, Solver
from tests.acceptance.brains._misbehaving import DEEDS
from tests.loopback import openai_server

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1800)]

REASONS = {
    "outside": "path_outside_allowlist",
    "rules": "protected_path",
    "grader": "protected_path",
    "symlink": "not_a_regular_file",
    "hook": "empty",  # a hook is no file of the harness
    "attributes": "hostile_path",
    "two-factors": "several_factors",
    "never-edits": "empty",
    "loops": "looped",
    "reads-keys": "looped",  # there is none to read: it asks again and again
    "asks-for-keys": "no_tool_calls",
    "burns": "token_limit",
}
TEAM = ("analyst", "proposer", "reviewer", "librarian")
CAP_USD, CAP_TOKENS = 40.0, 12_000_000


class Ran(NamedTuple):
    """A finished run."""

    cli: Cli
    result: Any
    head: str


@pytest.fixture(scope="module")
def ran(tasks: Path, fixes: list[Fix], make_cli: Callable[..., Cli]) -> Iterator[Ran]:
    cli = make_cli("bad")
    cli.init()
    key = CANARIES["LOOPBACK_KEY"]
    with (
        openai_server(Solver(fixes), key=key, serial=False) as policy,
        openai_server(Misbehaving(), key=key, serial=False) as team,
    ):
        result = cli.evolve(
            *("--tasks", str(few(tasks, search=2, confirm=2, vault=1))),
            *("--generations", "1", "--candidates", str(len(DEEDS))),
            *("--policy", "openai/solver", "--meta-model", "openai/team"),
            *behind({"policy": policy, **dict.fromkeys(TEAM, team)}),
            *("--samples", "1", "--sandbox", "docker"),
            *("--max-usd", str(CAP_USD), "--max-tokens", f"proposer={CAP_TOKENS}"),
            ok=(NOTHING_TRIED,),
        )
    yield Ran(cli, result, _git(cli, "rev-parse", "main"))


def _git(cli: Cli, *argv: str) -> str:
    command = ["git", "-C", str(cli.workspace / "harness_repo"), *argv]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


@pytest.mark.parametrize("deed", DEEDS)
def test_it_is_stopped_with_a_typed_reason(deed: str, ran: Ran) -> None:
    (row,) = [row for row in ran.result["refused"] if f"named {deed}," in row["statement"]]
    assert (row["code"], bool(row["reason"])) == (REASONS[deed], True), row


def test_none_became_a_candidate_and_main_stands_where_it_stood(ran: Ran) -> None:
    assert ran.result["candidates"] == []
    assert [version["commit"] for version in ran.result["versions"]] == [ran.head]
    assert _git(ran.cli, "rev-list", "--count", "main") == "1"


def test_what_was_refused_left_no_object_behind(ran: Ran) -> None:
    objects = _git(ran.cli, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    reachable = _git(ran.cli, "rev-list", "--objects", "--all").splitlines()
    assert len(objects) == len(reachable)


def test_together_they_cost_no_more_than_the_budget(ran: Ran) -> None:
    proposer = ran.result["spend"]["by_role"]["proposer"]
    assert 0 < proposer["tokens"] + proposer["open_tokens"] <= CAP_TOKENS
    assert ran.result["spend"]["usd"] <= CAP_USD
    assert proposer["calls"] < 150


def test_no_key_was_found_by_those_that_looked_for_one(ran: Ran) -> None:
    assert leaks(ran.cli.folder, CANARIES.values()) == []
