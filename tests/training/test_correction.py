"""Rows that something else sampled are corrected: against plain sums in float64, and plain TRL."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the train extra")
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

from meta_agent.core.protocols import TokenRecord  # noqa: E402
from meta_agent.policies.training._wire import Row  # noqa: E402
from tests.training._trainer import GROUPS, SIZE, moved, rows, train  # noqa: E402

LIMIT = 3.0  # of TRL's settings
RATE = 0.5  # of `_trainer.recipe`
LONGEST = 256  # by which dr_grpo divides


def sampled_elsewhere(seed: int, policy: Path, temperature: float = 1.0, **which: Any) -> list[Row]:
    """Rows whose log-probabilities are up to e away from the policy's; one in nine was not told."""
    rnd = random.Random(seed)
    made = []
    for row in rows(seed, **which):
        if row.tokens is None:
            made.append(row)
            continue
        own = logps_of(plain_model(policy), row.tokens, temperature).tolist()
        told = [
            (-9.0 if not mine else None if rnd.random() < 1 / 9 else one + rnd.uniform(-2, 2))
            for one, mine in zip(own, row.tokens.mask, strict=True)
        ]
        made.append(replace(row, tokens=replace(row.tokens, logprobs=told)))
    return made


def plain_model(policy: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float64)


def logps_of(model: Any, tokens: TokenRecord, temperature: float) -> Any:
    """Of the completion's tokens."""
    import torch

    ids = torch.tensor([[*tokens.prompt_ids, *tokens.completion_ids]])
    logps = (model(ids).logits[0, :-1] / temperature).log_softmax(-1)
    return logps.gather(1, ids[0, 1:, None])[-len(tokens.completion_ids) :, 0]


def reference(
    policy: Path, batch: Sequence[Row], advantages: Sequence[float], loss: str, temperature: float
) -> dict[str, Any]:
    """The weights after one step of plain gradient descent, row by row in float64."""
    model = plain_model(policy)
    counted = sum(sum(row.tokens.mask) for row in batch if row.tokens)
    for row, advantage in zip(batch, advantages, strict=True):
        if row.tokens is None:
            continue
        share = {"grpo": len(batch) * sum(row.tokens.mask), "dr_grpo": len(batch) * LONGEST}.get(
            loss, counted
        )
        logps = logps_of(model, row.tokens, temperature)
        told = zip(logps.tolist(), row.tokens.logprobs, row.tokens.mask, strict=True)
        weights = [
            mine * min(1.0 if sampled is None else math.e ** (logp - sampled), LIMIT)
            for logp, sampled, mine in told
        ]
        (logps * logps.new_tensor(weights) * (-advantage / share)).sum().backward()
    return {
        name: value.detach() - RATE * (0 if value.grad is None else value.grad)
        for name, value in model.named_parameters()
    }


@pytest.mark.parametrize(
    "changes",
    [{}, {"loss_type": "grpo"}, {"loss_type": "dr_grpo", "temperature": 0.7}],
    ids=lambda c: ",".join(f"{k}={v}" for k, v in c.items()),
)
def test_a_step_is_that_of_plain_sums_in_float64(
    tmp_path: Path, nano_policy: Path, changes: dict[str, Any]
) -> None:
    import torch

    temperature = changes.get("temperature", 1.0)
    batch = sampled_elsewhere(1, nano_policy, temperature, missing=(6,))
    weights, events = train("hosted", tmp_path, nano_policy, [batch], corrected=True, **changes)
    published, advantages, _ = events
    assert published == {"event": "published"}
    loss = changes.get("loss_type", "dapo")
    wanted = reference(nano_policy, batch, advantages["values"], loss, temperature)
    plain, _ = train("hosted", tmp_path, nano_policy, [batch], **changes)
    assert max((plain[name] - weights[name]).abs().max() for name in wanted) > 1e-4
    for name, value in wanted.items():
        torch.testing.assert_close(weights[name].double(), value, atol=3e-7, rtol=0, msg=name)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_iterations": 2},
        {"loss_type": "vespo"},
        {"beta": 0.1},
        {"loss_type": "cispo", "epsilon_high": 2.0},
    ],
    ids=lambda c: ",".join(f"{k}={v}" for k, v in c.items()),
)
def test_other_losses_are_those_of_plain_trl(
    tmp_path: Path, nano_policy: Path, changes: dict[str, Any]
) -> None:
    import torch

    batches = [
        sampled_elsewhere(1, nano_policy),
        sampled_elsewhere(2, nano_policy, dead=(0, 3), missing=(6,)),
    ]
    ours, events = train("hosted", tmp_path, nano_policy, batches, corrected=True, **changes)
    plain, told = train("plain", tmp_path, nano_policy, batches, corrected=True, **changes)
    assert [one["event"] for one in events].count("published") == len(told)
    assert moved(plain, nano_policy) > 1e-4
    for name, value in plain.items():
        torch.testing.assert_close(ours[name], value, atol=3e-6, rtol=1e-4, msg=name)


def test_what_was_corrected_is_measured(tmp_path: Path, nano_policy: Path) -> None:
    batch = sampled_elsewhere(1, nano_policy)
    _, events = train("hosted", tmp_path, nano_policy, [batch], corrected=True)
    values = events[-1]["values"]
    model = plain_model(nano_policy)
    off, unscored = [], 0
    for row in batch:
        assert row.tokens is not None
        logps = logps_of(model, row.tokens, 1.0).tolist()
        for logp, sampled, mine in zip(logps, row.tokens.logprobs, row.tokens.mask, strict=True):
            unscored += mine and sampled is None
            off += [logp - sampled] if mine and sampled is not None else []
    tokens = len(off) + unscored
    assert len(batch) == GROUPS * SIZE
    assert values["mismatch_mean"] == pytest.approx(sum(map(abs, off)) / len(off), abs=1e-5)
    assert values["mismatch_max"] == pytest.approx(max(map(abs, off)), abs=1e-5)
    assert values["unscored_share"] == pytest.approx(unscored / tokens)
    cut = sum(math.e**one >= LIMIT for one in off)
    assert 0 < cut < tokens
    assert values["truncated_share"] == pytest.approx(cut / tokens)
    assert values["sampled_nll"] > 0


def test_nothing_is_corrected_where_the_model_itself_samples(
    tmp_path: Path, nano_policy: Path
) -> None:
    _, events = train("hosted", tmp_path, nano_policy, [sampled_elsewhere(1, nano_policy)])
    assert [one["event"] for one in events] == ["advantages", "metrics"]
    assert "mismatch_mean" not in events[-1]["values"]
