"""Guest module `harness_checks`: the contract tests of a harness. Stdlib only, runs in the sandbox.

Each test returns a row for one file. It checks that the functions of the contract exist, take their
parameters, and return valid values on sample rollouts and tasks. It does not judge their quality.
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
    """Tests the loaded harness on samples; returns `[path, ok, error]` for each of its files."""
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
    """Runs a test; returns `[name, ok, detail]`, where detail is the error that it raised or ""."""
    try:
        test()
    except Exception as error:
        return [name, False, f"{type(error).__name__}: {error}"[:500]]
    return [name, True, ""]


def check_agent() -> None:
    """Raises HarnessFault unless the agent's entry is a coroutine function of three parameters."""
    path, name = HARNESS.roles["agent"]
    function = HARNESS.agent()
    if not inspect.iscoroutinefunction(function):
        raise code.HarnessFault(f"{path}: declare {name} with `async def`")
    takes(function, 3, f"{path}: {name}(task, model, tools)")


def takes(function: Callable[..., Any], count: int, form: str) -> None:
    """Raises HarnessFault, which quotes `form`, if `function` does not take `count` arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        raise code.HarnessFault(f"{form}: {error}") from error


def check_reward(samples: list[Json]) -> None:
    """Raises HarnessFault unless reward() returns the same floats twice and WEIGHTS is valid."""
    function = HARNESS.function("reward", "reward")
    takes(function, 1, "reward(rollout)")
    first = [floats(function(copy(record)), "reward()") for record in samples]
    again = [function(copy(record)) for record in reversed(samples)][::-1]
    if first != again:
        raise code.HarnessFault(
            "reward() returned different values when it was called twice with the same rollouts"
        )
    check_groups(samples)
    floats(getattr(HARNESS.role("reward"), "WEIGHTS", None), "WEIGHTS")


def check_groups(samples: list[Json]) -> None:
    """Raises HarnessFault if an optional reward_group() or judge() returns a wrong value."""
    for judged in (None, "7"):
        rows = [{**record, "judged": judged, "group_id": "g"} for record in samples]
        if code.optional("reward_group"):
            parts = code.by_group(copy(rows), "reward_group")
            names = {tuple(sorted(floats(part, "reward_group()"))) for part in parts}
            if len(names) > 1:
                raise code.HarnessFault(
                    f"reward_group() must name the same parts for every rollout, not {names!r:.200}"
                )
    if code.optional("judge"):
        for text in code.by_group(copy(samples), "judge"):
            if text is not None and not isinstance(text, str):
                raise code.HarnessFault(f"judge() returned {text!r:.80}; return a string or None")


def check_keep() -> None:
    """Raises HarnessFault unless the filter's keep() gives each group a weight of 0 or more."""
    function = HARNESS.function("filter", "keep")
    if HARNESS.filter_state is None:
        takes(function, 1, "keep(groups)")
        weights = list(function(copy(GROUPS)))
    else:
        takes(function, 2, "keep(groups, state)")
        weights, state = code.stateful(function, copy(GROUPS), HARNESS.filter_state)
        code.stateful(function, copy(GROUPS), state)
    if len(weights) != len(GROUPS):
        raise code.HarnessFault(
            f"keep() returned {len(weights)} weights for {len(GROUPS)} groups; return one each"
        )
    for weight in weights:
        if number(weight, "keep()") < 0:
            raise code.HarnessFault(f"keep() gave the negative weight {weight!r}; 0 drops a group")


def check_order(tasks: list[Json]) -> None:
    """Raises HarnessFault unless order(), the curriculum, returns keys of the tasks, none twice."""
    function = HARNESS.function("data", "order")
    takes(function, 2, "order(tasks, history)")
    task_keys = {task["key"] for task in tasks}
    tried = {task["key"]: {"tries": 8, "solved": 3} for task in tasks[:1]}
    for history in ({}, tried):
        keys = list(function(copy(tasks), history))
        if (task_keys and not keys) or len(set(keys)) != len(keys) or not set(keys) <= task_keys:
            complaint = f"{keys!r:.200} for tasks {sorted(task_keys)!r:.200}"
            raise code.HarnessFault(f"order() must return given keys, each once, not {complaint}")


def check_diagnostic(path: str, samples: list[Json]) -> None:
    """Raises HarnessFault unless the diagnostic (metric) in `path` has a NAME and gives floats."""
    module = HARNESS.module(path)
    if not isinstance(getattr(module, "NAME", None), str):
        raise code.HarnessFault(f"{path}: NAME must be a string")
    function = code.find_function(module, path, "measure")
    for rollouts in (samples, []):
        floats(function(copy(rollouts)), f"{path}: measure() of {len(rollouts)} rollouts")


def floats(values: Json, what: str) -> dict[str, float]:
    """Returns `values`, a dict of finite floats. Raises HarnessFault, naming `what`, for others."""
    if not isinstance(values, dict):
        raise code.HarnessFault(f"{what} must be a dict of floats, not {values!r:.200}")
    return {name: number(value, f"{what}[{name!r}]") for name, value in values.items()}


def number(value: Json, what: str) -> float:
    """Returns `value` as a float; raises HarnessFault, naming `what`, unless it is finite."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not math.isfinite(value):
        raise code.HarnessFault(f"{what} is {value!r:.200}, not a finite number")
    return float(value)


def copy(value: Json) -> Json:
    """Returns a deep copy of a JSON value, so that harness code cannot change the original."""
    return json.loads(json.dumps(value))


OPERATIONS = {"harness.check": check}
