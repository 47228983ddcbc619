"""Extensions of installed packages, by real entry points; each is asked for as a run does."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from meta_agent.composition.placing import EXECUTORS
from meta_agent.composition.preflight import require_supported
from meta_agent.composition.root import proposer_of
from meta_agent.composition.served import policies_of
from meta_agent.core.config import RunConfig, asks_models
from meta_agent.core.errors import ConfigError
from meta_agent.core.loop.records import Version
from meta_agent.readers.formats import read_rollouts
from meta_agent.strategies.branching import Move, Node
from meta_agent.strategies.strategies import STRATEGIES, tries_single_ideas
from meta_agent.trackers import Place
from meta_agent.trackers._tracker import open_tracker

MODULE = """
from meta_agent.readers.formats._draft import AttemptDraft
from meta_agent.readers.formats._format import Format
from meta_agent.readers.formats._row import has

class Patient:
    def carry_out(self, run, first): raise NotImplementedError

from meta_agent.strategies.branching import Branching, Move, expandable

class Latest(Branching):
    words = "The next idea is tried on top of the newest version that works."

    def next_move(self, nodes, luck):
        parents = expandable(nodes)
        return Move(parents[-1].number) if parents else None

class Thoughtful:
    author = "thoughtful"
    def __init__(self, detail, config): self.detail = detail

class Policy:
    lock_step = False
    def __init__(self, detail, config): self.detail = detail

class Tracker:
    def __init__(self, place): self.place = place

def cluster(address, **needs): return address, needs

def read(row, count):
    said = [{"role": "assistant", "content": row.text("moves")}]
    return AttemptDraft(prompt=[], messages=said, outcome=row.flag("won"))

chess = Format("chess", "games", "moves, won", lambda v: 3 if has(v, "moves", "won") else 0, read)
"""
ENTRY_POINTS = """
[meta_agent.strategies]
patient = my_plugs:Patient
latest = my_plugs:Latest
full = my_plugs:Patient
broken = my_plugs:Missing

[meta_agent.proposers]
thoughtful = my_plugs:Thoughtful

[meta_agent.policies]
mine = my_plugs:Policy
nano = my_plugs:Policy

[meta_agent.trackers]
ours = my_plugs:Tracker

[meta_agent.executors]
slurm = my_plugs:cluster

[meta_agent.readers]
chess = my_plugs:chess
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with entry points, installed in a folder of its own."""
    site = tmp_path / "site"
    info = site / "my_plugs-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "my_plugs.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plugs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "my_plugs", raising=False)
    return tmp_path


@pytest.mark.usefixtures("installed")
def test_a_strategy_is_taken_by_its_name() -> None:
    require_supported(RunConfig(strategy="patient"))
    assert type(STRATEGIES["patient"]()).__name__ == "Patient"


@pytest.mark.usefixtures("installed")
def test_a_branching_strategy_of_a_package_chooses_moves_and_is_compared() -> None:
    require_supported(RunConfig(strategy="latest"))
    start = Node(0, Version("v0", "c"), open=frozenset({"reward"}))
    broken = Node(2, Version("v0+1", "d"), failure="conduct.leak", open=frozenset({"reward"}))
    newest = Node(1, Version("v0+1", "d"), open=frozenset({"reward"}))
    latest: Any = STRATEGIES["latest"]()
    assert latest.next_move([start, newest, broken], Random(0)) == Move(1)
    assert tries_single_ideas("latest") and not tries_single_ideas("patient")


@pytest.mark.usefixtures("installed")
def test_a_built_in_name_wins() -> None:
    assert type(STRATEGIES["full"]()).__name__ == "Full"
    assert not RunConfig(policy="nano").policy_is_plugged


@pytest.mark.usefixtures("installed")
def test_an_entry_point_that_does_not_load_says_what_is_wrong() -> None:
    with pytest.raises(ConfigError, match="cannot be loaded from my_plugs:Missing"):
        require_supported(RunConfig(strategy="broken"))


@pytest.mark.usefixtures("installed")
def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match="there is no strategy 'hasty'") as refused:
        require_supported(RunConfig(strategy="hasty"))
    assert "patient" in str(refused.value.hint) and "full" in str(refused.value.hint)


@pytest.mark.usefixtures("installed")
def test_a_proposer_and_a_policy_ask_no_model_of_ours(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    config = RunConfig(meta_model="thoughtful:deep", policy="mine:large", tasks=tasks)
    assert not asks_models(config) and not config.trainable
    proposer: Any = proposer_of(config, "r", None)
    policies: Any = policies_of(config, None)
    assert (proposer.author, proposer.detail) == ("thoughtful", "deep")
    assert policies.detail == "large"


@pytest.mark.usefixtures("installed")
def test_a_tracker_and_an_executor(tmp_path: Path) -> None:
    config = RunConfig(log="ours", executor="slurm:here")
    assert config.trackers == ("ours",)
    place = Place("r", tmp_path, {})
    tracker: Any = open_tracker("ours", place)
    assert tracker.place is place
    made: Any = EXECUTORS["slurm"]("here", cpus=1)
    assert made == ("here", {"cpus": 1})


@pytest.mark.usefixtures("installed")
def test_a_reader_is_asked_for_rows_that_it_knows(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"
    path.write_text('{"moves": "e4", "won": true}\n')
    (rollout,) = read_rollouts(path)
    assert rollout.outcome is True and rollout.messages[-1]["content"] == "e4"


@pytest.mark.parametrize("setting", ["policy", "meta_model", "executor"])
def test_without_the_package_the_name_is_refused(setting: str) -> None:
    settings: dict[str, Any] = {setting: "mine:large"}
    with pytest.raises(ValueError, match="expected"):
        RunConfig(**settings)
