"""OpenAI's forms: dialogues, and NeMo Gym's rollouts of the Responses form."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from meta_agent.core.protocols import JSON, Message, RolloutFailure, StopReason
from meta_agent.readers.formats._draft import AttemptDraft
from meta_agent.readers.formats._format import Format, Keys, having
from meta_agent.readers.formats._messages import LeaveOut, messages_of_items
from meta_agent.readers.formats._row import SourceRow, as_object
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
    messages="messages",
    prompt="prompt",
    completion="completion response",
)
_PAIRS: Final = (("prompt", "completion"), ("prompt", "response"))


def _claims_dialogue(value: JSON) -> int:
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("messages"), list) and value["messages"]:
        return 1
    pairs = (tuple(map(value.get, pair)) for pair in _PAIRS)
    return int(any(all(isinstance(v, str | list) and v for v in pair) for pair in pairs))


DIALOGUES: Final = Format(
    "openai-messages",
    "dialogues of OpenAI's or Anthropic's form",
    "messages, or prompt and completion",
    _claims_dialogue,
    _DIALOGUE.draft,
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
    needs="responses_create_params response",
    skip="log_dir verifier_metadata",
    stops={"completed": "returned", "max_output_tokens": "length", "max_steps": "turn_limit"},
)
_TIMES: Final = ("eval_sandbox_start_time_taken", "patch_verification_time_taken")


def _read_nemo_gym(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    draft = _NEMO_GYM.draft(row, count)
    params, response = row.object("responses_create_params"), row.object("response")
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


def _stop_of_response(response: SourceRow, output: list[Message]) -> StopReason | None:
    reason = response.text("incomplete_details.reason") or response.text("status")
    if reason is not None and reason in _NEMO_GYM.stops:
        return _NEMO_GYM.stops[reason]
    items = response.get("output")
    status = as_object(items[-1]).get("status") if isinstance(items, list) and items else None
    ended = status == "completed" and bool(output) and output[-1]["role"] == "assistant"
    return "length" if status == "incomplete" else "returned" if ended else None


def _identity_of_response(row: SourceRow, path: Path) -> JSON:
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
