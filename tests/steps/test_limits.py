"""`--limits`: the limits of an attempt that a user sets."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from meta_agent.composition.forecast import forecast
from meta_agent.composition.inputs import load_run_domain
from meta_agent.composition.preflight import require_needs
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.harness import Recipe
from meta_agent.core.protocols import SPLITS, HarnessTree
from meta_agent.reports.terminal.forecast import forecast as drawing
from tests.training.test_memory import QWEN3_4B, write


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
    "nano window": ("max_context_tokens=300", {}, "nano reads at most 256 tokens"),
    "no room": ("max_tokens_per_turn=128", {}, "leaves no room for its prompt"),
    "api window": (
        "max_context_tokens=900000",
        {"policy": "openai/gpt-4o"},
        "openai/gpt-4o reads at most 128,000 tokens",
    ),
    "local reasoning": ("reasoning=low", {}, "not for --policy nano"),
    "a model that does not think": (
        "reasoning=low",
        {"policy": "openai/gpt-4o"},
        "this model does not think",
    ),
    "litellm": ("reasoning=low", {"policy": "groq/m"}, "litellm would leave the effort out"),
    "an old model": (
        "reasoning=low",
        {"policy": "anthropic/claude-3-5-haiku-20241022"},
        "this model does not think",
    ),
    "too short to think": (
        "reasoning=low,max_tokens_per_turn=1500",
        {"policy": "anthropic/claude-opus-4-5"},
        "replies of at least 2,048 tokens, and the limit is 1,500",
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
    for limits, words in (
        ("max_turns=5", "the limit max_turns is 5, and the harness mine needs at least 6"),
        ("max_turns=6,seconds=9", "the limit seconds is 9"),
    ):
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
    with pytest.raises(ConfigError, match="the reward function of the harness mine asks a model"):
        require_needs(config, tree, domain)
    require_needs(RunConfig(models={"reward": "openai/m"}), tree, domain)


def test_a_plan_for_weights_of_ones_own_says_attempts_and_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
    (model / "config.json").write_text(
        json.dumps({**QWEN3_4B, **sizes, "num_hidden_layers": 2, "vocab_size": 512})
    )
    write(model / "a.safetensors", {"model.embed_tokens.weight": (512, 64)})
    config = RunConfig(
        policy=f"hf:{model}",
        limits="max_context_tokens=512,max_tokens_per_turn=64",
        train_steps=2,
        workspace=tmp_path / "w",
        **tasks_in(tmp_path),
    )
    planned = forecast(config)
    assert planned.work is not None and planned.work.attempts > 0
    assert planned.work.tokens == 512 * planned.work.attempts
    assert planned.to_json()["work"] == planned.work._asdict()
    rows = Recipe().rows_per_step
    assert planned.to_json()["step_attempts"] == [rows, rows], "its recipe refills nothing"
    capped = forecast(config.model_copy(update={"budget": 100}))
    assert capped.work is not None and capped.work.attempts == 100
    config, plan, placing = capped.config.to_json(), capped.plan.to_json(), capped.placing
    Console(width=160).print(
        drawing(
            config, plan, capped.estimate, placing.memory, placing.workers, capped.work, (64, 192)
        )
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "attempts at most 100, and those at vault tasks" in shown
    assert "attempts a step 64 to 192, as the recipe's refill_factor" in shown
