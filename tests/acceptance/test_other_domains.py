"""Math and code on real rows: a flaw of the scaffold is repaired and promoted, a wording is not.

No gain depends on a protocol: the policy of the math run answers as Anthropic does, its meta-agent
through litellm, its reviewer as OpenAI does. The flaws: `_flawed`.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acceptance._canary import leaks
from tests.acceptance._cli import CANARIES, Cli, behind
from tests.acceptance._flawed import CASES, Case, flawed
from tests.loopback import anthropic_server, openai_server
from tests.loopback._server import Url

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
TEAM = ("analyst", "proposer", "librarian")
SERVERS = {"openai": openai_server, "litellm": openai_server, "anthropic": anthropic_server}
SIZES = {"train": 1, "search": 3, "confirm": 5, "vault": 1}
"""The fewest by which a gain can be proven: the start fails at each of five tasks of the exam."""


class Ran(NamedTuple):
    """A finished run, and the servers of its models."""

    case: Case
    cli: Cli
    result: Any
    servers: Mapping[str, Url]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.domain)
def ran(
    request: pytest.FixtureRequest,
    make_cli: Callable[..., Cli],
    tmp_path_factory: pytest.TempPathFactory,
) -> Ran:
    case: Case = request.param
    folder = tmp_path_factory.mktemp(f"{case.domain}-rows")
    tasks, golds = _rows(case, folder)
    harness = flawed(case, folder)
    cli = make_cli(case.domain)
    cli.init("--harness", str(harness), "--tasks", str(tasks), domain=case.domain)
    key = CANARIES["LOOPBACK_KEY"]
    with ExitStack() as stack:
        servers: dict[str, Url] = {}
        for name, model in case.models.items():
            server = SERVERS[model.partition("/")[0]]
            brain = case.policy(golds) if name == "policy" else case.team
            servers[name] = stack.enter_context(server(brain, key=key, serial=False))
        team = dict.fromkeys(TEAM, servers["team"])
        result = cli.evolve(
            *("--domain", case.domain, "--tasks", str(tasks), "--harness", str(harness)),
            *("--generations", "1", "--candidates", "2", "--samples", "1"),
            *("--policy", case.models["policy"], "--meta-model", case.models["team"]),
            *("--model", f"reviewer={case.models['reviewer']}"),
            *behind({"policy": servers["policy"], "reviewer": servers["reviewer"], **team}),
            *("--sandbox", "docker", "--max-usd", "20"),
        )
    return Ran(case, cli, result, servers)


def _rows(case: Case, folder: Path) -> tuple[Path, dict[str, str]]:
    """Some rows of the public file with a split each, and their answers by problem."""
    source = DATA / case.file
    if not source.is_file():
        pytest.skip(f"no shared sample {case.file}")
    data = source.read_bytes()
    text = (gzip.decompress(data) if source.suffix == ".gz" else data).decode()
    splits = [split for split, count in SIZES.items() for _ in range(count)]
    rows = [json.loads(line) for line in text.splitlines()[: len(splits)]]
    stated = [{**row, "split": split} for row, split in zip(rows, splits, strict=True)]
    path = folder / f"{case.domain}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in stated), encoding="utf-8")
    return path, dict(map(case.gold, rows))


def candidate(ran: Ran, name: str) -> Any:
    (found,) = [c for c in ran.result["candidates"] if c["id"].endswith(f"/{name}")]
    return found


def test_the_flaw_is_repaired_and_promoted(ran: Ran) -> None:
    good = candidate(ran, "g0/c0")
    assert (good["verdict"], good["factor"]) == ("PROMOTE", "scaffold"), good["reasons"]
    claim = ran.result["claims"]["version"]
    assert claim["effect"]["ci_low"] > 0 and good["merge"]
    assert ran.result["final"]["clean_success"] > ran.result["baseline"]["clean_success"]
    git = ["git", "-C", str(ran.cli.workspace / "harness_repo")]
    shown = subprocess.run(
        [*git, "show", f"main:{ran.case.flaw[0]}"], capture_output=True, check=True
    )
    assert ran.case.team.repair.after.encode() in shown.stdout


def test_another_wording_is_not_promoted(ran: Ran) -> None:
    other = candidate(ran, "g0/c1")
    assert other["verdict"] != "PROMOTE" and not other["merge"]
    assert len(ran.result["versions"]) == 2


def test_every_call_streams_to_the_server_of_its_role(ran: Ran) -> None:
    calls = {role: row["calls"] for role, row in ran.result["spend"]["by_role"].items()}
    policy, team, reviewer = (ran.servers[name].calls for name in ("policy", "team", "reviewer"))
    assert calls["policy"] == len(policy)
    assert sum(calls[role] for role in TEAM) == len(team)
    assert calls["reviewer"] == len(reviewer) > 0
    assert all(call.raw["stream"] for call in (*policy, *team, *reviewer))
    assert {call.model for call in team} == {"team"}


def test_the_merge_can_be_verified_and_no_key_is_left_anywhere(ran: Ran) -> None:
    ran.cli("verify", candidate(ran, "g0/c0")["merge"], "--workspace", str(ran.cli.workspace))
    assert leaks(ran.cli.folder, CANARIES.values()) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.domain)
def test_a_new_workspace_starts_from_the_harness_that_ships(
    case: Case, make_cli: Callable[..., Cli], tmp_path: Path
) -> None:
    cli = make_cli(f"{case.domain}-seed")
    tasks, _ = _rows(case, tmp_path)
    cli.init("--tasks", str(tasks), domain=case.domain)
    git = ["git", "-C", str(cli.workspace / "harness_repo"), "show"]
    name, sound, _ = case.flaw
    shown = subprocess.run([*git, f"main:{name}"], capture_output=True, check=True)
    assert sound.encode() in shown.stdout
