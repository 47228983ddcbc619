"""Sampling: numbers keyed by who asks, drawn from the right distribution."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch", reason="needs the train extra")
import numpy as np  # noqa: E402

from meta_agent.core.protocols import GenerateRequest  # noqa: E402
from meta_agent.policies.engines._sampling import Knobs, sample, stream_keys, uniforms  # noqa: E402

pytestmark = pytest.mark.train

BASE = GenerateRequest("k", "task", 0, 1, 0, [], 1, 1.0)


def test_every_part_of_the_key_counts_and_the_rollouts_name_does_not() -> None:
    others = [
        dataclasses.replace(BASE, task_key="task2"),
        dataclasses.replace(BASE, sample_idx=1),
        dataclasses.replace(BASE, seed=2),
        dataclasses.replace(BASE, turn=1),
    ]
    keys = stream_keys([BASE, *others])
    assert len(set(keys.tolist())) == 5
    assert stream_keys([dataclasses.replace(BASE, key="renamed")])[0] == keys[0]


def test_uniforms_are_uniform_and_uncorrelated_between_tokens() -> None:
    keys = stream_keys([dataclasses.replace(BASE, sample_idx=i) for i in range(20_000)])
    first, second = uniforms(keys, 0), uniforms(keys, 1)
    assert first.min() >= 0 and first.max() < 1
    counts, _ = np.histogram(first, bins=20, range=(0, 1))
    assert np.abs(counts - 1000).max() < 6 * 1000**0.5
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_follow_the_distribution(temperature: float) -> None:
    count = 40_000
    logits = torch.tensor([0.0, 1.0, 2.0, -30.0]).expand(count, 4)
    requests = [
        dataclasses.replace(BASE, sample_idx=i, temperature=temperature) for i in range(count)
    ]
    drawn = sample(logits, Knobs.of(requests), uniforms(stream_keys(requests), 0))
    shares = torch.bincount(drawn.ids, minlength=4) / count
    expected = torch.softmax(logits[0] / temperature, 0)
    torch.testing.assert_close(shares, expected, atol=0.012, rtol=0)
    torch.testing.assert_close(drawn.logprobs, torch.log(expected)[drawn.ids])


def test_a_large_vocabulary_is_searched_by_blocks_with_the_same_result() -> None:
    logits = torch.randn(400, 1000, generator=torch.Generator().manual_seed(1)) * 3
    logits[:, 700:] = float("-inf")
    requests = [dataclasses.replace(BASE, sample_idx=i) for i in range(400)]
    draws = uniforms(stream_keys(requests), 0)
    drawn = sample(logits, Knobs.of(requests), draws)
    cumulative = torch.softmax(logits.double(), -1).cumsum(-1)
    expected = torch.searchsorted(cumulative, torch.from_numpy(draws)[:, None], right=True)[:, 0]
    torch.testing.assert_close(drawn.ids, expected)


def test_top_p_keeps_the_smallest_set_that_holds_the_mass() -> None:
    count = 2000
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05])).expand(count, 4)
    requests = [dataclasses.replace(BASE, sample_idx=i, top_p=0.7) for i in range(count)]
    drawn = sample(logits, Knobs.of(requests), uniforms(stream_keys(requests), 0))
    assert set(drawn.ids.tolist()) == {0, 1}
    # the reported log-probability is that of the whole distribution, which training recomputes
    torch.testing.assert_close(drawn.logprobs, logits[0][drawn.ids])


@pytest.mark.parametrize("draw", [0.0, np.nextafter(1.0, 0.0)])
def test_the_ends_of_the_interval_never_choose_an_impossible_token(draw: float) -> None:
    logits = torch.tensor([[float("-inf"), 0.0, float("-inf")]])
    drawn = sample(logits, Knobs.of([BASE]), np.array([draw]))
    assert drawn.ids.tolist() == [1]
