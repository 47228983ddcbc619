"""`--limits`: the limits of an attempt that a user sets."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from meta_agent.composition.forecast import forecast
from meta_agent.composition.inputs import load_run_domain
from meta_agent.composition.preflight import require_needs
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import SPLITS, HarnessTree


def tasks_in(tmp_path: Path) -> dict[str, Any]:
    rows = [{"prompt": f"{n}?", "gold": str(n)} for n in range(40)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "g.py").write_text("def grade(task, answer):\n    return answer == task['gold']\n")
    return {"tasks": tmp_path / "t.jsonl", "grade": tmp_path / "g.py"}


def test_limits_replace_the_ceilings_of_the_set_and_name_its_evaluator(tmp_path: Path) -> None:
    files = tasks_in(tmp_path)
    usual, limited = (
        load_run_domain(RunConfig(policy="hf:x", limits=limits, **files), sandbox="process")
        for limits in ({}, "max_turns=100,max_context_tokens=512,max_tokens_per_turn=64,seconds=9")
    )
    assert asdict(limited.ceilings) == {
        "max_turns": 100,
        "max_tokens_per_turn": 64,
        "max_context_tokens": 512,
        "wall_sec": 9.0,
    }
    assert limited.evaluator_hash != usual.evaluator_hash
    assert [len(limited.tasks(s)) for s in SPLITS] == [len(usual.tasks(s)) for s in SPLITS]


REFUSED = {
    "nano window": ("max_context_tokens=300", {}, "nano.* 256 "),
    "no room": ("max_tokens_per_turn=128", {}, "128"),
    "api window": ("max_context_tokens=900000", {"policy": "openai/gpt-4o"}, "128,000"),
    "local reasoning": ("reasoning=low", {}, "nano"),
    "a model that does not think": ("reasoning=low", {"policy": "openai/gpt-4o"}, "gpt-4o"),
    "litellm": ("reasoning=low", {"policy": "groq/m"}, "litellm"),
    "too short to think": (
        "reasoning=low,max_tokens_per_turn=1500",
        {"policy": "anthropic/claude-opus-4-5"},
        "2,048 .*1,500",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_limit_that_the_policy_cannot_work_with_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI", "ANTHROPIC", "GROQ"):
        monkeypatch.setenv(f"{name}_API_KEY", "x" * 20)
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    limits, settings, words = REFUSED[case]
    files = tasks_in(tmp_path) if "policy" in settings else {}
    config = RunConfig(workspace=tmp_path / "w", limits=limits, **settings, **files)
    with pytest.raises(ConfigError, match=words):
        forecast(config)
    assert not (tmp_path / "w").exists()


def test_a_limit_below_what_the_harness_needs_is_refused() -> None:
    contract = (
        '[harness]\nname = "mine"\ncommand = ["true"]\neditable = ["**"]\n'
        '[factors]\nscaffold = ["**"]\n[needs]\nmax_turns = 6\nseconds = 30\n'
    )
    tree = HarnessTree("c", "t", {"harness.toml": contract.encode()})
    for limits, words in (("max_turns=5", "max_turns.* 5.* 6"), ("max_turns=6,seconds=9", "9")):
        config = RunConfig(limits=limits)
        with pytest.raises(ConfigError, match=words):
            require_needs(config, tree, load_run_domain(config))
    config = RunConfig(limits="max_turns=6")
    require_needs(config, tree, load_run_domain(config))


def test_a_reward_that_asks_a_model_needs_one() -> None:
    contract = (
        '[harness]\nname = "mine"\ncommand = ["true"]\neditable = ["**"]\n'
        '[factors]\nreward = ["reward.py"]\n'
    )
    reward = "def judge(rollouts):\n    return [None for _ in rollouts]\n"
    files = {"harness.toml": contract.encode(), "reward.py": reward.encode()}
    config, tree = RunConfig(), HarnessTree("c", "t", files)
    domain = load_run_domain(config)
    with pytest.raises(ConfigError, match="mine"):
        require_needs(config, tree, domain)
    require_needs(RunConfig(models={"reward": "openai/m"}), tree, domain)
