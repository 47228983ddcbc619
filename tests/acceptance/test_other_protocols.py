"""The same good agent and policy over the other routes: nobody's gain depends on the protocol.

The policy answers as Anthropic does, the meta-agent through litellm, with a model of its own for
the reviewer, on the openai SDK.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance._canary import leaks
from tests.acceptance._cli import CANARIES, Cli, behind
from tests.acceptance._tasks import few
from tests.acceptance.brains import Fix, Solver, Team
from tests.loopback import anthropic_server, openai_server

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1800)]
THROUGH_LITELLM = ("analyst", "proposer", "librarian")


def test_a_good_agent_gets_its_edit_promoted(
    tasks: Path, fixes: list[Fix], make_cli: Callable[..., Cli]
) -> None:
    cli = make_cli("protocols")
    cli.init()
    key = CANARIES["LOOPBACK_KEY"]
    with (
        anthropic_server(
            Solver(fixes, first_right=0.0, mends=1.0), key=key, serial=False
        ) as policy,
        openai_server(Team(), key=key, serial=False) as team,
        openai_server(Team(), key=key, serial=False) as reviewer,
    ):
        result = cli.evolve(
            *("--tasks", str(few(tasks, search=2, confirm=8, vault=1))),
            *("--generations", "1", "--candidates", "1"),
            *("--policy", "anthropic/solver", "--meta-model", "litellm/deepseek/team"),
            *("--model", "reviewer=openai/team"),
            *behind({"policy": policy, **dict.fromkeys(THROUGH_LITELLM, team)}),
            *behind({"reviewer": reviewer}),
            *("--samples", "1", "--sandbox", "docker", "--max-usd", "20"),
        )
    (candidate,) = result["candidates"]
    assert candidate["verdict"] == "PROMOTE" and candidate["merge"]
    calls = {role: row["calls"] for role, row in result["spend"]["by_role"].items()}
    assert calls["policy"] == len(policy.calls)
    assert sum(calls[role] for role in THROUGH_LITELLM) == len(team.calls)
    assert calls["reviewer"] == len(reviewer.calls) == 1
    assert all(call.raw["stream"] for call in (*policy.calls, *team.calls, *reviewer.calls))
    assert {call.model for call in team.calls} == {"team"}
    assert leaks(cli.folder, CANARIES.values()) == []
