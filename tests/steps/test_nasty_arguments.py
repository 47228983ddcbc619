"""Whatever a model puts into a tool's arguments: an answer, a result, or a typed ending."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from meta_agent.core.errors import CandidateError
from meta_agent.core.loop.verbs._briefing import brief_for
from meta_agent.core.loop.verbs._host import Host
from meta_agent.core.protocols import Hypothesis
from meta_agent.proposers.team._analyst import Idea, analyst_dialogue
from meta_agent.proposers.team._author import Author
from meta_agent.proposers.team._case import AuthorCase
from meta_agent.proposers.team._dialogue import Line
from meta_agent.proposers.team._librarian import _write
from meta_agent.proposers.team._limits import LIMITS
from meta_agent.proposers.team._reviewer import Review, _decide
from meta_agent.proposers.team._tools import Done, Tool, ToolError
from meta_agent.proposers.workbench import open_workbench
from tests.agents._models import ScriptedModels
from tests.steps._bench import Bench
from tests.steps._team import AGENT, QUOTE, idea

TEXTS = [
    "",
    " ",
    "\n",
    "a" * 5000,
    "é\u202e",
    "|",
    "a|b",
    "*",
    "-rf",
    "$(x)",
    "{{ x }}",
    "%s",
    "\0",
]
PATHS = [
    "..",
    "/",
    "/etc/passwd",
    "swe",
    "swe/../../x",
    "swe/\0x",
    ".git/config",
    f"{AGENT}/x",
    "~",
]
SHELVES = ["evidence/", "evidence/../x", "evidence/report.md", "новый.py"]
OTHERS = [None, True, 0, -1, 1.5, 1e308, 10**400, [], [1], {}, {"a": 1}, [["x"]], [None]]
NASTY = [*TEXTS, *PATHS, *SHELVES, *OTHERS]
FINE: Mapping[str, Any] = {
    "path": AGENT, "command": "true", "text": "x", "message": "feat: x", "subject": "x",
    "old": "MAX_TURNS = 8", "new": "MAX_TURNS = 9", "content": "", "description": "d",
    "lesson": "l", "approve": True,
}  # fmt: skip


@pytest.fixture
def tools(bench: Bench) -> Iterator[list[Tool]]:
    collected = bench.collected()
    host = Host(bench.run, collected, 0)
    case = AuthorCase(brief_for(bench.run, collected, bench.reading, 0, host, None))
    line = Line(ScriptedModels({}), "analyst", "m", LIMITS["analyst"], "r", "c")
    told = Hypothesis("scaffold", "s", "clean_success", "up", 0.1)
    with open_workbench(host, 0, case.evidence) as clone:
        author = Author(case, Idea(told, "p"), clone, line.fence, lambda *_: Review(True))
        reading = analyst_dialogue(case, line).tools
        yield [*author.tools(), *reading, _decide(), _write()]


def variants(tool: Tool) -> Iterator[Mapping[str, Any]]:
    """Fine arguments with one of them made nasty."""
    names = cast(Mapping[str, Any], tool.spec.parameters["properties"])
    fine = {name: FINE[name] for name in names if name in FINE}
    yield from ({**fine, name: value} for name in names for value in NASTY)
    if tool.spec.name == "submit_hypotheses":
        rows = [{**idea(), name: value} for name in idea() for value in NASTY]
        rows += [idea(evidence=[{**QUOTE, name: v}]) for name in QUOTE for v in NASTY]
        yield from ({"hypotheses": [row]} for row in rows)


def test_no_argument_ends_in_anything_else(tools: list[Tool]) -> None:
    for tool in tools:
        for arguments in variants(tool):
            with contextlib.suppress(ToolError, Done, CandidateError):
                assert isinstance(tool.run(arguments), str)
