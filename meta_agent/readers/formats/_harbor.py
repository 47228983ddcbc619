"""ATIF trajectories (Harbor's agent trajectory interchange format, 1.0 to 1.7) and Harbor's trials.

A trajectory is one document, or one document a line. Steps of `user` and `system` become messages.
A step of the `agent` becomes a reply, and the results in its observation follow as tool messages.
Context that was copied from an earlier trajectory belongs to the prompt. Trajectories of subagents
are counted as left out.
A trial is a `result.json` with the trajectory in the folder `agent/` beside it. Only the result
holds the task, the reward, and why a trial failed. An agent that ran out of time or ended with an
error is judged all the same. So an exception is an error only if the verifier gave no reward.
A reward of Harbor is no outcome by itself:
`--solved-at 1` counts a full reward as solved.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from meta_agent.core.protocols import JSON, Message, RolloutFailure
from meta_agent.readers.formats._draft import AttemptDraft
from meta_agent.readers.formats._format import (
    CERTAIN,
    ERROR_CHARS,
    AttachedFile,
    Format,
    Keys,
    identity_by,
    numbers_of,
    rows_under,
)
from meta_agent.readers.formats._messages import LeaveOut, parse_messages
from meta_agent.readers.formats._row import RowError, SourceRow, as_object, has
from meta_agent.readers.formats._tokens import calls_of, joined

_ROLE_OF: Final = {"user": "user", "system": "system", "agent": "assistant"}
_ATIF: Final = Keys(
    policy="agent.model_name",
    version="agent.version",
    usd="final_metrics.total_cost_usd",
    skip="schema_version session_id trajectory_id notes agent final_metrics extra",
)


def _claims_atif(value: JSON) -> int:
    is_atif = str(as_object(value).get("schema_version", "")).startswith("ATIF-")
    return CERTAIN if is_atif and isinstance(value.get("steps"), list) else 0


def _read_atif(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    steps = [_step(item, i) for i, item in enumerate(row.items("steps") or (), 1)]
    if not steps:
        raise RowError("field steps: expected at least one step")
    draft = _ATIF.draft(row, count)
    by_step = [list(_messages(step)) for step in steps]
    results = [step.object("observation").items("results") or () for step in steps]
    for result in itertools.chain(*results):
        if as_object(result).get("subagent_trajectory_ref"):
            count("subagent_trajectory_ref")
    messages = parse_messages([m for part in by_step for m in part], "steps", count)
    draft.converse(messages, _copied(steps, by_step))
    replies = [s for s in steps if s.get("source") == "agent" and not s.flag("is_copied_context")]
    draft.turns = len(replies)
    models = filter(None, (step.text("model_name") for step in replies))
    draft.policy = draft.policy or next(models, None)
    metrics = row.object("final_metrics")
    completion = metrics.number("total_completion_tokens")
    if completion is not None:
        prompt = metrics.number("total_prompt_tokens") or 0
        draft.cost = {**draft.cost, "tokens": prompt + completion}
    names = ("prompt_token_ids", "completion_token_ids", "logprobs")
    draft.tokens = joined(calls_of((step.object("metrics").values for step in replies), names))
    return draft


def _copied(steps: Sequence[SourceRow], by_step: Sequence[list[Message]]) -> int | None:
    """Returns how many messages come with the context that was copied, if any reply was."""
    copied = [
        i for i, s in enumerate(steps) if s.get("source") == "agent" and s.flag("is_copied_context")
    ]
    if not copied:
        return None
    after = (i for i, s in enumerate(steps) if i > copied[-1] and s.get("source") == "agent")
    return sum(len(part) for part in by_step[: next(after, len(steps))])


def _step(item: JSON, number: int) -> SourceRow:
    if not isinstance(item, dict) or str(item.get("source")) not in _ROLE_OF:
        raise RowError("a step: expected source user, system or agent", f"step {number}")
    return SourceRow(item)


def _messages(step: SourceRow) -> Iterator[Message]:
    calls = step.items("tool_calls") or []
    yield {
        "role": _ROLE_OF[str(step.get("source"))],
        "content": step.get("message"),
        "reasoning_content": step.get("reasoning_content"),
        "tool_calls": calls,
    }
    for result in step.object("observation").items("results") or ():
        if not isinstance(result, dict):
            raise RowError("an observation's result: expected an object")
        source, content = result.get("source_call_id"), result.get("content")
        if source is None and not calls:  # the environment speaks without having been called
            yield {"role": "user", "content": content}
        else:
            yield {"role": "tool", "tool_call_id": str(source or ""), "content": content}


ATIF: Final = Format(
    "atif",
    "ATIF trajectories (Harbor)",
    "schema_version ATIF-..., steps",
    _claims_atif,
    _read_atif,
    identity=identity_by("trajectory_id"),
)

# --- Harbor's trials ------------------------------------------------------------------------------

_TRIAL: Final = Keys(
    task="task_name",
    policy="agent_info.model_info.name",
    needs="task_name",
    usd="agent_result.cost_usd",
    tokens="agent_result.n_input_tokens agent_result.n_output_tokens",
    skip="id trial_name trial_uri task_id task_checksum source config started_at finished_at"
    " environment_setup agent_setup agent_execution verifier",
)
_TRAJECTORY: Final = "trajectory"
_JUDGES: Final = ("verifier", "reward")


def _claims_trial(value: JSON) -> int:
    in_job = as_object(value).get("trial_results")
    trials = in_job if isinstance(in_job, list) and in_job else [value]
    marks = ("task_name", "verifier_result", "exception_info")
    return CERTAIN if all(has(trial, *marks) for trial in trials) else 0


def _read_trial(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    about = _TRIAL.draft(row, count)
    trajectory, failed = row.object(_TRAJECTORY), row.object("exception_info")
    draft = _read_atif(trajectory, count) if trajectory else AttemptDraft()
    draft.task_key, draft.group = about.task_key, None
    draft.rewards = numbers_of(row.object("verifier_result").object("rewards"), count) or None
    draft.policy, draft.cost = draft.policy or about.policy, draft.cost or about.cost
    kind = failed.text("exception_type") or "an exception"
    if failed and (draft.rewards or kind == "AgentTimeoutError"):
        draft.stop_reason = "wall_limit" if kind == "AgentTimeoutError" else "error"
    elif failed:
        of_judge = any(word in kind.lower() for word in _JUDGES)
        detail = f"{kind}: {failed.text('exception_message') or ''}"[:ERROR_CHARS]
        draft.error = RolloutFailure("verifier" if of_judge else "infra", detail)
        draft.stop_reason = "error"
    return draft


HARBOR: Final = Format(
    "harbor",
    "Harbor's trials, with the trajectories in their folders",
    "task_name, verifier_result, exception_info",
    _claims_trial,
    _read_trial,
    expand=rows_under("trial_results"),
    identity=identity_by("id", "trial_name"),
    attached=AttachedFile("result.json", "agent/trajectory.json", _TRAJECTORY),
)
