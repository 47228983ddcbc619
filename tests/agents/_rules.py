"""Real harness sources with pinned numbers, evidence, and the rule that answers it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from meta_agent.core.evidence import Evidence
from meta_agent.core.proposals import Situation
from meta_agent.core.protocols import Ceilings, HarnessTree
from meta_agent.core.resources import shipped_harness
from meta_agent.proposers import Proposal, propose

CEILINGS = Ceilings(max_turns=12, max_tokens_per_turn=8, max_context_tokens=128, wall_sec=30.0)


# The sources are real; the numbers in them are somebody else's to tune.
PINNED = (
    ("swe/agent.py", r"^MAX_TURNS = .*$", "MAX_TURNS = 8"),
    ("swe/agent.py", r"^OBSERVATION_CHARS = \d+", "OBSERVATION_CHARS = 16"),
    ("swe/agent.py", r"^MAX_TOKENS = \d+", "MAX_TOKENS = 6"),
    ("swe/agent.py", r"^TOOLS = \S+", 'TOOLS = "vets"'),
    ("swe/reward.py", r"^WEIGHTS = .*$", 'WEIGHTS = {"solved": 1.0, "submitted": 0.1}'),
    ("swe/recipe.toml", r"^learning_rate = .*$", "learning_rate = 5e-5"),
    ("swe/recipe.toml", r"^groups_per_step = .*$", "groups_per_step = 16"),
    ("swe/recipe.toml", r"^num_generations = .*$", "num_generations = 8"),
)


LEAKING = {"swe/agent.py": ('TOOLS = "vets"', 'TOOLS = "vetls"')}
BUSY = {
    "behaviour__stop.returned": 0.3,
    "signal__dead_group_ratio": 0.5,
    "signal__train.reward_mean.change": 0.0,
}


def tree(edits: Mapping[str, tuple[str, str]] | None = None) -> HarnessTree:
    """The shipped sources, with (old, new) replacements by path."""
    files = shipped_harness("nano/swe/seed")
    for path, pattern, line in PINNED:
        files[path] = re.sub(pattern, line, files[path].decode(), flags=re.MULTILINE).encode()
    for path, (old, new) in (edits or {}).items():
        text = files[path].decode()
        assert old in text
        files[path] = text.replace(old, new).encode()
    return HarnessTree("a" * 40, "t" * 40, files)


def evidence(**metrics: float) -> Evidence:
    """Evidence of a middling version, with `layer__name` metrics on top."""
    layers: dict[str, dict[str, float]] = {
        "score": {"success": 0.6, "clean_success": 0.6},
        "signal": {"dead_group_ratio": 0.1},
        "behaviour": {"view_before_edit": 1.0, "edit_then_test": 0.9, "stop.submitted": 1.0},
        "version": {},
        "measured": {},
    }
    for name, value in metrics.items():
        layer, _, rest = name.partition("__")
        layers[layer][rest.replace("__", ".")] = value
    return Evidence(**layers)


def find(
    rule: str, found: Evidence, harness: HarnessTree, situation: Situation | None = None
) -> Proposal | None:
    proposals = propose(found, harness, (), (), situation=situation)
    return next((p for p in proposals if p.hypothesis.rule == rule), None)


def namespace(text: str) -> dict[str, object]:
    """Runs an edited harness file (our own source and a rule's edit) to see what it does."""
    scope: dict[str, object] = {}
    exec(compile(text, "harness", "exec"), scope)  # noqa: S102
    return scope


def rollout(**fields: object) -> dict[str, object]:
    return {
        "outcome": False,
        "stop_reason": "submitted",
        "flags": [],
        "tool_events": [],
        "turns": 4,
        "messages": [],
    } | fields


def names(proposals: list[Proposal]) -> list[str]:
    return [proposal.hypothesis.rule for proposal in proposals]
