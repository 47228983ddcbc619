"""OpenAI's forms: dialogues, and NeMo Gym's rollouts of the Responses form."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from meta_agent.core.protocols import JSON, Message, RolloutFailure, StopReason
from meta_agent.readers.formats._draft import Draft
from meta_agent.readers.formats._format import Count, Format, Keys, having
from meta_agent.readers.formats._messages import messages_of_items, parse_exchange, parse_messages
from meta_agent.readers.formats._row import Row, RowError, as_object, has
from meta_agent.readers.formats._tokens import calls_of, joined

# --- dialogues ------------------------------------------------------------------------------------
# OpenAI's `messages`, and what else holds nothing but a dialogue: `prompt` and `completion` (or
# `response`) as lists or strings.

_FINISH: Final[dict[str, StopReason]] = {
    "stop": "returned",
    "tool_calls": "returned",
    "length": "length",
}
_DIALOGUE: Final = Keys(
    task="task_id task_key instance_id id",
    group="group_id",
    sample="sample_idx",
    policy="model policy",
    reward="reward score",
    rewards="rewards",
    weights="weights",
    advantage="advantage",
    outcome="outcome success resolved",
    stop="stop_reason finish_reason",
    stops=_FINISH,
    flags="flags",
)
_PAIRS: Final = (("prompt", "completion"), ("prompt", "response"))


def _claims_dialogue(value: JSON) -> int:
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("messages"), list) and value["messages"]:
        return 1
    pairs = (tuple(map(value.get, pair)) for pair in _PAIRS)
    return int(any(all(isinstance(v, str | list) and v for v in pair) for pair in pairs))


def _read_dialogue(row: Row, count: Count) -> Draft:
    draft = _DIALOGUE.draft(row, count)
    messages, n_before = _messages(row, count)
    if not messages:
        raise RowError("field messages: expected at least one message")
    draft.converse(messages, n_before)
    if isinstance(row.values.get("completion", row.values.get("response")), str):
        draft.tool_events = None  # a plain string says nothing about tools
    return draft


def _messages(row: Row, count: Count) -> tuple[list[Message], int | None]:
    """Returns the messages, and how many are the prompt, or None if the row does not say."""
    if "messages" in row.values:
        items = row.get("messages")
        # Items of the Responses form have no role: a call, its output, or reasoning.
        of_responses = isinstance(items, list) and any(
            has(item, "type") and "role" not in item for item in items
        )
        parse = messages_of_items if of_responses else parse_messages
        return parse(items, "messages", count), None
    prompt, completion = next(
        (p for p in _PAIRS if has(row.values, *p)), ("messages", "completion")
    )
    texts = row.get(prompt), row.get(completion)
    return parse_exchange(*texts, count, (prompt, completion))


DIALOGUES: Final = Format(
    "openai-messages",
    "dialogues of OpenAI's or Anthropic's form",
    "messages, or prompt and completion",
    _claims_dialogue,
    _read_dialogue,
)

# --- NeMo Gym -------------------------------------------------------------------------------------
# `responses_create_params.input` and `response.output` become messages (reasoning items, function
# calls and their outputs included). `resolved` is an outcome where `evaluation_completed` is not
# false: an evaluation that did not finish is a verifier's error, never a failure of the model.
# Token ids and logprobs are read from the output items where a vLLM model server put them.

_NEMO_GYM: Final = Keys(
    task="task_id instance_id hash_id _ng_task_index",
    sample="_ng_rollout_index",
    policy="response.model",
    reward="reward",
    outcome="outcome resolved",
    tokens="response.usage.total_tokens",
    inputs="extracted_model_code extracted_model_output result metadata",
    skip="responses_create_params response log_dir verifier_metadata",
    stops={"completed": "returned", "max_output_tokens": "length", "max_steps": "turn_limit"},
)
_TIMES: Final = ("eval_sandbox_start_time_taken", "patch_verification_time_taken")


def _read_nemo_gym(row: Row, count: Count) -> Draft:
    params, response = row.object("responses_create_params"), row.object("response")
    if not params or not response:
        raise RowError("fields responses_create_params and response: expected two objects")
    draft = _NEMO_GYM.draft(row, count)
    prompt = messages_of_items(params.get("input"), "responses_create_params.input", count)
    if params.get("instructions"):
        prompt.insert(0, {"role": "system", "content": str(params.get("instructions"))})
    output = messages_of_items(response.get("output"), "response.output", count)
    draft.prompt = prompt
    if output:
        draft.converse([*prompt, *output], len(prompt))
    if row.flag("evaluation_completed") is False:
        draft.outcome = None
        draft.error = RolloutFailure("verifier", "the grader did not finish")
    draft.stop_reason = _stop_of_response(response, output)
    if "model_patch" in row.values:  # a patch of null is a blank one: nothing was handed in
        draft.verifier_inputs["model_patch"] = row.get("model_patch") or ""
    names = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
    items = response.get("output")
    draft.tokens = joined(calls_of(items if isinstance(items, list) else (), names))
    draft.timings = {name: value for name in _TIMES if (value := row.number(name)) is not None}
    return draft


def _stop_of_response(response: Row, output: list[Message]) -> StopReason | None:
    reason = response.text("incomplete_details.reason") or response.text("status")
    if reason is not None and reason in _NEMO_GYM.stops:
        return _NEMO_GYM.stops[reason]
    items = response.get("output")
    status = as_object(items[-1]).get("status") if isinstance(items, list) and items else None
    ended = status == "completed" and bool(output) and output[-1]["role"] == "assistant"
    return "length" if status == "incomplete" else "returned" if ended else None


def _identity_of_response(row: Row, path: Path) -> JSON:
    """Returns a response's id with its place, since agents write one id for many."""
    response = as_object(row.values.get("response"))
    names = ("_ng_task_index", "_ng_rollout_index", "hash_id", "instance_id", "reward")
    values = [response.get("id"), response.get("output")]
    return [*values, *(row.values.get(name) for name in names)] if all(values) else None


NEMO_GYM: Final = Format(
    "nemo-gym",
    "NeMo Gym rollouts, JSON lines",
    "responses_create_params, response",
    having("responses_create_params", "response"),
    _read_nemo_gym,
    identity=_identity_of_response,
)
