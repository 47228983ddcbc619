"""Math and code on real rows: a flaw of the scaffold is repaired and promoted, a wording is not.

The flaws are ones that such scaffolds have had: replies cut before the answer, and the first block
of a reply taken where models end with what they mean. No gain depends on a protocol: the policy of
the math run answers as Anthropic does, its meta-agent through litellm, its reviewer as OpenAI does.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meta_agent.core.resources import shipped_harness
from tests.acceptance._canary import leaks
from tests.acceptance._cli import CANARIES, Cli, behind
from tests.acceptance.brains.mender import Change, Mender
from tests.acceptance.brains.solvers import Mathematician, Programmer
from tests.loopback import anthropic_server, openai_server
from tests.loopback._server import Url
from tests.loopback._speech import Brain

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
TEAM = ("analyst", "proposer", "librarian")
SERVERS = {"openai": openai_server, "litellm": openai_server, "anthropic": anthropic_server}
SIZES = {"train": 1, "search": 8, "confirm": 8, "vault": 2}


@dataclass(frozen=True)
class Case:
    """One domain: its rows, its flawed scaffold, and who works on both."""

    domain: str
    file: str
    flaw: tuple[str, str, str]  # file, sound text, flawed text
    policy: Callable[[Mapping[str, str]], Brain]
    team: Mender
    gold: Callable[[Mapping[str, Any]], tuple[str, str]]  # problem, answer
    models: Mapping[str, str]


def _worded(file: str, before: str, after: str) -> Change:
    statement = (
        "If the prompt is worded otherwise, then more attempts solve their task, "
        "because the model reads it with more care."
    )
    return Change(file, before, after, statement, 0.02)


CUT = Change(
    "math/agent.py",
    "MAX_TOKENS = 400",
    "MAX_TOKENS = 4096",
    "If a reply may be ten times as long, then more attempts solve their task, because most end in "
    "a reply that was cut before its box.",
    0.3,
)
FIRST = Change(
    "code/actions.py",
    "fenced(blocks[0])",
    "fenced(blocks[-1])",
    "If the last block of a reply is taken and not the first, then more attempts solve their task, "
    "because replies end with the code that they mean.",
    0.3,
)
CASES = (
    Case(
        "math",
        "gsm8k_test.jsonl",
        ("math/agent.py", "MAX_TOKENS = 4096", "MAX_TOKENS = 400"),
        Mathematician,
        Mender(
            "measured.endings.cut_reply_share",
            0.2,
            CUT,
            _worded("math/prompts.py", "You solve one mathematics problem", "You solve a problem"),
        ),
        lambda row: (row["question"], row["answer"].rpartition("####")[2].strip()),
        {"policy": "anthropic/solver", "team": "litellm/deepseek/team", "reviewer": "openai/team"},
    ),
    Case(
        "code",
        "HumanEval.jsonl.gz",
        ("code/actions.py", "fenced(blocks[-1])", "fenced(blocks[0])"),
        Programmer,
        Mender(
            "measured.verdicts.wrong_answer_share",
            0.3,
            FIRST,
            _worded("code/prompts.py", "Work in small steps", "Take small steps"),
        ),
        lambda row: (row["prompt"], row["prompt"] + row["canonical_solution"]),
        {"policy": "openai/solver", "team": "anthropic/team", "reviewer": "anthropic/team"},
    ),
)


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
    harness = _flawed(case, folder)
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


def _flawed(case: Case, folder: Path) -> Path:
    harness = folder / "harness"
    for path, content in shipped_harness(f"chat/{case.domain}").items():
        (harness / path).parent.mkdir(parents=True, exist_ok=True)
        (harness / path).write_bytes(content)
    name, sound, flawed = case.flaw
    text = (harness / name).read_text(encoding="utf-8")
    assert text.count(sound) == 1
    (harness / name).write_text(text.replace(sound, flawed), encoding="utf-8")
    return harness


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
