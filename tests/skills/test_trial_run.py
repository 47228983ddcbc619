"""Trials seen to their end: real runs with a skill and without, at equal budget, paired by seed.

The meta-agent is a scripted model. It looks at the list of its evidence, and where a skill stands
there, it reads it and puts the sentence that the skill quotes into the system prompt. Without one
it follows an idea of its own. The policy solves most tasks if it is told to give the number alone.
So what a skill says decides what a run comes to; the runs, the gate and the standing are ours.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from meta_agent.skills import SkillLibrary
from meta_agent.skills.worth import trials
from tests.acceptance.brains._team import Said, Step, Team, lines
from tests.cli._command import Runner
from tests.cli._command import meta_agent as meta_agent
from tests.loopback import Call, Say, openai_server
from tests.loopback._speech import text_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PROMPTS, BEFORE = "agent/prompts.py", "- Look things up instead of guessing"
HELPS = "Answer with the number alone."
NOTHING = "Take your time."
GRADER = 'def grade(task, answer):\n    return answer.strip() == task["gold"]\n'
SKILL = """---
name: {name}
description: "How answers should look. Use when answers are not taken."
metadata:
  meta-agent.kind: "positive"
  meta-agent.status: "{status}"
  meta-agent.domain: "graded"
---

# How answers should look

Add this sentence to the system prompt: `{sentence}`
"""


class Reader(Team):
    """Takes the sentence of the skill that it is shown, else its own."""

    def __init__(self, own: str) -> None:
        self.own = own

    def analyst(self, call: Call, done: list[Step]) -> Said:
        reads = ["evidence/README.md", "evidence/rollouts/index.csv", PROMPTS]
        if len(done) < len(reads):
            return "read_file", {"path": reads[len(done)]}
        shown = re.search(r"- ([\w-]+) \((?:positive|negative), \w+\):", done[0].result)
        if shown and len(done) == len(reads):
            return "read_file", {"path": f"evidence/skills/{shown[1]}/SKILL.md"}
        taught = re.search(r"system prompt: `([^`]+)`", done[-1].result) if shown else None
        number, text = next(row for row in lines(done[1].result) if row[0] == 2)
        hypothesis = {
            "factor": "scaffold",
            "statement": f"If the prompt says '{taught[1] if taught else self.own}', then more "
            "attempts solve their task, because answers are taken.",
            "metric": "clean_success",
            "direction": "up",
            "expected_delta": 0.3,
            "evidence": [{"path": "evidence/rollouts/index.csv", "line": number, "quote": text}],
            "plan": f"One more sentence in {PROMPTS}.",
        }
        return "submit_hypotheses", {"hypotheses": [hypothesis]}

    def proposer(self, call: Call, done: list[Step]) -> Said:
        told = re.search(r"the prompt says '([^']+)'", text_of(call.messages[1]["content"]))
        assert told is not None
        edit = {"path": PROMPTS, "old": BEFORE, "new": f"- {told[1]}\n{BEFORE}"}
        work: list[Said] = [
            ("view", {"path": PROMPTS}),
            ("edit", edit),
            ("run_contract_tests", {}),
            ("commit", {"message": "feat: another sentence"}),
            ("finish", {"subject": "say how answers should look"}),
        ]
        return work[len(done)]


def brain(own: str) -> Any:
    team = Reader(own)

    def say(call: Call) -> Say:
        if {"submit_hypotheses", "finish", "decide", "write_skill"} & {*call.tool_names}:
            return team(call)
        system, asked = (text_of(one["content"]) for one in call.messages[:2])
        numbers = [int(one) for one in re.findall(r"\d+", asked)]
        right = HELPS in system and numbers[0] % 8 != 7  # one sum in eight is too hard
        return Say(f"{sum(numbers)}" if right else f"It is {sum(numbers)}.")

    return say


def test_a_trial_promotes_a_skill_that_helps(tmp_path: Path, meta_agent: Runner) -> None:
    folder = tmp_path / "library/how-answers-look"
    folder.mkdir(parents=True)
    text = SKILL.format(name=folder.name, status="quarantine", sentence=HELPS)
    (folder / "SKILL.md").write_text(text)
    (tmp_path / "grader.py").write_text(GRADER)
    rows = [{"prompt": f"What is {n} plus {n + 7}?", "gold": str(2 * n + 7)} for n in range(40)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with openai_server(brain(NOTHING), serial=False) as url:
        asked = (
            *("trial", folder.name, "--seeds", "3", "--library", "library"),
            *("--tasks", "tasks.jsonl", "--grade", "grader.py", "--policy", "openai/policy"),
            *("--meta-model", "openai/team", "--base-url", str(url), "--max-tokens", "9000000"),
            *("--generations", "1", "--candidates", "1", "--samples", "1"),
            *("--sandbox", "process", "--allow-unsafe-process", "--json"),
        )
        told = meta_agent(*asked, cwd=tmp_path).document
    assert (told["before"], told["standing"]) == ("quarantine", "domain")
    library = SkillLibrary(tmp_path / "library")
    skill = library.skill(folder.name)
    (kept,) = trials(library.path)
    assert skill.status == "domain" and skill.get("worth") == kept.words
    assert f"`{HELPS}`" in skill.body
    assert kept.pairs == 3 and kept.low > 0, kept
    proven = {side: [one is not None for one in runs] for side, runs in kept.first_proof.items()}
    helped = {"with": [True] * 3, "without": [False] * 3}
    assert proven == helped, "what was said to help was proven, the other was not"
    runs = sorted((tmp_path / "skill-trials").glob("*/*-s*/ledger.sqlite"))
    assert len(runs) == 6, "each run has a workspace of its own"
