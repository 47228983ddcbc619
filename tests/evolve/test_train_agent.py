"""A policy is trained inside an agent of one's own, which knows nothing of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.ledger import Ledger
from meta_agent.core.rollouts import RolloutStore
from tests.harness._examples import need_example
from tests.models import _bpe

from ._cli import Cli

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(900)]
SIZES = {"train": 4, "search": 2, "confirm": 2, "vault": 2}
RECIPE = "groups_per_step = 1\nnum_generations = 4\nlearning_rate = 0.01\n"
GRADE = """LIMITS = {"max_tokens_per_turn": 8, "max_turns": 3}


def grade(task, answer):
    return len(answer) % 2 == 0
"""
AGENT = """
import json, os, pathlib, sys, urllib.request

if any(pathlib.Path(__file__).parent.rglob("recipe.toml")):
    sys.exit("the agent sees how it is trained")
talk = [{"role": "user", "content": sys.argv[1]}]
for _ in range(3):
    body = json.dumps({"model": "any", "messages": talk}).encode()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    reply = json.load(urllib.request.urlopen(request))["choices"][0]["message"]
    talk += [reply, {"role": "user", "content": "go on"}]
    FORGET
print(reply["content"])
"""


def tasks(folder: Path) -> tuple[str, ...]:
    """Tasks, a grader, and a tiny model with random weights."""
    splits = [split for split, count in SIZES.items() for _ in range(count)]
    rows = [{"prompt": f"say {n}", "split": split} for n, split in enumerate(splits)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "grade.py").write_text(GRADE)
    policy = _bpe.write(folder / "tiny", window=8192)
    files = ("--tasks", f"{folder}/rows.jsonl", "--grade", f"{folder}/grade.py")
    return (*files, "--policy", f"hf:{policy}")


def small_recipe(agent: Path, generations: int = 4) -> None:
    """What its owner would write into the folder that `init` makes."""
    (agent / "meta-agent-training").mkdir()
    recipe = RECIPE.replace("num_generations = 4", f"num_generations = {generations}")
    (agent / "meta-agent-training" / "recipe.toml").write_text(recipe)


def written(folder: Path, forget: str = "pass") -> Path:
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT.replace("FORGET", forget))
    small_recipe(folder)
    return folder


def rows_of(cli: Cli) -> list[Any]:
    """The rollouts of the training that a workspace keeps."""
    root = cli.folder / "meta-agent-workspace"
    with Ledger.open(root / "ledger.sqlite", owner_lock=False) as ledger:
        (step,) = (s for s in ledger.steps(kind="train") if s.outcome["shard"])
        shard = step.outcome["shard"]["name"]
    return list(RolloutStore(root / "rollouts").read(shard, tokens=True))


def test_init_writes_what_training_needs_and_three_steps_train(tmp_path: Path) -> None:
    agent, given = written(tmp_path / "agent"), tasks(tmp_path)
    cli = Cli(tmp_path / "there")
    cli.folder.mkdir()
    local = ("--sandbox", "process", "--allow-unsafe")
    command = "python3 {harness}/agent.py {prompt}"
    made = cli("init", *given, "--harness", str(agent), "--command", command, *local)
    assert "meta-agent-training/" in made.stderr
    repo = cli.folder / "meta-agent-workspace" / "harness_repo" / "meta-agent-training"
    names = {path.name for path in repo.iterdir()}
    assert names == {"reward.py", "filter.py", "curriculum.py", "recipe.toml"}
    assert (repo / "recipe.toml").read_text() == RECIPE
    document = cli.json("train", *given, "--harness", str(agent), "--train-steps", "3", *local)
    assert (document["steps"], document["tokens_in_rows"]) == (3, 1.0)
    assert len(document["metrics"]) == 3
    rollouts = rows_of(cli)
    assert rollouts and all(r.tokens.exact and r.turns == 3 and not r.error for r in rollouts)
    assert all(len(r.tokens.logprobs) == len(r.tokens.completion_ids) for r in rollouts)


def test_an_agent_that_rewrites_its_conversation_is_refused(tmp_path: Path) -> None:
    agent, given = written(tmp_path / "agent", "talk = talk[-1:]"), tasks(tmp_path)
    cli = Cli(tmp_path / "there")
    cli.folder.mkdir()
    argv = ("train", *given, "--harness", str(agent), "--sandbox", "process", "--allow-unsafe")
    refused = cli(*argv, "--train-steps", "3", check=False)
    assert refused.returncode == 2, refused.stderr


@pytest.mark.docker
@pytest.mark.nightly
def test_mini_swe_agent_unmodified_trains_a_tiny_model(tmp_path: Path) -> None:
    agent = shutil.copytree(need_example("mini-swe-agent"), tmp_path / "mini")
    # A model with random weights makes no tool call, and mini-swe-agent forgets a reply without
    # one. So its configuration takes each reply for a command.
    settings = (agent / "mini.yaml").read_text()
    takes_all = "model:\n  model_class: litellm_textbased\n  action_regex: '\\A(.*)\\Z'\n"
    (agent / "mini.yaml").write_text(settings.replace("model:\n", takes_all))
    small_recipe(agent, generations=2)  # each attempt starts the agent in a container
    cli = Cli(tmp_path / "there")
    cli.folder.mkdir()
    argv = ("train", *tasks(tmp_path), "--harness", str(agent), "--train-steps", "3")
    document = cli.json(*argv, "--sandbox", "docker")
    assert (document["steps"], document["tokens_in_rows"]) == (3, 1.0)
    rollouts = rows_of(cli)
    assert rollouts and all(r.tokens.exact and r.turns == 3 and not r.error for r in rollouts)
