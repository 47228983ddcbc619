"""The trainer against plain TRL on the same rows: skipping work must not change the gradient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training._trainer import GROUPS, SIZE, moved, rows, train

pytest.importorskip("trl", reason="needs the train extra")
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

from meta_agent.policies.training._wire import Row  # noqa: E402

CASES: list[dict[str, Any]] = [
    *(
        {"loss_type": name}
        for name in ("dapo", "grpo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo")
    ),
    {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    {"scale_rewards": "batch"},
    {"scale_rewards": "none"},
    {"num_iterations": 2},
    {"mask_truncated_completions": True},
    {"temperature": 0.7},
    # a row without an advantage still counts in these, so nothing may be skipped
    {"beta": 0.1, "num_iterations": 2},
    {"top_entropy_quantile": 0.5},
]


@pytest.mark.parametrize("changes", CASES, ids=lambda c: ",".join(f"{k}={v}" for k, v in c.items()))
def test_the_weights_are_those_of_plain_trl(
    tmp_path: Path, nano_policy: Path, changes: dict[str, Any]
) -> None:
    import torch

    batches = [rows(1), rows(2, dead=(0, 3), missing=(6,))]
    hosted, _ = train("hosted", tmp_path, nano_policy, batches, **changes)
    plain, _ = train("plain", tmp_path, nano_policy, batches, **changes)
    assert moved(plain, nano_policy) > 1e-4
    for name, value in plain.items():
        torch.testing.assert_close(hosted[name], value, atol=3e-6, rtol=1e-4, msg=name)


@pytest.mark.parametrize(
    "changes",
    [{}, {"loss_type": "bnpo"}, {"loss_type": "cispo"}, {"num_iterations": 2}, {"beta": 0.1}],
    ids=lambda c: ",".join(f"{k}={v}" for k, v in c.items()),
)
def test_many_passes_are_equal_to_one(
    tmp_path: Path, nano_policy: Path, changes: dict[str, Any]
) -> None:
    import torch

    batches = [rows(1, missing=(2,)), rows(2, dead=(0, 3))]
    one, told = train("hosted", tmp_path, nano_policy, batches, **changes)
    many, heard = train("hosted", tmp_path, nano_policy, batches, tokens_per_pass=1, **changes)
    assert moved(one, nano_policy) > 1e-4
    for name, value in one.items():
        torch.testing.assert_close(many[name], value, atol=1e-6, rtol=0, msg=name)
    for before, after in zip(told, heard, strict=True):
        if before["event"] == "metrics":
            for name in ("loss", "entropy", "grad_norm"):
                assert after["values"][name] == pytest.approx(before["values"][name], abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "tokens_per_pass"),
    [
        ({}, 1),
        ({}, 1536),
        ({"loss_type": "cispo"}, 90),
        ({"num_iterations": 2}, 90),
        ({"beta": 0.1}, 90),
    ],
    ids=lambda given: str(given),
)
def test_rows_that_share_a_prompt_are_computed_together_with_the_same_result(
    tmp_path: Path, nano_policy: Path, changes: dict[str, Any], tokens_per_pass: int
) -> None:
    import torch

    batches = [rows(1, shared=True), rows(2, dead=(0, 3), missing=(6,), shared=True)]
    packed, _ = train(
        "hosted", tmp_path, nano_policy, batches, tokens_per_pass, packs=True, **changes
    )
    plain, _ = train("plain", tmp_path, nano_policy, batches, **changes)
    assert moved(plain, nano_policy) > 1e-4
    for name, value in plain.items():
        torch.testing.assert_close(packed[name], value, atol=3e-6, rtol=1e-4, msg=name)


def test_metrics_and_advantages_are_streamed(tmp_path: Path, nano_policy: Path) -> None:
    batches = [rows(1, dead=(1, 2), missing=(0, 15))]
    _, events = train("hosted", tmp_path, nano_policy, batches)
    advantages, metrics = events
    assert advantages["event"] == "advantages" and len(advantages["values"]) == GROUPS * SIZE
    assert advantages["values"][0] == 0.0  # no reward, no advantage
    assert advantages["values"][4:12] == [0.0] * 8
    values = metrics["values"]
    assert values["dead_group_ratio"] == 0.5
    assert values["missing_reward_ratio"] == pytest.approx(2 / 16)
    assert values["trained_row_ratio"] == pytest.approx(6 / 16)
    assert values["completion_tokens_min"] == 0
    wanted = {
        "loss",
        "grad_norm",
        "entropy",
        "clip_share",
        "train_sec",
        "rollout_sec",
        "reward_mean",
    }
    assert wanted <= values.keys()
    assert 3.0 < values["entropy"] < 5.0  # dead rows enter by their sampled -log p, here 4.0


def test_group_weights_scale_advantages(tmp_path: Path, nano_policy: Path) -> None:
    from dataclasses import replace

    plain = rows(1, dead=())
    weighted = [replace(row, weight=[1.0, 0.0, 2.0, 1.0][i // SIZE]) for i, row in enumerate(plain)]
    _, first = train("hosted", tmp_path, nano_policy, [plain])
    _, second = train("hosted", tmp_path, nano_policy, [weighted])
    before, after = first[0]["values"], second[0]["values"]
    assert after[:4] == before[:4]
    assert after[4:8] == [0.0] * 4
    assert after[8:12] == pytest.approx([2 * value for value in before[8:12]])
    assert second[1]["values"]["dropped_group_ratio"] == 0.25


@pytest.mark.parametrize("batch", ["dead", "missing"])
def test_a_step_without_signal_leaves_the_weights_alone(
    tmp_path: Path, nano_policy: Path, batch: str
) -> None:
    everything = tuple(range(GROUPS * SIZE))
    batches = [rows(1, dead=everything) if batch == "dead" else rows(1, missing=everything)]
    weights, events = train("hosted", tmp_path, nano_policy, batches)
    assert moved(weights, nano_policy) == 0.0
    assert events[-1]["values"]["dead_group_ratio"] == 1.0


def test_a_row_without_tokens_counts_in_its_groups_baseline(
    tmp_path: Path, nano_policy: Path
) -> None:
    batch = rows(1, dead=())
    batch[0] = Row(0.0, None)
    _, events = train("hosted", tmp_path, nano_policy, [batch])
    assert events[0]["values"][0] != 0.0


def test_the_wrong_number_of_rows_is_an_error(tmp_path: Path, nano_policy: Path) -> None:
    with pytest.raises(ValueError, match="15 rows"):
        train("hosted", tmp_path, nano_policy, [rows(1)[1:]])
