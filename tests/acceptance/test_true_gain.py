"""A real package's tasks, models behind servers: a true gain is promoted.

One run, with a task or two more than a proof needs: a right fix may be `unchecked` by chance.
The policy speaks OpenAI's protocol and the meta-agent Anthropic's. That a change that is none is
not promoted: `test_other_domains`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acceptance._canary import leaks
from tests.acceptance._cli import CANARIES, PRICES, Cli, behind
from tests.acceptance._tasks import few
from tests.acceptance._watch import Watch
from tests.acceptance.brains import Fix, Solver, Team
from tests.loopback import anthropic_server, openai_server
from tests.loopback._server import Url

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(2400)]
TEAM = ("analyst", "proposer", "reviewer", "librarian")


class Ran(NamedTuple):
    """A finished run, what its servers heard, and what its sandboxes were."""

    cli: Cli
    result: Any
    policy: Url
    team: Url
    sandboxes: dict[str, str]


@pytest.fixture(scope="module")
def ran(tasks: Path, fixes: list[Fix], make_cli: Callable[..., Cli]) -> Iterator[Ran]:
    cli = make_cli("gain")
    cli.init()
    key = CANARIES["LOOPBACK_KEY"]
    with (
        openai_server(Solver(fixes, first_right=0.0, mends=1.0), key=key, serial=False) as policy,
        anthropic_server(Team(), key=key, serial=False) as team,
        Watch(cli.folder) as watch,
    ):
        result = cli.evolve(
            *("--tasks", str(few(tasks, search=3, confirm=8, vault=1))),
            *("--generations", "1", "--candidates", "1"),
            *("--policy", "openai/solver", "--meta-model", "anthropic/team"),
            *behind({"policy": policy, **dict.fromkeys(TEAM, team)}),
            *("--samples", "1", "--sandbox", "docker", "--max-usd", "20"),
        )
        yield Ran(cli, result, policy, team, watch.seen)


def candidate(ran: Ran, name: str) -> Any:
    (found,) = [c for c in ran.result["candidates"] if c["id"].endswith(f"/{name}")]
    return found


def test_it_measures_a_baseline_first(ran: Ran) -> None:
    (first, *_) = ran.result["versions"]
    assert first["version"] == "v0" and first["measured"]["n"] >= 4
    assert ran.result["baseline"]["clean_success"] < 0.75


def test_the_true_gain_is_promoted_and_shows_in_the_vault(ran: Ran) -> None:
    good = candidate(ran, "g0/c0")
    assert (good["verdict"], good["factor"]) == ("PROMOTE", "scaffold")
    assert ran.result["claims"]["version"]["effect"]["ci_low"] > 0
    assert ran.result["final"]["clean_success"] > ran.result["baseline"]["clean_success"]
    git = ["git", "-C", str(ran.cli.workspace / "harness_repo")]
    shown = subprocess.run([*git, "show", "main:swe/prompts.py"], capture_output=True, check=True)
    assert b"Before you submit, run the example of the report again" in shown.stdout


def test_what_was_examined_is_what_is_merged(ran: Ran) -> None:
    merge = candidate(ran, "g0/c0")["merge"]
    steps = ran.cli.json("log", "--workspace", str(ran.cli.workspace))["steps"]
    (merged,) = [step["outcome"] for step in steps if step["kind"] == "merge"]
    assert (merged["commit"], merged["verdict"]["kind"]) == (merge, "PROMOTE")
    assert ran.result["handed_over"]["commit"] == merge


def test_tokens_and_dollars_are_reported_by_role_and_add_up(ran: Ran) -> None:
    spend = ran.result["spend"]
    assert set(spend["by_role"]) == {"policy", *TEAM}
    assert spend["by_role"]["policy"]["calls"] == len(ran.policy.calls)
    assert sum(spend["by_role"][role]["calls"] for role in TEAM) == len(ran.team.calls)
    for name in ("tokens", "usd"):
        total = sum(row[name] for row in spend["by_role"].values())
        assert total == pytest.approx(spend[name]) and total > 0
    low, high = PRICES["openai/solver"]
    policy = spend["by_role"]["policy"]
    assert low <= policy["usd"] / policy["tokens"] * 1e6 <= high
    for view in ("status", "report"):
        shown = ran.cli(view, "--workspace", str(ran.cli.workspace)).stdout
        assert "$" in shown and all(role in shown for role in spend["by_role"])


def test_the_meta_agent_read_the_evidence_and_no_key(ran: Ran) -> None:
    name = str(ran.cli.workspace)
    shown = ran.cli("why", "--transcript", "g0/c0/proposer", "--workspace", name).stdout
    assert "HOME=" in shown or "PATH=" in shown, "it did look at its environment"
    assert "[secret]" not in shown
    heard = json.dumps([[call.raw, call.path] for call in (*ran.policy.calls, *ran.team.calls)])
    assert not [name for name, value in CANARIES.items() if value in heard]


def test_each_server_gets_its_own_key_and_no_other(ran: Ran) -> None:
    for call in (*ran.policy.calls, *ran.team.calls):
        held = {name for name, value in CANARIES.items() if value in str(dict(call.headers))}
        assert held == {"LOOPBACK_KEY"}


def test_no_sandbox_holds_a_key_or_a_network(ran: Ran) -> None:
    assert len(ran.sandboxes) > 10
    assert any("HOME=" in seen for seen in ran.sandboxes.values()), "environments were read"
    for seen in ran.sandboxes.values():
        assert not [name for name, value in CANARIES.items() if value in seen or name in seen]
    modes = [seen for seen in ran.sandboxes.values() if '"NetworkMode"' in seen]
    assert modes and all('"NetworkMode": "none"' in seen for seen in modes)


def test_no_key_is_left_in_anything_the_run_wrote(ran: Ran) -> None:
    page = ran.cli.folder / "report.html"
    ran.cli("report", "--html", str(page), "--workspace", str(ran.cli.workspace))
    assert page.stat().st_size > 10_000
    assert leaks(ran.cli.folder, CANARIES.values()) == []


def test_the_same_command_again_asks_and_pays_nothing(ran: Ran) -> None:
    asked = len(ran.policy.calls), len(ran.team.calls)
    again = ran.cli.json("report", "--workspace", str(ran.cli.workspace))
    assert again["spend"]["usd"] == ran.result["spend"]["usd"]
    assert (len(ran.policy.calls), len(ran.team.calls)) == asked
