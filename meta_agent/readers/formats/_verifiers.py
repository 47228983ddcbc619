"""verifiers and prime-rl results: one attempt a line with `example_id`, `prompt`, `completion`.

`metrics` become reward components of weight 0 beside the `reward`, since a rubric's weights are not
in the file. `is_truncated` and `stop_condition` say how it ended; `error` is a failure of the
environment or the provider. The token row is read from `trajectory` where it was saved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from meta_agent.core.protocols import JSON, Rollout, RolloutFailure, StopReason
from meta_agent.readers.formats._draft import Draft, absent, cost_of
from meta_agent.readers.formats._files import known, split_prompt, write_lines
from meta_agent.readers.formats._format import Count, has
from meta_agent.readers.formats._messages import (
    numbers_of,
    parse_completion,
    parse_messages,
    told_by,
    turns_of,
)
from meta_agent.readers.formats._row import Row, RowError
from meta_agent.readers.formats._tokens import CallTokens, call_tokens, joined

NAME = "prime-rl"
RESULTS: Final = "results.jsonl"
METADATA: Final = "metadata.json"  # of the evaluation, in the same folder
ATTACHED: Final = "run_metadata"
CANNOT_CARRY = frozenset(
    {"run", "version", "harness_commit", "task_hash", "evaluator_hash", "split", "seed"}
    | {"outcome", "outcome_detail", "verifier_inputs", "flags", "timings", "cost", "tokens"}
    | {"weights", "group_id", "sample_idx", "error", "tool_events", "domain"}
)
_STOPS: Final[dict[str, StopReason]] = {
    "max_turns_reached": "turn_limit",
    "prompt_too_long": "token_limit",
    "max_total_completion_tokens_reached": "token_limit",
    "timeout_reached": "wall_limit",
    "has_error": "error",
}
_TIMES: Final = ("generation_ms", "scoring_ms", "total_ms")


def claims(value: JSON) -> int:
    if has(value, "example_id", "prompt", "completion"):
        return 3
    return 2 if has(value, "id", "prompt", "completion", "task", "reward") else 0


def read(row: Row, count: Count) -> Draft:
    error = _error(row.get("error"))
    row.skip("error_chain", "long_error_chain")  # the same again
    told, said = row.get("prompt"), row.get("completion")
    if error:  # an attempt that failed early has neither, and is an attempt
        told, said = told or [], said or []
    prompt = parse_messages(told, "prompt", count)
    completion = parse_completion(said, "completion", count)
    example = row.label("example_id", "id")
    if example is None:
        raise RowError("field example_id: expected a number or a string")
    run = row.object(ATTACHED)
    task, reward = _environment(row, run), row.number("reward")
    timings = _timings(row)
    metrics, usage = _metrics(row, count), row.object("token_usage")
    sides = (usage.number(f"{side}_tokens") or None for side in ("input", "output"))
    row.items("tool_defs"), row.items("oai_tools"), row.items("tools")
    events, tool_ok = told_by(completion)
    return Draft(
        prompt=prompt,
        messages=[*prompt, *completion],
        tool_events=events,
        tool_ok=tool_ok,
        turns=turns_of(completion),
        task_key=f"{task}/{example}" if task else example,
        group=_group(row, task, example),
        policy=row.text("model") or _said(run, "model"),
        domain=task or "",
        rewards=({"reward": reward} if reward is not None else {}) | metrics or None,
        weights=dict.fromkeys(metrics, 0.0) if reward is not None else {},
        advantage=row.number("advantage"),
        stop_reason=_stop(row, error),
        error=error,
        verifier_inputs=_kept(row),
        tokens=joined(_calls(row.items("trajectory") or [])),
        timings=timings,
        cost=cost_of(None, *sides),
    )


def _metrics(row: Row, count: Count) -> dict[str, float]:
    """What the rubric measured: an object that is repeated flat; rows with an `id` have it flat."""
    named = row.object("metrics")
    found = numbers_of(named, count)
    if not named and "example_id" not in row.values:
        flat = {name: v for name, v in row.values.items() if name not in row.used}
        found = {name: v for name, v in flat.items() if type(v) is float}
    row.used.update(found)
    return found


def _environment(row: Row, run: Row) -> str | None:
    """Examples are numbered in each environment of a training: it belongs to their names."""
    said = [row.get(name) for name in ("task", "env_id", "env_name")]
    named = next((value for value in said if isinstance(value, str) and value), None)
    return named if named not in (None, "default") else _said(run, "env_id") or named


def _said(run: Row, name: str) -> str | None:
    value = run.get(name)
    return value if isinstance(value, str) and value else None


def _group(row: Row, task: str | None, example: str) -> str | None:
    """Attempts at one example are a group; at another step of a training they are another."""
    step = row.integer("step")
    name = f"{task}/{example}" if task else example
    return None if step is None else f"{name}@{step}"


def _error(value: JSON) -> RolloutFailure | None:
    if not value:
        return None
    if has(value, "error", "error_chain_str"):
        value = f"{value['error']}: {value['error_chain_str']}"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return RolloutFailure("infra", text[:2000])


def _stop(row: Row, error: RolloutFailure | None) -> StopReason | None:
    condition, truncated = row.text("stop_condition", "stop_reason"), row.flag("is_truncated")
    row.flag("is_completed")
    if error is not None:
        return "error"
    if condition in _STOPS:
        return _STOPS[condition]
    if truncated:
        return "length"
    return None if condition is None and truncated is None else "returned"


def _kept(row: Row) -> dict[str, JSON]:
    return {name: v for name in ("answer", "info") if (v := row.get(name)) not in (None, {}, "")}


def _timings(row: Row) -> dict[str, float]:
    given = row.object("timing") or row
    found = {name.removesuffix("_ms"): given.number(name) for name in _TIMES}
    return {name: ms / 1000 for name, ms in found.items() if ms is not None}


def _calls(steps: Iterable[JSON]) -> Iterator[CallTokens]:
    for step in steps:
        tokens = step.get("tokens") if isinstance(step, dict) else None
        if isinstance(tokens, dict):
            names = ("prompt_ids", "completion_ids", "completion_logprobs")
            if call := call_tokens(*(tokens.get(name) for name in names)):
                yield call


def write(rollouts: Iterable[Rollout], path: Path) -> int:
    return write_lines(map(_record, rollouts), path)


def _record(rollout: Rollout) -> dict[str, JSON]:
    prompt, completion = split_prompt(rollout)
    task, slash, example = rollout.task_key.rpartition("/")
    words = {reason: word for word, reason in _STOPS.items()}
    stop = None if "stop_reason" in absent(rollout) else rollout.stop_reason
    metrics = {name: v for name, v in rollout.rewards.items() if name != "reward"}
    return {
        "example_id": example if slash else rollout.task_key,
        **known(task=task, model=rollout.policy, metrics=metrics),
        "prompt": prompt,
        "completion": completion,
        **({"reward": rollout.total_reward} if rollout.rewards else {}),
        **({} if rollout.advantage is None else {"advantage": rollout.advantage}),
        **({} if stop is None else {"stop_condition": words.get(stop, stop)}),
        **({} if stop is None else {"is_truncated": stop == "length"}),
    }
