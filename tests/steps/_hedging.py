"""A diagnostic that counts attempts which hedge, and trainings whose attempts do."""

from __future__ import annotations

from collections.abc import Callable

from meta_agent.core.protocols import JSON, Rollout
from tests.steps._bench import Bench, rollout

FILE = "swe/diagnostics/hedging.py"
METRIC = "measured.hedging.share"
LIMIT = '{"share": {"warn": 0.5, "direction": "above"}}'
HUGE = '{"share": {"warn": 10 ** 400, "direction": "above"}}'
HEDGES = 'any("perhaps" in m["content"] for m in r["messages"])'
SOLVED = 'r["outcome"] is False or bool(r["flags"] or r["outcome_detail"] or r["rewards"])'


def source(counts: str = HEDGES, limits: str = LIMIT) -> str:
    return (
        '"""How many attempts hedge."""\nNAME = "hedging"\nLAYER = "behaviour"\n'
        f"THRESHOLDS = {limits}\n\n\ndef measure(rollouts):\n"
        f"    hits = sum({counts} for r in rollouts)\n"
        '    return {"share": hits / len(rollouts)} if rollouts else {}\n'
    )


def says(text: str) -> dict[str, JSON]:
    return {"messages": [{"role": "assistant", "content": text}]}


def trained_on(bench: Bench, reply: Callable[[bool, str], str], *, name: str = "more") -> None:
    """Stores groups of training attempts, half of them clean, as a training of this run."""
    rows: list[Rollout] = []
    for task in bench.lab.domain.tasks("train")[:60]:
        for sample in range(6):
            solved = sample % 2 == 0
            graded: dict[str, JSON] = {"outcome_detail": {"equal": solved}, "rewards": {"r": 1.0}}
            text = says(reply(solved, task.key))
            rows.append(rollout(task, solved=solved, sample_idx=sample, **graded, **text))
    shard = bench.lab.store.write(f"train-{name}", rows)
    record = {"shard": {"name": shard.name, "sha256": shard.sha256}}
    bench.run.ledger.once(f"r/train/{name}", "train", {}, lambda: record)


def hedges_when_wrong(solved: bool, _: str) -> str:
    return "it is 3" if solved else "perhaps 3"
