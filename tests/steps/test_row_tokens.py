"""`--row-tokens`: shorter conversations for a policy that is trained here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from meta_agent.composition.forecast import forecast
from meta_agent.composition.inputs import load_run_domain
from meta_agent.core.config import RunConfig
from meta_agent.core.protocols import SPLITS
from meta_agent.reports.terminal.forecast import forecast as drawing
from tests.training.test_memory import QWEN3_4B, write


def tasks_in(tmp_path: Path) -> dict[str, Any]:
    rows = [{"prompt": f"{n}?", "gold": str(n)} for n in range(40)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "g.py").write_text("def grade(task, answer):\n    return answer == task['gold']\n")
    return {"tasks": tmp_path / "t.jsonl", "grade": tmp_path / "g.py"}


def test_a_limit_on_rows_lowers_the_ceiling_of_the_set(tmp_path: Path) -> None:
    files = tasks_in(tmp_path)
    usual, short = (
        load_run_domain(RunConfig(policy="hf:x", row_tokens=limit, **files), sandbox="process")
        for limit in (None, 512)
    )
    assert short.ceilings == replace(usual.ceilings, max_context_tokens=512)
    assert short.evaluator_hash == usual.evaluator_hash
    assert [len(short.tasks(s)) for s in SPLITS] == [len(usual.tasks(s)) for s in SPLITS]


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
        row_tokens=512,
        train_steps=2,
        workspace=tmp_path / "w",
        **tasks_in(tmp_path),
    )
    planned = forecast(config)
    assert planned.work is not None and planned.work.attempts > 0
    assert planned.work.tokens == 512 * planned.work.attempts
    assert planned.to_json()["work"] == planned.work._asdict()
    capped = forecast(config.model_copy(update={"budget": 100}))
    assert capped.work is not None and capped.work.attempts == 100
    plan = capped.plan.to_json()
    Console(width=160).print(
        drawing(capped.config.to_json(), plan, capped.estimate, capped.placing, capped.work)
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "attempts at most 100, and those at vault tasks" in shown
    assert "hours not measured" in shown
