"""What tests of a suite's harness share: its files as modules, and one finished attempt."""

from __future__ import annotations

import types
from typing import Any, Final

from meta_agent.domains.nano.planted import code_faults, faults, math_faults
from meta_agent.domains.nano.sources import Variant, sources

VARIANTS: tuple[Variant, ...] = ("seed", "competent")
TABLES: Final = {"swe": faults, "math": math_faults, "code": code_faults}
_FINISHED: Final[dict[str, Any]] = {
    "task_key": "a",
    "group_id": "a",
    "outcome": True,
    "rewards": {"solved": 1.0},
    "weights": {"solved": 1.0},
    "stop_reason": "submitted",
    "flags": [],
    "error": None,
    "tokens": {"logprobs": [-0.5, 0.0], "mask": [1, 0]},
}


def call(tool: str, result: str = "ok", **arguments: str) -> dict[str, Any]:
    return {"turn": 0, "tool": tool, "arguments": arguments, "result": result, "ok": True}


def _attempt(said: list[tuple[str, str]], *events: dict[str, Any], turns: int) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in said]
    return {**_FINISHED, "messages": messages, "tool_events": list(events), "turns": turns}


ATTEMPTS: Final = {
    "swe": _attempt(
        [("tool", "2t")],
        call("edit") | {"turn": 1},
        call("test", "2t lo") | {"turn": 2},
        call("edit") | {"turn": 3},
        turns=4,
    ),
    "math": _attempt(
        [("user", "sw 9+6*3-4"), ("assistant", "9+6=15*3=45-4=41#41")],
        call("submit", "done", answer="41"),
        turns=1,
    ),
    "code": _attempt(
        [("user", "wrs f 2>4,3>6"), ("assistant", "=x*2"), ("tool", "ok")],
        call("write", code="=x*2"),
        call("run"),
        call("submit", "done"),
        turns=3,
    ),
}
"""A finished attempt of each suite."""


def module(files: dict[str, bytes], path: str) -> Any:
    loaded = types.ModuleType(path)
    exec(compile(files[path], path, "exec"), loaded.__dict__)  # noqa: S102
    return loaded


def planted(suite: str, name: str, variant: Variant = "competent") -> dict[str, bytes]:
    fault = next(fault for fault in TABLES[suite].FAULTS if fault.name == name)
    return fault.apply(sources(suite, variant))


def measured(suite: str, diagnostic: str, rollouts: list[dict[str, Any]]) -> dict[str, float]:
    path = f"{suite}/diagnostics/{diagnostic}.py"
    found: dict[str, float] = module(sources(suite, "seed"), path).measure(rollouts)
    return found
