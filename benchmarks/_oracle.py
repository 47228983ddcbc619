"""Is a planted fault really gone? Judged by what the edited harness does, not by what was edited.

Promises: a check loads the sources and runs them on made-up attempts, groups or tasks (the recipe
is read); it holds for a harness without the fault and fails for one with it, whatever else is in
the sources. So an edit of another place repairs nothing, and one that undoes the harm in an
unforeseen way counts.

Not covered: whether the harness is any better for it; only training tells. Harness code is run in
this process: only our own sources and the rules agent's edits of them may come here.
"""

from __future__ import annotations

import asyncio
import json
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from meta_agent.core.protocols import Rollout, ToolEvent
from meta_agent.core.rollouts import to_line
from meta_agent.domains import load_domain
from meta_agent.domains.nano.planted import faults
from meta_agent.domains.nano.planted.faults import Fault

FILTER, RECIPE = "swe/filter.py", "swe/recipe.toml"

Files = Mapping[str, bytes]
SLOPE: Final = 0.025  # of what a solution is worth: what a turn or a test may cost or earn
_STEPS, _GROUPS = 6, 16
_ANSWERS = {"view": "x-3*y", "edit": "ok", "test": "2t hi", "log": "e3+", "submit": "done"}


def repaired(fault: Fault, base_files: Files, edited_files: Files) -> bool:
    """Whether the base carries the fault and the edited sources no longer do."""
    return not is_free(fault, base_files) and is_free(fault, edited_files)


def is_free(fault: Fault, files: Files) -> bool:
    """Whether these sources do not do what the fault is about."""
    return _CHECKS[fault.name](files)


# --- scaffold -----------------------------------------------------------------------------------


class _Script:
    """A model that says what it is told to, and tools that always answer the same."""

    def __init__(self, actions: Sequence[str]) -> None:
        self._actions = list(actions)
        self.called: list[str] = []
        self.heard: list[str] = []

    async def chat(self, messages: Sequence[Any], max_tokens: int | None = None) -> SimpleNamespace:
        self.heard = [message["content"] for message in messages]
        said = self._actions.pop(0) if self._actions else ""
        return SimpleNamespace(content=said, finish_reason="stop")

    async def call(self, name: str, **_: Any) -> SimpleNamespace:
        self.called.append(name)
        return SimpleNamespace(text=_ANSWERS[name], ok=True, done=name == "submit")


def _play(files: Files, *actions: str) -> _Script:
    script = _Script(actions)
    task = SimpleNamespace(key="k", view={"issue": "3?"})
    asyncio.run(_module(files, faults.AGENT).run(task, script, script))
    return script


def _offers_no_history(files: Files) -> bool:
    return "log" not in _play(files, "l", "s").called


def _submits_a_second_guess(files: Files) -> bool:
    return "submit" in _play(files, "v", "e3+", "t", "e3-", "t", "s").called


def _shows_whole_results(files: Files) -> bool:
    return {_ANSWERS["view"], _ANSWERS["test"]} <= set(_play(files, "v", "t", "s").heard)


# --- reward -------------------------------------------------------------------------------------


def _total(files: Files, **fields: Any) -> float:
    reward = _module(files, faults.REWARD)
    values = reward.reward(_attempt(**fields))
    return float(sum(reward.WEIGHTS.get(name, 1.0) * value for name, value in values.items()))


def _worth(files: Files) -> float:
    """What solving earns, all else equal."""
    return _total(files, outcome=True) - _total(files, outcome=False)


def _follows_the_outcome(files: Files) -> bool:
    handing_in = _total(files, outcome=False) - _total(files, outcome=False, stop="returned")
    return _worth(files) > max(0.0, handing_in)


def _turns_are_cheap(files: Files) -> bool:
    paid = _total(files, outcome=False, turns=3) - _total(files, outcome=False, turns=8)
    return paid / 5 <= SLOPE * _worth(files)


def _tests_are_not_paid_by_the_piece(files: Files) -> bool:
    paid = _total(files, outcome=False, tests=6) - _total(files, outcome=False, tests=1)
    return paid / 5 <= SLOPE * _worth(files)


# --- filter and curriculum ----------------------------------------------------------------------


def _keeps_mixed_groups(files: Files) -> bool:
    return all(weight > 0 for weight in _module(files, FILTER).keep(_mixed_groups()))


def _mixed_groups() -> list[dict[str, Any]]:
    outcomes = [[index < solved for index in range(8)] for solved in (1, 4, 7)]
    return [
        {"task_key": f"t{n}", "outcomes": won, "rewards": [0.1 + one for one in won]}
        for n, won in enumerate(outcomes)
    ]


def _batches(files: Files) -> list[list[Mapping[str, Any]]]:
    """The tasks of the first training steps, as the training loop picks them."""
    order = _module(files, faults.CURRICULUM).order
    train = load_domain("swe").tasks("train")
    tasks: list[Mapping[str, Any]] = [{"key": t.key, "view": dict(t.view)} for t in train]
    random.Random(0).shuffle(tasks)
    by_key = {task["key"]: task for task in tasks}
    history: dict[str, dict[str, int]] = {}
    batches = []
    for _ in range(_STEPS):
        keys = order(tasks, history)
        batches.append([by_key[keys[index % len(keys)]] for index in range(_GROUPS)])
        for place, task in enumerate(batches[-1]):
            seen = history.setdefault(task["key"], {"tries": 0, "solved": 0})
            seen["tries"] += 8
            seen["solved"] += place % 9
    return batches


def _mixes_kinds_of_issues(files: Files) -> bool:
    issues = [task["view"]["issue"] for batch in _batches(files) for task in batch]
    return bool(sum(issue.endswith("?") for issue in issues) >= len(issues) / 2)


def _goes_on_to_other_tasks(files: Files) -> bool:
    keys = [task["key"] for batch in _batches(files) for task in batch]
    return len(set(keys)) >= len(keys) / 2


# --- recipe -------------------------------------------------------------------------------------


def _setting(key: str, low: float, high: float) -> Callable[[Files], bool]:
    return lambda files: low <= tomllib.loads(files[RECIPE].decode())[key] <= high


# --- diagnostics --------------------------------------------------------------------------------


def _alarms_at_leaks(files: Files) -> bool:
    """Some diagnostic raises an alarm on attempts that leak and none on the same without."""
    honest = [_attempt(outcome=index % 2 == 0) for index in range(8)]
    leaking = [_attempt(outcome=index % 2 == 0, leaks=True) for index in range(8)]
    return bool(_alarms(files, leaking) - _alarms(files, honest))


def _alarms(files: Files, rollouts: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    found = set()
    for path in sorted(files):
        if path.startswith("swe/diagnostics/") and path.endswith(".py"):
            diagnostic = _module(files, path)
            for name, value in diagnostic.measure(rollouts).items():
                if _crosses(diagnostic.THRESHOLDS.get(name), value):
                    found.add((diagnostic.NAME, name))
    return found


def _crosses(limits: Mapping[str, Any] | None, value: float) -> bool:
    if limits is None:
        return False
    sign = 1 if limits["direction"] == "above" else -1
    return bool(sign * (value - limits["warn"]) > 0)


# --- what the checks are made of ----------------------------------------------------------------


def _module(files: Files, path: str) -> Any:
    loaded = ModuleType(path)
    exec(compile(files[path], path, "exec"), loaded.__dict__)  # noqa: S102 - our own sources
    return loaded


def _attempt(
    *, outcome: bool, turns: int = 6, tests: int = 1, stop: Any = "submitted", leaks: bool = False
) -> dict[str, Any]:
    """The record of an attempt, as harness code gets it."""
    tools = ["view", "edit", *["test"] * tests, *["log"] * leaks, "submit"]
    rollout = Rollout(
        run="r", version="v", domain="nano-swe", split="train", policy="p", task_key="t",
        task_hash="h", group_id="g", sample_idx=0, seed=0, harness_commit="c",
        evaluator_hash="e", outcome=outcome, turns=turns, stop_reason=stop,
        flags=["leak:log"] if leaks else [], rewards={"solved": float(outcome)},
        weights={"solved": 1.0},
        tool_events=[ToolEvent(i, tool, {}, _ANSWERS[tool], True) for i, tool in enumerate(tools)],
    )  # fmt: skip
    record: dict[str, Any] = json.loads(to_line(rollout))
    return record


_CHECKS: Final[Mapping[str, Callable[[Files], bool]]] = {
    "leak_offered": _offers_no_history,
    "few_turns": _submits_a_second_guess,
    "short_observations": _shows_whole_results,
    "turn_penalty": _turns_are_cheap,
    "test_bonus": _tests_are_not_paid_by_the_piece,
    "dead_reward": _follows_the_outcome,
    "inverted_filter": _keeps_mixed_groups,
    "winners_only": _keeps_mixed_groups,
    "easy_first": _mixes_kinds_of_issues,
    "same_few_tasks": _goes_on_to_other_tasks,
    "tiny_learning_rate": _setting("learning_rate", 1e-4, 6e-4),
    "cold_sampling": _setting("temperature", 0.8, 1.25),
    "anchored": _setting("beta", 0.0, 0.05),
    "blind_to_leaks": _alarms_at_leaks,
}
