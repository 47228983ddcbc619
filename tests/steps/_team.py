"""A team that follows a script, on the bench's run: real sandboxes, git, quarantine, ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meta_agent.composition.root import extensions_of
from meta_agent.core.config import RunConfig
from meta_agent.core.loop.records import Collected
from meta_agent.core.loop.verbs.propose import propose
from meta_agent.core.protocols import JSON, Candidate
from tests.agents._models import Call, ScriptedModels, Turn
from tests.steps._bench import Bench

AGENT = "swe/agent.py"
QUOTE = {"path": AGENT, "line": 9, "quote": "MAX_TURNS = 8"}
APPROVE: list[Turn] = [[("decide", {"approve": True})]]


def idea(number: int = 0, **changes: Any) -> dict[str, JSON]:
    return {
        "factor": "scaffold",
        "statement": f"if attempts may take {9 + number} turns then more end because they are cut",
        "metric": "clean_success",
        "direction": "up",
        "expected_delta": 0.03,
        "evidence": [QUOTE],
        "plan": "raise MAX_TURNS",
        **changes,
    }


def submit(*ideas: dict[str, JSON]) -> list[Call]:
    return [("submit_hypotheses", {"hypotheses": list(ideas)})]


def edit(number: int = 0) -> list[Call]:
    change = {"path": AGENT, "old": "MAX_TURNS = 8", "new": f"MAX_TURNS = {9 + number}"}
    return [("edit", change)]


FINISH: list[Call] = [("finish", {"subject": "allow more turns"})]


def good(number: int = 0) -> list[Turn]:
    return [edit(number), FINISH]


def script(*authors: Sequence[Turn], **more: Sequence[Turn]) -> dict[str, Sequence[Turn]]:
    """One idea per author; everyone's reviewer approves unless `more` says otherwise."""
    turns: dict[str, Sequence[Turn]] = {
        "g0/analyst": [submit(*(idea(at) for at in range(len(authors))))]
    }
    for at, author in enumerate(authors):
        turns[f"g0/c{at}/proposer"] = author
        for look in ("", "2"):
            turns[f"g0/c{at}/reviewer{look}"] = APPROVE
    return {**turns, **more}


def with_team(bench: Bench, turns: Mapping[str, Sequence[Turn]], k: int = 3) -> ScriptedModels:
    """The bench's run with a scripted team as its meta-agent."""
    models = ScriptedModels(turns)
    bench.run.config = RunConfig(profile="tiny", meta_model="test/model", candidates=k)
    bench.run.models = models
    bench.run.extensions = extensions_of(bench.run.config, "r", models)
    return models


def proposed(bench: Bench, collected: Collected | None = None) -> list[Candidate]:
    return propose(bench.run, collected or bench.collected(), bench.reading, 0)


def refused(bench: Bench) -> list[dict[str, Any]]:
    (step,) = bench.run.ledger.steps(kind="proposal")
    found: list[dict[str, Any]] = step.outcome["refused"]
    return found
