"""A small harness and rollouts for the tests of backtests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import HarnessTree, Rollout, RolloutFailure
from meta_agent.sandboxes import open_sandbox

TOML = """
[harness]
name = "lab"
entry = "lab/agent.py:run"
editable = ["lab/**"]
protected = ["tests/**"]
[factors]
scaffold = ["lab/agent.py"]
reward = ["lab/reward.py"]
filter = ["lab/filter.py"]
data = ["lab/curriculum.py"]
recipe = ["lab/recipe.toml"]
diagnostics = ["lab/diagnostics/**"]
"""
HONEST = """
WEIGHTS = {"solved": 1.0}

def reward(rollout):
    return {"solved": float(bool(rollout["outcome"]))}
"""
PAYS_LEAKS = """
WEIGHTS = {"solved": 1.0, "speed": 0.5}

def reward(rollout):
    return {"solved": float(bool(rollout["outcome"])), "speed": 4.0 / (1 + rollout["turns"])}
"""
KEEP_ALL = """
def keep(groups):
    return [1.0] * len(groups)
"""
KEEP_LIVE = """
def keep(groups):
    return [float(max(g["rewards"]) - min(g["rewards"]) > 1e-6) for g in groups]
"""
FILES = {
    "harness.toml": TOML,
    "lab/agent.py": "async def run(task, model, tools):\n    await tools.call('submit')\n",
    "lab/reward.py": HONEST,
    "lab/filter.py": KEEP_ALL,
    "lab/curriculum.py": "def order(tasks, history):\n    return [t['key'] for t in tasks]\n",
    "lab/recipe.toml": "learning_rate = 1e-4\n",
    "tests/test_lab.py": "def test_ok():\n    pass\n",
}


def tree(commit: str = "base", **changes: str | bytes | None) -> HarnessTree:
    """The harness with files changed, e.g. `reward=...` or `**{"lab/x.py": ...}`; None removes."""
    files: dict[str, bytes] = {path: text.encode() for path, text in FILES.items()}
    for name, text in changes.items():
        path = name if "/" in name or "." in name else f"lab/{name}.py"
        if text is None:
            files.pop(path)
        else:
            files[path] = text.encode() if isinstance(text, str) else text
    return HarnessTree(commit, f"tree-{commit}", files)


@contextmanager
def session(harness: HarnessTree) -> Iterator[HarnessSession]:
    sandbox = open_sandbox("process", run="test-backtest")
    try:
        yield HarnessSession(sandbox, harness)
    finally:
        sandbox.close()


def rollout(group: int, sample: int, **changes: Any) -> Rollout:
    fields: dict[str, Any] = {
        **dict.fromkeys(("run", "version", "domain", "policy"), "x"),
        **{"split": "train", "task_key": f"t{group}", "task_hash": f"h{group}", "seed": 0},
        **{"group_id": f"g{group}", "sample_idx": sample, "harness_commit": "base"},
        **{"evaluator_hash": "ev", "outcome": False, "turns": 4, "stop_reason": "submitted"},
        "messages": [{"role": "user", "content": 'fix ,"rewards":{ "x": 1} please'}],
        "verifier_inputs": {"code": "x+1", "rewards": {"forged": 9.0}, "deep": [{"rewards": {}}]},
    }
    made = Rollout(**{**fields, **changes})
    made.rewards = made.rewards or {"solved": float(bool(made.outcome))}
    made.weights = made.weights or {"solved": 1.0}
    return made


def groups(kinds: str, size: int = 4) -> list[Rollout]:
    """One group a letter: `m`ixed, `f`ailed, `s`olved, `l`: one solved by a leak, in one turn."""
    return [
        _sample(kind, group, sample) for group, kind in enumerate(kinds) for sample in range(size)
    ]


def _sample(kind: str, group: int, sample: int) -> Rollout:
    leak = kind == "l" and sample == 1
    return rollout(
        group,
        sample,
        outcome=leak or kind == "s" or (kind in "ml" and sample % 2 == 0),
        turns=1 if leak else 4 + sample % 3,
        flags=["leak:log"] if leak else [],
    )


def broken(group: int = 0, sample: int = 9) -> Rollout:
    return rollout(group, sample, outcome=None, error=RolloutFailure("infra", "gone"))
