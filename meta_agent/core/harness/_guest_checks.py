"""Guest module `harness_checks`: the contract tests of a harness. Stdlib only, runs in the sandbox.

One row a file: does it have the functions the contract names, with their parameters, and do they
return what the contract says on sample rollouts and tasks? Does not cover whether they are good.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable
from typing import Any

# Its source is installed first, under this name; there is no package of ours inside a sandbox.
code: Any = sys.modules["harness_code"]
Json = Any
HARNESS = code.HARNESS
GROUPS = (
    {"task_key": "a", "rewards": [0.0, 1.0], "outcomes": [False, True]},
    {"task_key": "b", "rewards": [0.0, 0.0], "outcomes": [False, False]},
    {"task_key": "c", "rewards": [1.0, 1.0], "outcomes": [True, True]},
)


def check(args: dict[str, Json], channel: object) -> Json:
    """Contract tests: `[name, ok, detail]` rows."""
    samples, tasks, roles = list(code.records(args)), args["tasks"], HARNESS.roles
    rows = [row(roles["agent"][0], check_agent)] if roles["agent"] else []
    tests: dict[str, Callable[[], None]] = {
        "reward": lambda: check_reward(samples),
        "filter": check_keep,
        "data": lambda: check_order(tasks),
    }
    rows += [row(roles[role], test) for role, test in tests.items() if role in roles]
    for path in roles["diagnostics"]:
        rows.append(row(path, lambda path=path: check_diagnostic(path, samples)))  # type: ignore[misc]
    return rows


def row(name: str, test: Callable[[], None]) -> list[Json]:
    """Runs one test; whatever it raises is the detail."""
    try:
        test()
    except Exception as error:
        return [name, False, f"{type(error).__name__}: {error}"[:500]]
    return [name, True, ""]


def check_agent() -> None:
    """The entry is a coroutine function of three parameters."""
    path, name = HARNESS.roles["agent"]
    function = HARNESS.agent()
    if not inspect.iscoroutinefunction(function):
        raise code.HarnessFault(f"{path}: {name} must be `async def`")
    takes(function, 3, f"{path}: {name}(task, model, tools)")


def takes(function: Callable[..., Any], count: int, form: str) -> None:
    """The function can be called with so many positional arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        raise code.HarnessFault(f"{form}: {error}") from error


def check_reward(samples: list[Json]) -> None:
    """Finite floats under names, the same when asked again in another order, and WEIGHTS."""
    function = HARNESS.function("reward", "reward")
    takes(function, 1, "reward(rollout)")
    first = [floats(function(copy(record)), "reward()") for record in samples]
    again = [function(copy(record)) for record in reversed(samples)][::-1]
    if first != again:
        raise code.HarnessFault("reward() gave other values when asked again")
    floats(getattr(HARNESS.role("reward"), "WEIGHTS", None), "WEIGHTS")


def check_keep() -> None:
    """A weight of at least 0 for each group."""
    function = HARNESS.function("filter", "keep")
    takes(function, 1, "keep(groups)")
    weights = list(function(copy(GROUPS)))
    if len(weights) != len(GROUPS):
        raise code.HarnessFault(f"keep() gave {len(weights)} weights for {len(GROUPS)} groups")
    for weight in weights:
        if number(weight, "keep()") < 0:
            raise code.HarnessFault(f"keep() gave the negative weight {weight!r}")


def check_order(tasks: list[Json]) -> None:
    """Keys of the tasks given, each at most once, at least one; with and without a history."""
    function = HARNESS.function("data", "order")
    takes(function, 2, "order(tasks, history)")
    task_keys = {task["key"] for task in tasks}
    tried = {task["key"]: {"tries": 8, "solved": 3} for task in tasks[:1]}
    for history in ({}, tried):
        keys = list(function(copy(tasks), history))
        if (task_keys and not keys) or len(set(keys)) != len(keys) or not set(keys) <= task_keys:
            complaint = f"{keys!r:.200} for tasks {sorted(task_keys)!r:.200}"
            raise code.HarnessFault(f"order() gave {complaint}")


def check_diagnostic(path: str, samples: list[Json]) -> None:
    """NAME, THRESHOLDS, and finite floats also where there are no rollouts."""
    module = HARNESS.module(path)
    if not isinstance(getattr(module, "NAME", None), str):
        raise code.HarnessFault(f"{path}: NAME must be a string")
    function = code.find_function(module, path, "measure")
    for rollouts in (samples, []):
        floats(function(copy(rollouts)), f"{path}: measure() of {len(rollouts)} rollouts")


def floats(values: Json, what: str) -> dict[str, float]:
    """A dict of finite numbers, or the fault."""
    if not isinstance(values, dict):
        raise code.HarnessFault(f"{what} must be a dict of floats, not {values!r:.200}")
    return {name: number(value, f"{what}[{name!r}]") for name, value in values.items()}


def number(value: Json, what: str) -> float:
    """A finite number, or the fault."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not math.isfinite(value):
        raise code.HarnessFault(f"{what} is {value!r:.200}, not a finite number")
    return float(value)


def copy(value: Json) -> Json:
    """What the function does to its argument must not reach the next call."""
    return json.loads(json.dumps(value))


OPERATIONS = {"harness.check": check}
