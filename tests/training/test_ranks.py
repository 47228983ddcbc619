"""Two processes that train together do what one does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the train extra")
psutil = pytest.importorskip("psutil")

from meta_agent.core.errors import TrainingError  # noqa: E402
from meta_agent.policies.training import PolicyChild, RolloutEvent, TrainJob, TrainSettings  # noqa: E402
from meta_agent.policies.training._wire import Row, StepMetrics  # noqa: E402
from meta_agent.policies.training.policy import Timeouts  # noqa: E402
from tests.models import _bpe  # noqa: E402
from tests.training._trainer import recipe, rows  # noqa: E402

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def pair() -> Iterator[PolicyChild]:
    with PolicyChild(threads=1, settings=TrainSettings(ranks=2)) as child:
        yield child


def batches() -> list[list[Row]]:
    """Groups without spread, filtered ones, rows without tokens, rows that nobody rewarded."""
    weights = (1.0, 0.0, 2.0, 1.0)
    first = [replace(row, weight=weights[at // 4]) for at, row in enumerate(rows(1, dead=()))]
    first[5] = Row(0.0, None)
    return [first, rows(2, dead=(0, 3), missing=(6,)), rows(3, dead=(0, 1, 2, 3))]


def trained(
    child: PolicyChild, base: str | Path, out: Path, settings: TrainSettings, **changes: Any
) -> tuple[dict[str, Any], list[StepMetrics]]:
    """Weights and metrics."""
    from safetensors.torch import load_file

    child.settings = settings
    child.load(base)
    given, metrics = batches(), []
    job = TrainJob(recipe(**changes), len(given), 0, out)
    child.train(job, lambda event: given[event.step], metrics.append)
    (weights,) = out.glob("*.safetensors")
    return load_file(weights), metrics


@pytest.mark.parametrize(
    ("changes", "sharded"),
    [
        ({"tokens_per_pass": 40}, False),
        ({"loss_type": "bnpo", "num_iterations": 1}, True),
        ({"lora_r": 4}, False),
        ({"lora_r": 4}, True),
    ],
    ids=lambda given: str(given),
)
def test_two_ranks_are_one(
    changes: dict[str, Any],
    sharded: bool,
    pair: PolicyChild,
    shared_child: PolicyChild,
    nano_policy: Path,
    tmp_path: Path,
) -> None:
    import torch

    one = TrainSettings(tokens_per_pass=changes.pop("tokens_per_pass", 1536))
    base = nano_policy
    if "lora_r" in changes:
        base = f"hf:{_bpe.write(tmp_path / 'tiny')}"
        one = replace(one, lora_rank=4)
    alone, told = trained(shared_child, base, tmp_path / "one", one, **changes)
    two = replace(one, ranks=2, sharded=sharded)
    both, heard = trained(pair, base, tmp_path / "two", two, **changes)
    assert both.keys() == alone.keys()
    for name, value in alone.items():
        torch.testing.assert_close(both[name], value, atol=1e-6, rtol=0, msg=name)
    for before, after in zip(told, heard, strict=True):
        for name, value in before.values.items():
            if not name.endswith("_sec"):
                assert after.values[name] == pytest.approx(value, abs=1e-5), name


@pytest.mark.parametrize("harm", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "hangs"])
def test_a_rank_that_ends_ends_the_training_and_nothing_outlives_it(
    harm: int, nano_policy: Path, tmp_path: Path
) -> None:
    given = batches()
    with PolicyChild(threads=1, settings=TrainSettings(ranks=2)) as child:
        child.load(nano_policy)
        others: list[psutil.Process] = []

        def rows_of(event: RolloutEvent) -> list[Row]:
            if event.step == 1:
                others.extend(psutil.Process(child.pid).children())
                others[0].send_signal(harm)
                if harm == signal.SIGSTOP:
                    child._timeouts = Timeouts(train_step_sec=3.0)
            return given[event.step]

        job = TrainJob(recipe(), len(given), 0, tmp_path / "out")
        said = "rank 1 of the training was killed by SIGKILL" if harm == signal.SIGKILL else "hung"
        with pytest.raises(TrainingError, match=said):
            child.train(job, rows_of)
    assert len(others) == 1
    psutil.wait_procs(others, timeout=60)
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in others)
