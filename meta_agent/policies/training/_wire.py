"""Turns the records of the policy child into JSON, and parses them: the only place that does.

Promises: any JSON of the peer becomes a typed value or a `FrameError` that names the field.
Not covered: transport (`_frames`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from meta_agent.core.lab.training import kept_folder
from meta_agent.core.protocols import (
    JSON,
    GenerateReply,
    GenerateRequest,
    RolloutFailure,
    TokenRecord,
)
from meta_agent.policies.engines.talks import Asked
from meta_agent.policies.training._frames import FrameError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """How a run loads and trains its policy. A harness cannot change these settings."""

    lora_rank: int = 0  # of the adapters that are trained; 0: all weights are
    precision: str = "float32"  # or bfloat16: of computing, and of weights that stay as they are
    tokens_per_pass: int = 1536  # held in memory at once, padding included
    corrected: bool = False  # whether an engine or older weights sample the rows
    max_staleness: int = 0  # events; 1: rollouts are made while the event before is trained on
    ranks: int = 1  # processes that train the policy together, each with its own device
    sharded: bool = False  # whether each rank holds only a part of the trained weights
    trains: bool = True  # False: the weights stay as they are


@dataclass(frozen=True, slots=True)
class TrainJob:
    """One training of the loaded policy: its recipe, length, seed and files."""

    recipe: Mapping[str, JSON]  # TRL's names, plus groups_per_step and lora_*
    steps: int
    seed: int
    output: Path  # a directory that does not exist yet
    keep_every: int = 0  # steps between checkpoints kept on the way, beside `output`; 0: none
    seal_every: int = 0  # steps between saved states (seals) to resume from; 0: none
    after: int = 0  # the step whose seal the training resumes from; 0: it starts

    def sealed_at(self, step: int) -> Path:
        """Returns the folder for the saved state of a training after `step` optimiser steps."""
        return seals_folder(self.output) / f"checkpoint-{step}"

    def seals_at(self, step: int) -> bool:
        """Returns True if the training saves its state (a seal) after optimiser step `step`.

        No state is saved after the last step, nor between steps on the same rollouts.
        """
        if not self.seal_every or not 0 < step < self.steps:
            return False
        each = int(self.recipe.get("num_iterations", 1))  # optimiser steps on the same rollouts
        return step % (-(-self.seal_every // each) * each) == 0

    def kept_at(self, step: int) -> Path:
        """Returns the folder for the checkpoint that is kept after `step` optimiser steps."""
        return kept_folder(self.output) / str(step)


def warm_folder(output: Path) -> Path:
    """Returns the folder of the policy after its warm-up, from which GRPO starts."""
    return output.with_name(f"{output.name}.warm")


def published_folder(output: Path) -> Path:
    """Returns the folder for the weights that a training hands to the engines that sample."""
    return output.with_name(f"{output.name}.published")


def seals_folder(output: Path) -> Path:
    """Returns the folder for the saved states (seals) from which a killed training resumes."""
    return output.with_name(f"{output.name}.seals")


@dataclass(frozen=True, slots=True)
class RolloutEvent:
    """The trainer's request for groups of rollouts, to train on after `step` optimiser steps."""

    step: int  # optimiser steps done so far
    groups: int
    group_size: int


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout to train on: its tokens, its reward, and the weight of its group.

    A `reward` of None marks an infrastructure error and is left out of the group's mean reward. A
    row without completion tokens counts in that mean, but gives no gradient.
    """

    reward: float | None
    tokens: TokenRecord | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """The metrics of one optimiser step by name, such as `loss` and `reward_mean`."""

    step: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Advantages:
    """The advantages that TRL computed for the rows of one request for rollouts, in their order.

    They are already multiplied by the group weights.
    """

    step: int
    values: list[float] = field(default_factory=list)


def parse(what: str, parser: Callable[[JSON], T], value: JSON) -> T:
    """Returns what `parser` makes of JSON that the other process sent; `what` names it in errors.

    Raises FrameError if the JSON has another form.
    """
    try:
        return parser(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FrameError(
            f"the other process sent a malformed {what}; report this bug: {error!r}"
        ) from error


def request_to_json(request: GenerateRequest) -> JSON:
    """Returns a model call's request as JSON."""
    return {
        "key": request.key,
        "task_key": request.task_key,
        "sample_idx": request.sample_idx,
        "seed": request.seed,
        "turn": request.turn,
        "messages": list(request.messages),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "tools": request.tools,
        "max_context_tokens": request.max_context_tokens,
    }


def request_from_json(value: JSON) -> GenerateRequest:
    """Returns a model call's request from its JSON form."""
    return GenerateRequest(**value)


def reply_to_json(reply: GenerateReply) -> JSON:
    """Returns an engine's reply as JSON, without fields that engines leave empty (`usd`)."""
    failed = None if reply.failure is None else [reply.failure.kind, reply.failure.detail]
    counts = [reply.prompt_tokens, reply.completion_tokens]
    return [reply.content, reply.finish_reason, *counts, list(reply.tool_calls), failed]


def reply_from_json(value: JSON) -> GenerateReply:
    """Returns an engine's reply to a model call from its JSON form."""
    content, finish_reason, prompt_tokens, completion_tokens, calls, failed = value
    return GenerateReply(
        str(content),
        str(finish_reason),
        int(prompt_tokens),
        int(completion_tokens),
        tool_calls=[_call_from_json(call) for call in calls],
        failure=None if failed is None else RolloutFailure(failed[0], str(failed[1])),
    )


def prompt_to_json(prompt: Asked | GenerateReply) -> JSON:
    """Returns as JSON the context to sample a reply from, or a reply made without sampling."""
    if isinstance(prompt, GenerateReply):
        return {"reply": reply_to_json(prompt)}
    return {"ids": prompt.ids, "budget": prompt.budget}


def prompt_from_json(value: JSON) -> Asked | GenerateReply:
    """Returns the context to sample a reply from, or a reply made without sampling, from JSON."""
    if "reply" in value:
        return reply_from_json(value["reply"])
    return Asked(_ints(value["ids"]), int(value["budget"]))


def _call_from_json(value: JSON) -> JSON:
    """Parses a tool call in the form of servers, whose arguments are JSON text."""
    function = value["function"]
    call = {"name": str(function["name"]), "arguments": str(function["arguments"])}
    return {"id": str(value["id"]), "type": "function", "function": call}


def record_to_json(record: TokenRecord | None) -> JSON:
    """Returns a rollout's tokens, mask and log-probabilities as JSON; None for None."""
    if record is None:
        return None
    return {
        "prompt_ids": record.prompt_ids,
        "completion_ids": record.completion_ids,
        "mask": record.mask,
        "logprobs": record.logprobs,
        "exact": record.exact,
        "lost": record.lost,
    }


def record_from_json(value: JSON) -> TokenRecord | None:
    """Returns a rollout's tokens from their JSON form. Raises ValueError if list lengths differ."""
    if value is None:
        return None
    record = TokenRecord(
        prompt_ids=_ints(value["prompt_ids"]),
        completion_ids=_ints(value["completion_ids"]),
        mask=_ints(value["mask"]),
        logprobs=[None if x is None else float(x) for x in value["logprobs"]],
        exact=bool(value["exact"]),
        lost=int(value["lost"]),
    )
    if not len(record.completion_ids) == len(record.mask) == len(record.logprobs):
        raise ValueError(
            "completion_ids, mask and logprobs differ in length; this is a bug to report"
        )
    return record


def job_to_json(job: TrainJob) -> JSON:
    """Returns a training job as JSON, with its output folder as an absolute path."""
    return {
        "recipe": dict(job.recipe),
        "steps": job.steps,
        "seed": job.seed,
        "output": str(job.output.absolute()),
        "keep_every": job.keep_every,
        "seal_every": job.seal_every,
        "after": job.after,
    }


def job_from_json(value: JSON) -> TrainJob:
    """Returns a training job from its JSON form."""
    return TrainJob(**{**value, "output": Path(value["output"])})


def row_to_json(row: Row) -> JSON:
    """Returns one row to train on as JSON."""
    return {"reward": row.reward, "weight": row.weight, "tokens": record_to_json(row.tokens)}


def row_from_json(value: JSON) -> Row:
    """Returns one row (a rollout to train on) from its JSON form."""
    reward = value["reward"]
    return Row(
        reward=None if reward is None else float(reward),
        tokens=record_from_json(value["tokens"]),
        weight=float(value["weight"]),
    )


def _ints(values: Sequence[JSON]) -> list[int]:
    if not all(isinstance(value, int) for value in values):
        raise TypeError("token ids and masks must be integers; this is a bug to report")
    return list(values)
