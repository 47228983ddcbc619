"""ATIF trajectories (Harbor's agent trajectory interchange format), versions 1.0 to 1.7.

One document, or one trajectory a line. Steps of `user` and `system` are messages; a step of the
`agent` is a reply, and its observation's results follow as tool messages. Copied context is not
counted as turns of the model. What ATIF has no place for travels in `extra` under `meta_agent`:
reward, outcome, group, stop reason. Subagents' trajectories are counted as not carried over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, get_args

from meta_agent.core.distribution import __version__
from meta_agent.core.protocols import JSON, Message, Rollout, StopReason, TokenRecord
from meta_agent.readers.formats._draft import Draft, absent, cost_of
from meta_agent.readers.formats._files import write_lines
from meta_agent.readers.formats._format import Count
from meta_agent.readers.formats._messages import (
    arguments_of,
    before_reply,
    numbers_of,
    parse_messages,
    text_of,
    told_by,
)
from meta_agent.readers.formats._row import Row, RowError
from meta_agent.readers.formats._tokens import CallTokens, call_tokens, joined

NAME = "atif"
CANNOT_CARRY = frozenset(
    {"run", "harness_commit", "task_hash", "evaluator_hash", "split", "seed", "domain"}
    | {"outcome_detail", "verifier_inputs", "error", "timings", "tokens", "tool_events"}
)
_VERSION: Final = "ATIF-v1.7"
_EXTRA: Final = "meta_agent"
_ROLE_OF: Final = {"user": "user", "system": "system", "agent": "assistant"}


def claims(value: JSON) -> int:
    named = isinstance(value, dict) and str(value.get("schema_version", "")).startswith("ATIF-")
    return 3 if named and isinstance(value.get("steps"), list) else 0


def read(row: Row, count: Count) -> Draft:
    steps = [_step(item, i) for i, item in enumerate(row.items("steps") or (), 1)]
    if not steps:
        raise RowError("field steps: expected at least one step")
    messages = parse_messages([m for s in steps for m in _messages(s, count)], "steps", count)
    events, tool_ok = told_by(messages)
    agent, own = row.object("agent"), _own(row)
    row.skip("schema_version", "session_id", "trajectory_id", "notes")
    replies = [s for s in steps if s.get("source") == "agent" and not s.flag("is_copied_context")]
    return Draft(
        prompt=before_reply(messages),
        messages=messages,
        tool_events=events,
        tool_ok=tool_ok,
        turns=len(replies),
        task_key=own.label("task_id"),
        group=own.label("group_id"),
        sample_idx=own.integer("sample_idx"),
        policy=_model(agent, replies),
        version=agent.text("version"),
        rewards=_rewards(own, count),
        weights=numbers_of(own.object("weights"), count),
        advantage=own.number("advantage"),
        outcome=own.flag("outcome", "resolved"),
        stop_reason=_stop(own),
        flags=own.words("flags"),
        tokens=joined(_calls(replies)),
        cost=_cost(row.object("final_metrics")),
    )


def _step(item: JSON, number: int) -> Row:
    if not isinstance(item, dict) or str(item.get("source")) not in _ROLE_OF:
        raise RowError("a step: expected source user, system or agent", f"step {number}")
    return Row(item)


def _messages(step: Row, count: Count) -> Iterator[Message]:
    role = _ROLE_OF[str(step.get("source"))]
    message: Message = {"role": role, "content": text_of(step.get("message"), count)}
    if step.get("reasoning_content"):
        message["reasoning_content"] = str(step.get("reasoning_content"))
    calls = step.items("tool_calls") or []
    if calls:
        message["tool_calls"] = [_call(call) for call in calls]
    yield message
    for result in step.object("observation").items("results") or ():
        yield _result(result, len(calls), count)


def _call(call: JSON) -> dict[str, JSON]:
    if not isinstance(call, dict) or not isinstance(call.get("function_name"), str):
        raise RowError("a tool call: expected function_name")
    function = {"name": call["function_name"], "arguments": call.get("arguments") or {}}
    return {"id": str(call.get("tool_call_id") or ""), "function": function}


def _result(result: JSON, calls: int, count: Count) -> Message:
    if not isinstance(result, dict):
        raise RowError("an observation's result: expected an object")
    if result.get("subagent_trajectory_ref"):
        count("subagent_trajectory_ref")
    content = text_of(result.get("content"), count)
    source = result.get("source_call_id")
    if source is None and not calls:  # the environment speaks without having been called
        return {"role": "user", "content": content}
    return {"role": "tool", "tool_call_id": str(source or ""), "content": content}


def _own(row: Row) -> Row:
    """What stands in `extra`: ours under our name, else where others put a reward."""
    extra = row.object("extra")
    return extra.object(_EXTRA) or extra


def _rewards(own: Row, count: Count) -> dict[str, float] | None:
    found = numbers_of(own.object("rewards"), count)
    single = own.number("reward")
    return found or (None if single is None else {"reward": single})


def _stop(own: Row) -> StopReason | None:
    said = own.text("stop_reason")
    return next((reason for reason in get_args(StopReason) if reason == said), None)


def _model(agent: Row, replies: Sequence[Row]) -> str | None:
    return agent.text("model_name") or next(
        (name for step in replies if (name := step.text("model_name"))), None
    )


def _calls(replies: Iterable[Row]) -> Iterator[CallTokens]:
    for step in replies:
        metrics = step.object("metrics")
        names = ("prompt_token_ids", "completion_token_ids", "logprobs")
        if call := call_tokens(*(metrics.get(name) for name in names)):
            yield call


def _cost(metrics: Row) -> dict[str, float]:
    prompt, completion = (
        metrics.number(f"total_{kind}_tokens") for kind in ("prompt", "completion")
    )
    tokens = () if completion is None else (prompt, completion)
    return cost_of(metrics.number("total_cost_usd"), *tokens)


def write(rollouts: Iterable[Rollout], path: Path) -> int:
    return write_lines(map(_record, rollouts), path)


def _record(rollout: Rollout) -> dict[str, JSON]:
    unknown = absent(rollout)
    own: dict[str, JSON] = {
        "task_id": rollout.task_key,
        "group_id": rollout.group_id,
        "sample_idx": rollout.sample_idx,
        "rewards": rollout.rewards,
        "weights": rollout.weights,
        "advantage": rollout.advantage,
        "outcome": rollout.outcome,
        "stop_reason": None if "stop_reason" in unknown else rollout.stop_reason,
    }
    flags = {} if "flags" in unknown else {"flags": rollout.flags}
    name = rollout.domain or "meta-agent"
    model = rollout.policy
    return {
        "schema_version": _VERSION,
        "trajectory_id": f"{rollout.run}/{rollout.group_id}/{rollout.sample_idx}",
        "agent": {"name": name, "version": rollout.version, "model_name": model},
        "steps": _steps(rollout.messages, rollout.tokens),
        "final_metrics": _final(rollout),
        "extra": {_EXTRA: {k: v for k, v in own.items() if v not in (None, {}, [])} | flags},
        "notes": f"written by meta-agent {__version__}",
    }


def _final(rollout: Rollout) -> dict[str, JSON]:
    """The record has one total of tokens, ATIF two: it goes where it is not double counted."""
    cost = rollout.cost
    found: dict[str, JSON] = {"total_cost_usd": cost["usd"]} if "usd" in cost else {}
    return {**found, "total_completion_tokens": cost["tokens"]} if "tokens" in cost else found


def _steps(messages: Sequence[Message], tokens: TokenRecord | None) -> list[dict[str, JSON]]:
    steps: list[dict[str, JSON]] = []
    for message in messages:
        if message["role"] == "tool" and steps and steps[-1]["source"] == "agent":
            result = {"content": message["content"]}
            if message.get("tool_call_id"):
                result["source_call_id"] = message["tool_call_id"]
            steps[-1].setdefault("observation", {"results": []})["results"].append(result)
        else:
            steps.append(_as_step(message, len(steps) + 1))
    _add_tokens(steps, tokens)
    return steps


def _as_step(message: Message, number: int) -> dict[str, JSON]:
    source = {"assistant": "agent", "system": "system"}.get(message["role"], "user")
    step: dict[str, JSON] = {"step_id": number, "source": source, "message": message["content"]}
    if message.get("reasoning_content"):
        step["reasoning_content"] = message["reasoning_content"]
    if message.get("tool_calls"):
        step["tool_calls"] = [_as_call(call) for call in message["tool_calls"]]
    return step


def _as_call(call: dict[str, JSON]) -> dict[str, JSON]:
    function = call["function"]
    arguments = arguments_of(function["arguments"])
    name = {"tool_call_id": call.get("id", ""), "function_name": function["name"]}
    return {**name, "arguments": json.loads(json.dumps(arguments))}


def _add_tokens(steps: list[dict[str, JSON]], tokens: TokenRecord | None) -> None:
    """One call's tokens go to its step. Of a row of several calls the borders are not recorded."""
    replies = [step for step in steps if step["source"] == "agent"]
    if tokens is None or len(replies) != 1 or 0 in tokens.mask or not tokens.exact:
        return
    replies[0]["metrics"] = {
        "prompt_token_ids": tokens.prompt_ids,
        "completion_token_ids": tokens.completion_ids,
        "logprobs": tokens.logprobs,
    }
