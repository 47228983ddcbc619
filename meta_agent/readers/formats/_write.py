"""Writes rollouts in another tool's format, whole or not at all, one record after the other.

A record has more fields than any other format. `CANNOT_CARRY` names what each export loses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from meta_agent.core.durable import AtomicFile
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Rollout, StopReason
from meta_agent.core.rollouts.record import to_json, tokens_to_json
from meta_agent.readers.formats._draft import absent, attempt_messages, prompt_of

VERIFIERS_STOPS: Final[dict[str, StopReason]] = {
    "max_turns_reached": "turn_limit",
    "prompt_too_long": "token_limit",
    "max_total_completion_tokens_reached": "token_limit",
    "timeout_reached": "wall_limit",
    "has_error": "error",
}
_NOWHERE: Final = frozenset(
    {"run", "version", "harness_commit", "task_hash", "evaluator_hash", "split", "seed", "domain"}
    | {"outcome_detail", "error", "timings", "cost", "tokens", "tool_events", "cut_replies"}
)
CANNOT_CARRY: Final = {
    "openai-messages": _NOWHERE | {"verifier_inputs"},
    "swe-bench-predictions": _NOWHERE
    | {"messages", "turns", "rewards", "weights", "advantage", "stop_reason", "flags", "group_id"}
    | {"sample_idx"},
    "prime-rl": _NOWHERE
    | {"outcome", "verifier_inputs", "flags", "weights", "group_id", "sample_idx"},
}


def write_lines(records: Iterable[JSON], path: Path) -> int:
    """Writes JSON lines and returns how many. Raises `ConfigError` if it cannot write there."""
    try:
        file = AtomicFile(path.parent, path.name)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    count = 0
    try:
        for record in records:
            # ASCII: a lone surrogate in a model's text has no other way through UTF-8.
            file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
            count += 1
        file.publish(path.name)
    finally:
        file.discard()
    return count


def writer(
    record_of: Callable[[Rollout], dict[str, JSON]],
) -> Callable[[Iterable[Rollout], Path], int]:
    """Returns what writes rollouts as one record a line."""
    return lambda rollouts, path: write_lines(map(record_of, rollouts), path)


def whole_record(rollout: Rollout) -> dict[str, JSON]:
    """Returns the record as this project stores it, with its token row."""
    record = to_json(rollout)
    if rollout.tokens is not None:
        record["tokens"] = tokens_to_json(rollout.tokens)
    return record


def dialogue(rollout: Rollout) -> dict[str, JSON]:
    """Returns a dialogue of OpenAI's form with what is known of it."""
    unknown = absent(rollout)
    attempt = attempt_messages(rollout)
    prompt = prompt_of(rollout)
    split = any(message["role"] == "assistant" for message in prompt)
    messages = (
        {"prompt": prompt, "completion": attempt} if split else {"messages": rollout.messages}
    )
    optional = {
        "sample_idx": rollout.sample_idx,
        "advantage": rollout.advantage,
        "outcome": rollout.outcome,
        "flags": None if "flags" in unknown else rollout.flags,
        "stop_reason": None if "stop_reason" in unknown else rollout.stop_reason,
    }
    return {
        **messages,
        **_with_values(
            task_id=rollout.task_key,
            group_id=rollout.group_id,
            model=rollout.policy,
            rewards=rollout.rewards,
            weights=rollout.weights,
        ),
        **{name: value for name, value in optional.items() if value is not None},
    }


def prediction(rollout: Rollout) -> dict[str, JSON]:
    """Returns a prediction of SWE-bench's form."""
    inputs = rollout.verifier_inputs
    record = {
        "instance_id": rollout.task_key,
        "model_name_or_path": rollout.policy,
        "model_patch": inputs.get("patch", inputs.get("model_patch", "")),
    }
    return record if rollout.outcome is None else {**record, "resolved": rollout.outcome}


def verifiers_result(rollout: Rollout) -> dict[str, JSON]:
    """Returns a result of the form of verifiers and prime-rl."""
    task, slash, example = rollout.task_key.rpartition("/")
    words = {reason: word for word, reason in VERIFIERS_STOPS.items()}
    stop = None if "stop_reason" in absent(rollout) else rollout.stop_reason
    metrics = {name: value for name, value in rollout.rewards.items() if name != "reward"}
    return {
        "example_id": example if slash else rollout.task_key,
        **_with_values(task=task, model=rollout.policy, metrics=metrics),
        "prompt": prompt_of(rollout),
        "completion": attempt_messages(rollout),
        **({"reward": rollout.total_reward} if rollout.rewards else {}),
        **({} if rollout.advantage is None else {"advantage": rollout.advantage}),
        **({} if stop is None else {"stop_condition": words.get(stop, stop)}),
        **({} if stop is None else {"is_truncated": stop == "length"}),
    }


def _with_values(**fields: JSON) -> dict[str, JSON]:
    return {name: value for name, value in fields.items() if value not in (None, {}, [], "")}
