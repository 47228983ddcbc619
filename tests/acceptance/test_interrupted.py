"""kill -9, a budget that ends, a larger one: no exchange is asked twice, none is lost.

In math, whose attempts are the cheapest: what is journalled and paid is alike in every domain.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meta_agent.llm_clients.asking.transcripts import Transcripts
from tests.acceptance._cli import CANARIES, Cli, behind
from tests.acceptance._flawed import MATH, flawed
from tests.acceptance.brains._solvers import Mathematician
from tests.loopback import Call, openai_server
from tests.loopback._server import Url

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1800)]
TEAM = ("analyst", "proposer", "reviewer", "librarian")
SUMS = {
    f"Ada has {boxes} boxes of 7 pears each. How many pears has she?": str(7 * boxes)
    for boxes in range(2, 12)
}
SPLITS = (*["search"] * 4, *["confirm"] * 5, "vault")


class Servers(NamedTuple):
    """Two servers, and the flags of a run that uses them."""

    policy: Url
    team: Url
    argv: tuple[str, ...]

    @property
    def heard(self) -> list[Call]:
        return [*self.policy.calls, *self.team.calls]


@contextmanager
def served(folder: Path) -> Iterator[Servers]:
    folder.mkdir()
    rows = [
        {"question": question, "answer": f"#### {answer}", "split": split}
        for (question, answer), split in zip(SUMS.items(), SPLITS, strict=True)
    ]
    tasks = folder / "sums.jsonl"
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    key = CANARIES["LOOPBACK_KEY"]
    with (
        openai_server(Mathematician(SUMS), key=key, serial=False) as policy,
        openai_server(MATH.team, key=key, serial=False) as team,
    ):
        argv = (
            *("--domain", "math", "--tasks", str(tasks), "--harness", str(flawed(MATH, folder))),
            *("--generations", "1", "--candidates", "1", "--concurrency", "2"),
            *("--policy", "openai/solver", "--meta-model", "openai/team"),
            *behind({"policy": policy, **dict.fromkeys(TEAM, team)}),
            *("--samples", "1", "--sandbox", "docker"),
        )
        yield Servers(policy, team, argv)


def comparable(result: Any) -> Any:
    rows = [(c["verdict"], c["effect"], c["hypothesis"]["statement"]) for c in result["candidates"]]
    return rows, result["baseline"], result["final"]


def test_a_run_that_was_killed_and_capped_asks_nothing_twice_and_ends_alike(
    make_cli: Callable[..., Cli],
) -> None:
    whole, cli = make_cli("undisturbed"), make_cli("interrupted")
    with served(whole.folder / "given") as servers:
        whole.init(*servers.argv[2:6], domain="math")
        undisturbed = whole.evolve(*servers.argv)
    with served(cli.folder / "given") as servers:
        cli.init(*servers.argv[2:6], domain="math")
        moments = {
            "in the first rollouts": lambda: len(servers.policy.calls) >= 2,
            "while the proposer works": lambda: len(servers.team.calls) >= 7,
            "while the finalist is measured": lambda: _dialogues(cli, "confirm") >= 1,
        }
        for when in moments.values():
            cli.killed(*servers.argv, "--max-usd", "20", when=when)
        # What was on the wire when the process died is asked once more: at most as many as were
        # under way (two rollouts, one agent), at each of the deaths.
        lost = len(servers.heard) - recorded(cli)
        assert lost <= 2 * len(moments)
        spent, held = usd_of(cli)
        to_come = undisturbed["spend"]["usd"] - (spent - held)
        cap = spent + to_come / 2
        for _ in ("it is reached", "it is reached still"):
            cli.evolve(*servers.argv, "--max-usd", f"{cap:.6f}", ok=(4,))
            assert cli.json("report", "--workspace", str(cli.workspace))["exit_reason"] == "budget"
            assert 0 < usd_of(cli)[0] <= cap
        result = cli.evolve(*servers.argv, "--max-usd", "20")
        assert len(servers.heard) - recorded(cli) == lost, "what was paid for is not asked again"
    assert comparable(result) == comparable(undisturbed)
    assert result["spend"]["usd"] > 0


def usd_of(cli: Cli) -> tuple[float, float]:
    """What is spent, and which part of it is only held, for calls without an answer."""
    spend = cli.json("report", "--workspace", str(cli.workspace))["spend"]
    return spend["usd"], sum(row["open_usd"] for row in spend["by_role"].values())


def recorded(cli: Cli) -> int:
    """Answers that the run keeps, one a turn; how many a race wants its graders' draws decide."""
    (run,) = (cli.workspace / "transcripts").iterdir()
    kept = Transcripts(run)
    return sum(len(kept.read(name)) for name in kept.conversations())


def _dialogues(cli: Cli, split: str) -> int:
    """Recorded conversations of the policy on one split."""
    found = cli.workspace.glob(f"transcripts/*/policy/*-{split}-*/*/*.jsonl")
    return sum(1 for _ in found)


def test_a_cap_with_an_unknown_price_is_refused_before_anything_starts(
    make_cli: Callable[..., Cli],
) -> None:
    cli = make_cli("unpriced")
    with served(cli.folder / "given") as servers:
        ran = cli("evolve", "--workspace", "ws", *servers.argv, "--max-usd", "1", ok=(3,))
        assert "price" in ran.stderr and servers.policy.calls == servers.team.calls == []
        assert not list(cli.workspace.glob("rollouts/*"))
