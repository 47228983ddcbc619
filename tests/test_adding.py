"""What CONTRIBUTING shows: a file and a row in one table, and what was added is asked.

Each test adds from outside what a change would add inside, and goes the way that a run goes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

from meta_agent.composition.preflight import require_supported
from meta_agent.core.chat import ChatReply, ChatRequest
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import CHECKS, Check, Context, Finding, Severity, Side, find_all
from meta_agent.core.gate.validity import checks
from meta_agent.core.harness.recipe import _KNOBS, parse_recipe
from meta_agent.core.lab.live import Trained
from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import Ceilings, Environment, Outcome, Sampling, Split, Task
from meta_agent.domains import DOMAIN_KINDS, DomainKind, DomainOptions, open_domain
from meta_agent.domains.check import check_tasks
from meta_agent.llm_clients.keys import MAKERS, Maker
from meta_agent.llm_clients.providers import _endpoints
from meta_agent.policies.training._recipe import _ALGORITHM, _OURS
from meta_agent.readers.formats import FORMATS, read_rollouts
from meta_agent.readers.formats._draft import AttemptDraft
from meta_agent.readers.formats._format import Format
from meta_agent.readers.formats._messages import LeaveOut
from meta_agent.readers.formats._row import SourceRow, has
from meta_agent.strategies.strategies import STRATEGIES

from .gate._rows import arm


def test_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def lucky(before: Side | None, after: Side, context: Context) -> list[Finding]:
        return [Finding("luck.seven", "veto", "seven of them")]

    row = Check("luck", ("luck.",), "sevens", lucky)
    monkeypatch.setattr(checks, "CHECKS", (*CHECKS, row))
    found: Sequence[Finding] = find_all(_side("before"), _side("after"))
    assert [(one.code, one.side) for one in found] == [("luck.seven", "candidate")]


def test_findings_of_every_severity_come_gravest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def each(before: Side | None, after: Side, context: Context) -> list[Finding]:
        return [Finding("luck.any", severity, "") for severity in reversed(get_args(Severity))]

    monkeypatch.setattr(checks, "CHECKS", (Check("luck", ("luck.",), "any", each),))
    told = [found.severity for found in find_all(_side("before"), _side("after"))]
    assert list(dict.fromkeys(told)) == list(get_args(Severity))


def _side(name: str) -> Side:
    return Side(arm(name, tasks=4))


def test_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stays:
        def carry_out(self, run: Run, first: Version) -> HandedOver:
            trained: Trained | None = None
            return HandedOver(first, trained, "start", "nothing was searched for")

    with pytest.raises(ConfigError, match="no strategy 'stays'"):
        require_supported(RunConfig(strategy="stays"))
    monkeypatch.setitem(STRATEGIES.rows, "stays", Stays)  # type: ignore[arg-type]
    require_supported(RunConfig(strategy="stays"))


def test_a_model_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    class Provider:
        def __init__(self, **told: Any) -> None:
            self.told = told

        def chat(self, request: ChatRequest) -> ChatReply:
            raise NotImplementedError

        def close(self) -> None: ...

    file = ModuleType("meta_agent.llm_clients.providers._mine")
    file.MineProvider = Provider  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, file.__name__, file)
    row = Maker(("MINE_API_KEY",), sdk="_mine:MineProvider")
    monkeypatch.setitem(MAKERS, "mine", row)  # type: ignore[arg-type]
    environment = {"MINE_API_KEY": "k"}
    endpoint = _endpoints.resolve_endpoint("mine/large", None, None, environment)
    opened = _endpoints.open_endpoint(endpoint)
    assert isinstance(opened, Provider)
    assert opened.told["api_key"] == "k"


def test_a_rollouts_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def read(row: SourceRow, count: LeaveOut) -> AttemptDraft:
        said = [{"role": "assistant", "content": row.text("said")}]
        return AttemptDraft(prompt=[], messages=said, outcome=row.flag("won"))

    def claims(value: Any) -> int:
        return 3 if has(value, "said", "won") else 0

    monkeypatch.setitem(FORMATS.rows, "mine", Format("mine", "games", "said, won", claims, read))
    path = tmp_path / "games.jsonl"
    path.write_text(json.dumps({"said": "b4", "won": True}) + "\n")
    (rollout,) = read_rollouts(path)
    assert (rollout.outcome, rollout.messages[-1]["content"]) == (True, "b4")


def test_a_recipe_knob() -> None:
    """A field in `harness/recipe.py`: the trainer takes every field."""
    assert set(_KNOBS) == _ALGORITHM - {"optim"} | _OURS
    assert parse_recipe("beta = 0.5").beta == 0.5


class _Echo:
    """Tasks that are solved by saying their name."""

    name, evaluator_hash = "echo", "echo-1"
    ceilings, sampling = Ceilings(4, 100, 1000, 10.0), Sampling(1.0)

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task("echo", f"{split}-{n}", split, f"{split}{n}", {"prompt": n}) for n in "ab"]

    def open(self, task: Task) -> Environment:
        return _Attempt(task.key)

    def regrade(self, task_key: str, verifier_inputs: Any) -> Outcome:
        return Outcome(verifier_inputs["said"] == task_key)


class _Attempt:
    tools = ("say",)

    def __init__(self, key: str) -> None:
        self._key = key

    def call(self, tool: str, arguments: Any) -> Any:
        raise NotImplementedError

    def grade(self) -> Outcome:
        return Outcome(False, {"verdict": "graded"})

    def verifier_inputs(self) -> dict[str, Any]:
        return {"said": ""}

    def close(self) -> None: ...


def test_a_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    file = ModuleType("echo_door")
    file.open_domain = lambda asked: _Echo()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "echo_door", file)
    row = DomainKind(
        "echo_door", "meta_agent.domains.checking._plugged", "chat/open", needs_file=False
    )
    monkeypatch.setitem(DOMAIN_KINDS, "echo", row)  # type: ignore[arg-type]
    assert open_domain(DomainOptions("echo")).name == "echo"
    assert len(check_tasks(DomainOptions("echo")).tasks) == 8
