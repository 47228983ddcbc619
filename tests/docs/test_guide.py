"""The skill for coding agents, carried out command by command in a repository that was empty.

What the skill leaves to the coding agent (a grader, tasks, the agent) is written here before the
step that needs it; the models are on a loopback server. Every key that the skill names is looked up
in the JSON of the command before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meta_agent.skills import SkillLibrary, export, validate
from tests.acceptance.brains import Configurer
from tests.docs._blocks import Shell, blocks
from tests.loopback import Call, Say, openai_server
from tests.loopback._speech import text_of

LIBRARY = Path(__file__).parents[2] / "skills_library"
SKILL = LIBRARY / "use-meta-agent"
_KEYS = re.compile(r"^JSON: (.+)$", re.MULTILINE)
AGENT = '''\
"""Answers one question by the model behind OPENAI_BASE_URL."""

import json
import os
import sys
import urllib.request
from pathlib import Path

system = Path(__file__).with_name("prompt.md").read_text()
said = [{"role": "system", "content": system}, {"role": "user", "content": sys.argv[1]}]
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "any", "messages": said}).encode(),
    {"Content-Type": "application/json"},
)
with urllib.request.urlopen(request) as reply:
    print(json.load(reply)["choices"][0]["message"]["content"])
'''
PROMPT, DEMAND = "You calculate. Be brief.\n", "Answer with the number alone. "
SUMS = [{"prompt": f"What is {n} plus {n + 7}?", "gold": str(2 * n + 7)} for n in range(24)]


def rollouts(shell: Shell) -> None:
    rows = [
        {"prompt": one["prompt"], "completion": f"Try {n}.", "reward": 0.0, "outcome": False}
        for one in SUMS[:6]
        for n in range(4)
    ]
    lines_to(shell.folder / "rollouts.jsonl", rows)


def grader(shell: Shell) -> None:
    text = 'def grade(task, answer):\n    return answer.strip() == task["gold"]\n'
    (shell.folder / "grader.py").write_text(text)
    lines_to(shell.folder / "tasks.jsonl", SUMS)


def agent(shell: Shell) -> None:
    for name, text in (("agent.py", AGENT), ("prompt.md", PROMPT)):
        (shell.folder / name).write_text(text)
    (shell.folder / ".gitignore").write_text("meta-agent-workspace/\n")
    shell("git add -A && git -c user.name=me -c user.email=me@here commit -qm 'an agent'")


def prices(shell: Shell) -> None:
    """What the skill says to do where a price is unknown."""
    with (shell.folder / "meta-agent-workspace/meta-agent.toml").open("a") as file:
        for name in ("policy", "team"):
            file.write(f'\n[prices."openai/{name}"]\ninput = 1.0\noutput = 2.0\n')


BEFORE: dict[str, Callable[[Shell], None]] = {
    "report --rollouts": rollouts,
    "tasks check": grader,
    "init --tasks": agent,
    "--dry-run": prices,
}


class Models:
    """A team that finds the demand, and a policy that says the sum alone only if it is told to."""

    def __init__(self) -> None:
        self.team = Configurer("prompt.md", "Be brief.", DEMAND)

    def __call__(self, call: Call) -> Say:
        if {"submit_hypotheses", "finish", "decide", "write_skill"} & {*call.tool_names}:
            return self.team(call)
        system, asked = (text_of(one["content"]) for one in call.messages)
        total = sum(map(int, re.findall(r"\d+", asked)))
        return Say(f"{total}" if DEMAND.strip() in system else f"It is {total}.")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_of_the_guide_runs_and_says_what_the_guide_reads(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    told: dict[str, Any] = {}
    with openai_server(Models(), serial=False) as url:
        roles = ("policy", "analyst", "proposer", "reviewer", "librarian")
        small = {"GENERATIONS": "1", "CANDIDATES": "1", "SAMPLES": "1", "SANDBOX": "process"}
        shell = Shell(
            folder,
            apart=True,
            POLICY="openai/policy",
            META_MODEL="openai/team",
            MAX_USD="5",
            META_AGENT_BASE_URLS=json.dumps(dict.fromkeys(roles, str(url))),
            META_AGENT_ALLOW_UNSAFE_PROCESS="1",
            **{f"META_AGENT_{name}": value for name, value in small.items()},
        )
        shell("git init -q -b main")
        for block in blocks(SKILL / "SKILL.md"):
            for part, write in BEFORE.items():
                if part in block.text:
                    write(shell)
            printed = shell(block.text)
            for keys in _KEYS.findall(block.after):
                document = json.loads(printed)
                told[block.text.partition(" -")[0].strip()] = document
                for key in re.findall(r"`([^`]+)`", keys):
                    assert found(document, key.split(".")), (block.text, key)
    done = told["meta-agent evolve"]
    assert done["handed_over"]["standing"] == "proven"
    assert told["meta-agent verify main"]["ok"] is True
    assert DEMAND in shell("git show meta-agent:prompt.md")
    assert (folder / "prompt.md").read_text() == PROMPT, "what the user had is as it was"


def test_the_json_of_every_command_of_the_guide_is_named() -> None:
    made = list(blocks(SKILL / "SKILL.md"))
    assert len(made) >= 15
    for block in made:
        assert (block.language, block.needs) == ("bash", frozenset())
        (command,) = block.text.strip().splitlines()
        assert ("--json" in command) == bool(_KEYS.search(block.after)), command
        assert "--json" in command or command.startswith("git "), command


def test_it_goes_where_coding_agents_look_and_no_run_is_shown_it(tmp_path: Path) -> None:
    assert validate(SKILL) == []
    shipped = SkillLibrary(tmp_path / "mine", shipped=LIBRARY)
    guide = shipped.skill("use-meta-agent")
    assert guide.kind == "guide"
    export(shipped, tmp_path, [])
    for client in (".agents", ".claude"):
        assert validate(tmp_path / client / "skills/use-meta-agent") == []
    assert guide.name not in {one.name for one in shipped.offered("swe")}
    shown = shipped.find("coding-agents", None, guide.description, limit=50)
    assert shown and guide.name not in {one.name for one in shown}


def found(document: Any, path: list[str]) -> bool:
    """Whether a document has this key; `rows[]`: at least one row, and each has it."""
    if not path:
        return True
    name, each = path[0].removesuffix("[]"), path[0].endswith("[]")
    if not isinstance(document, dict) or name not in document:
        return False
    inner = document[name]
    return (
        bool(inner) and all(found(one, path[1:]) for one in inner)
        if each
        else found(inner, path[1:])
    )


def lines_to(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
