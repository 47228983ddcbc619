"""NeMo Gym rollouts: OpenAI's Responses form in and out, and what `/verify` returned beside it.

`responses_create_params.input` and `response.output` become messages (reasoning items, function
calls and their outputs included), `reward` the reward. `resolved` is an outcome where
`evaluation_completed` is not false: an evaluation that did not finish is a verifier error, never a
failure of the model. Token ids and logprobs are read from the output items where a vLLM model
server put them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from meta_agent.core.protocols import JSON, Message, Rollout, RolloutFailure, StopReason
from meta_agent.readers.formats._draft import Draft, absent, cost_of
from meta_agent.readers.formats._files import known, split_prompt, write_lines
from meta_agent.readers.formats._format import Count, has
from meta_agent.readers.formats._messages import told_by, turns_of
from meta_agent.readers.formats._responses import messages_of_items
from meta_agent.readers.formats._row import Row, RowError
from meta_agent.readers.formats._tokens import CallTokens, call_tokens, joined

NAME = "nemo-gym"
CANNOT_CARRY = frozenset(
    {"run", "version", "harness_commit", "task_hash", "evaluator_hash", "split", "seed", "domain"}
    | {"outcome_detail", "verifier_inputs", "error", "timings", "cost", "tokens", "flags"}
    | {"weights", "advantage", "tool_events", "group_id"}
)
_STOPS: Final[dict[str, StopReason]] = {
    "completed": "returned",
    "max_output_tokens": "length",
    "max_steps": "turn_limit",
}
_VERIFIER: Final = ("extracted_model_code", "extracted_model_output", "result", "metadata")
_TIMES: Final = ("eval_sandbox_start_time_taken", "patch_verification_time_taken")
_PLUMBING: Final = ("responses_create_params", "response", "log_dir", "verifier_metadata")


def claims(value: JSON) -> int:
    return 3 if has(value, "responses_create_params", "response") else 0


def read(row: Row, count: Count) -> Draft:
    params, response = row.object("responses_create_params"), row.object("response")
    if not params or not response:
        raise RowError("fields responses_create_params and response: expected two objects")
    prompt = messages_of_items(params.get("input"), "responses_create_params.input", count)
    if params.get("instructions"):
        prompt.insert(0, {"role": "system", "content": str(params.get("instructions"))})
    output = messages_of_items(response.get("output"), "response.output", count)
    messages = [*prompt, *output]
    events, tool_ok = told_by(messages)
    outcome, error = _judged(row)
    row.skip(*_PLUMBING)
    return Draft(
        prompt=prompt,
        messages=messages if output else None,
        tool_events=events if output else None,
        tool_ok=tool_ok,
        turns=turns_of(output) if output else None,
        task_key=row.label("task_id", "instance_id", "hash_id", "_ng_task_index"),
        sample_idx=row.integer("_ng_rollout_index"),
        policy=response.text("model") or None,
        rewards=_rewards(row),
        outcome=outcome,
        error=error,
        stop_reason=_stop(response, output),
        verifier_inputs=_patch(row) | _kept(row, _VERIFIER),
        tokens=joined(_calls(response.get("output"))),
        timings={name: value for name in _TIMES if (value := row.number(name)) is not None},
        cost=cost_of(None, response.object("usage").number("total_tokens")),
    )


def _judged(row: Row) -> tuple[bool | None, RolloutFailure | None]:
    outcome = row.flag("outcome", "resolved")
    if row.flag("evaluation_completed") is False:
        return None, RolloutFailure("verifier", "evaluation_completed is false")
    return outcome, None


def _rewards(row: Row) -> dict[str, float] | None:
    reward = row.number("reward")
    return None if reward is None else {"reward": reward}


def _kept(row: Row, names: tuple[str, ...]) -> dict[str, JSON]:
    return {name: value for name in names if (value := row.get(name)) is not None}


def _patch(row: Row) -> dict[str, JSON]:
    """A patch of null is a blank one: nothing was handed in."""
    return {"model_patch": row.get("model_patch") or ""} if "model_patch" in row.values else {}


def _stop(response: Row, output: list[Message]) -> StopReason | None:
    reason = response.object("incomplete_details").text("reason") or response.text("status")
    if reason in _STOPS:
        return _STOPS[reason]
    raw = response.get("output")
    last = raw[-1] if isinstance(raw, list) and raw else {}
    status = last.get("status") if isinstance(last, dict) else None
    ended = status == "completed" and bool(output) and output[-1]["role"] == "assistant"
    return "length" if status == "incomplete" else "returned" if ended else None


def _calls(output: JSON) -> Iterator[CallTokens]:
    for item in output if isinstance(output, list) else ():
        if isinstance(item, dict):
            names = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
            if call := call_tokens(*(item.get(name) for name in names)):
                yield call


def write(rollouts: Iterable[Rollout], path: Path) -> int:
    return write_lines(map(_record, rollouts), path)


def _record(rollout: Rollout) -> dict[str, JSON]:
    prompt, completion = split_prompt(rollout)
    stop = "" if "stop_reason" in absent(rollout) else rollout.stop_reason
    words = {reason: word for word, reason in _STOPS.items()}
    cut = words[stop] if stop in ("length", "turn_limit") else None
    return {
        "task_id": rollout.task_key,
        "_ng_rollout_index": rollout.sample_idx,
        "responses_create_params": {"input": [i for m in prompt for i in _as_items(m)]},
        "response": {
            "object": "response",
            "model": rollout.policy,
            "status": "incomplete" if cut else "completed" if stop else None,
            "incomplete_details": {"reason": cut} if cut else None,
            "output": [i for m in completion for i in _as_items(m)],
        },
        **known(reward=rollout.total_reward if rollout.rewards else None),
        **({} if rollout.outcome is None else {"outcome": rollout.outcome}),
    }


def _as_items(message: Message) -> Iterator[dict[str, JSON]]:
    content, role = message["content"], message["role"]
    if role == "tool":
        call_id = message.get("tool_call_id", "")
        yield {"type": "function_call_output", "call_id": call_id, "output": content}
        return
    if message.get("reasoning_content"):
        text = [{"type": "summary_text", "text": message["reasoning_content"]}]
        yield {"type": "reasoning", "summary": text}
    if role != "assistant":
        yield {"type": "message", "role": role, "content": content}
    elif content or not message.get("tool_calls"):
        part = {"type": "output_text", "text": content, "annotations": []}
        yield {"type": "message", "role": role, "status": "completed", "content": [part]}
    for call in message.get("tool_calls", ()):
        function = {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        yield {"type": "function_call", "call_id": call["id"], **function}
