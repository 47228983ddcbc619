"""Settings and a fixed meta-agent for whole runs on a frozen policy.

It proposes one edit of the prompt that helps this policy and one that does not, and one of the
recipe, which cannot count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meta_agent.core.config import RunConfig
from meta_agent.core.protocols import Factor, HarnessTree, Hypothesis
from meta_agent.proposers import Proposal
from tests.steps._kit import HABIT

PROMPTS = "swe/prompts.py"
RULE = "- There is no network and no version history."


def proposal(tree: HarnessTree, factor: Factor, path: str, old: str, new: str) -> Proposal:
    text = tree.files[path].decode()
    assert old in text
    hypothesis = Hypothesis(factor, f"{new!r} helps", "clean_success", "up", 0.5, rule=new[-20:])
    edits = {path: text.replace(old, new)}
    return Proposal(hypothesis, f"feat({factor}): {new[-20:]}", edits, 1.0)


def proposals(_evidence: Any, tree: HarnessTree, *_: Any, **__: Any) -> list[Proposal]:
    if HABIT in tree.files[PROMPTS].decode():
        return []
    return [
        proposal(tree, "scaffold", PROMPTS, RULE, f"{RULE}\n- {HABIT}."),
        proposal(tree, "scaffold", PROMPTS, RULE, f"{RULE}\n- Be polite."),
        proposal(tree, "recipe", "swe/recipe.toml", "beta = 0.0", "beta = 0.1"),
    ]


def settings(workspace: Path, tasks: Path, url: str, **more: Any) -> RunConfig:
    facts: dict[str, Any] = {
        "workspace": workspace,
        "tasks": tasks,
        "policy": "openai/kit",
        "base_urls": {"policy": url},
        "sandbox": "process",
        "allow_unsafe_process": True,
        "generations": 1,
        "candidates": 3,
        "samples": 1,
        "concurrency": 2,
    }
    return RunConfig(**{**facts, **more})
