"""Rollouts that trainers log: verifiers and prime-rl, TRL, verl."""

from __future__ import annotations

import json
from typing import Final

from meta_agent.core.protocols import JSON, RolloutFailure, StopReason
from meta_agent.readers.formats._draft import AttemptDraft, digest
from meta_agent.readers.formats._format import (
    ERROR_CHARS,
    AttachedFile,
    Format,
    Keys,
    having,
    identity_by,
)
from meta_agent.readers.formats._messages import LeaveOut, parse_exchange
from meta_agent.readers.formats._row import SourceRow, finite, has
from meta_agent.readers.formats._tokens import calls_of, joined

# --- verifiers and prime-rl -----------------------------------------------------------------------
# One attempt a line. `metrics` become reward components of weight 0 beside the `reward`, since a
# rubric's weights are not in the file. `is_truncated` and `stop_condition` say how it ended;
# `error` is a failure of the environment or the provider. Tokens are read from `trajectory`.

_RUN: Final = "run_metadata"
_VERIFIERS: Final = Keys(
    task="example_id",
    reward="reward",
    metrics="metrics",
    advantage="advantage",
    needs="example_id",
    tokens="token_usage.input_tokens token_usage.output_tokens",
    inputs="answer info",
    skip="error_chain long_error_chain tool_defs oai_tools tools is_completed token_usage",
)
_TIMES: Final = ("generation_ms", "scoring_ms", "total_ms")


def _read_verifiers(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    draft = _VERIFIERS.draft(row, count)
    if failure := row.get("error"):
        if has(failure, "error", "error_chain_str"):
            failure = f"{failure['error']}: {failure['error_chain_str']}"
        text = failure if isinstance(failure, str) else json.dumps(failure, default=str)
        draft.error = RolloutFailure("infra", text[:ERROR_CHARS])
    prompt, completion = row.get("prompt"), row.get("completion")
    if draft.error:  # an attempt that failed early has neither, and is an attempt
        prompt, completion = prompt or [], completion or []
    draft.messages, draft.tool_events, draft.turns = [], [], 0
    draft.converse(*parse_exchange(prompt, completion, count))
    run = row.object(_RUN)
    _name_task(draft, row, run)
    draft.policy = row.text("model") or _stated(run, "model")
    timing = row.object("timing") or row
    times = {name.removesuffix("_ms"): timing.number(name) for name in _TIMES}
    draft.timings = {name: ms / 1000 for name, ms in times.items() if ms is not None}
    draft.stop_reason = _stop(row, draft.error)
    steps = row.items("trajectory") or []
    names = ("prompt_ids", "completion_ids", "completion_logprobs")
    draft.tokens = joined(calls_of((s.get("tokens") for s in steps if isinstance(s, dict)), names))
    return draft


def _name_task(draft: AttemptDraft, row: SourceRow, run: SourceRow) -> None:
    """Sets a draft's task name, which includes the environment: examples are numbered in each.

    If nothing names the environment, the prompt is part of the name. Attempts at one example in one
    training step form a group.
    """
    task = _stated(row, "task")
    environment = _stated(row, "env_id") or _stated(row, "env_name") or _stated(run, "env_id")
    names = [name for name in (environment, task) if name and name != "default"]
    if not names and draft.prompt:
        names = [f"prompt-{digest(list(draft.prompt))[:12]}"]
    draft.domain = environment or task or ""
    draft.task_key = "/".join([*dict.fromkeys(names), str(draft.task_key)])
    step = row.integer("step")
    draft.group = None if step is None else f"{draft.task_key}@{step}"


def _stated(run: SourceRow, name: str) -> str | None:
    value = run.get(name)
    return value if isinstance(value, str) and value else None


_STOPS: Final[dict[str, StopReason]] = {
    "max_turns_reached": "turn_limit",
    "prompt_too_long": "token_limit",
    "max_total_completion_tokens_reached": "token_limit",
    "timeout_reached": "wall_limit",
    "has_error": "error",
}


def _stop(row: SourceRow, error: RolloutFailure | None) -> StopReason | None:
    condition, truncated = row.text("stop_condition", "stop_reason"), row.flag("is_truncated")
    if error is not None:
        return "error"
    if condition in _STOPS:
        return _STOPS[condition]
    if truncated:
        return "length"
    return None if condition is None and truncated is None else "returned"


VERIFIERS: Final = Format(
    "prime-rl",
    "prime-rl and verifiers results, JSON lines",
    "prompt, completion, example_id",
    having("example_id", "prompt", "completion"),
    _read_verifiers,
    identity=identity_by("trajectory_id", "rollout_id"),
    attached=AttachedFile("results.jsonl", "metadata.json", _RUN),
)

# --- TRL ------------------------------------------------------------------------------------------
# The Parquet tables that `log_completions` writes, one row an attempt: `step, prompt, completion,
# advantage`, and one column of floats for each reward function. What a reward function logs beside
# (`log_extra`) is not a reward; it is told apart by its type. A group is a prompt at a step. The
# table has no outcome, stop reason or reward weights: the total reward is the plain sum.

_TRL: Final = Keys(
    prompt="prompt",
    completion="completion",
    step="step",
    advantage="advantage",
    needs="prompt completion",
)
_TRL_OWN: Final = ("step", "prompt", "completion", "advantage")


def _read_trl(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    draft = _TRL.draft(SourceRow(_without_nulls(row.values), used=row.used), count)
    draft.rewards = _trl_rewards(row, count)
    return draft


def _without_nulls(value: JSON) -> JSON:
    """Returns a JSON value without the null fields that Parquet adds to every message."""
    if isinstance(value, dict):
        return {name: _without_nulls(v) for name, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


def _trl_rewards(row: SourceRow, count: LeaveOut) -> dict[str, float] | None:
    rewards: dict[str, float] = {}
    for name, value in row.values.items():
        if name in _TRL_OWN:
            continue
        row.used.add(name)
        number = finite(value) if type(value) is float else None
        if number is not None:
            rewards[name] = number
        elif value is not None:  # a reward function may give None: then TRL logs NaN
            count(f"{name} ({'not finite' if type(value) is float else 'no reward: not a float'})")
    return rewards or None


TRL: Final = Format(
    "trl-completions",
    "completions that a TRL trainer logged (Parquet)",
    "step, prompt, completion, advantage, one column per reward",
    having("step", "prompt", "completion", claim=2),
    _read_trl,
)

# --- verl -----------------------------------------------------------------------------------------
# Generation dumps (`rollout_data_dir`, `validation_data_dir`): an attempt a line, as text. `input`
# and `output` are decoded text, special tokens and all; `score` is the reward that training saw.
# What else a reward function returned stands beside it: numbers become reward components of weight
# 0, and `acc` of true, false, 1 or 0, which verl takes for its accuracy, is the outcome.

_VERL: Final = Keys(
    group="uid",  # dumps of older versions lack it
    prompt="input",
    completion="output",
    step="step",
    needs="input output",
    skip="request_id index",
)


def _read_verl(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    draft = _VERL.draft(row, count)
    score, truth = row.number("score"), row.get("gts")
    draft.verifier_inputs = {} if truth is None else {"answer": truth}
    draft.outcome = row.flag("acc") if row.values.get("acc") in (0, 1) else None
    draft.rewards = None if score is None else {"score": score}
    rest = {name: finite(value) for name, value in row.values.items() if name not in row.used}
    metrics = {name: number for name, number in rest.items() if number is not None}
    row.skip(*metrics)
    draft.add_metrics(metrics)
    return draft


VERL: Final = Format(
    "verl",
    "verl's generation dumps, JSON lines",
    "input, output, score, step",
    having("input", "output", "score", "step"),
    _read_verl,
)
