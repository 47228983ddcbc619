"""A child trains what another one samples: the same bits as alone, and after a stop or a death."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the train extra")

from meta_agent.core.errors import InfrastructureError, Interrupted
from meta_agent.core.harness import HarnessSession
from meta_agent.core.lab.training import TrainResult
from meta_agent.core.protocols import JSON
from meta_agent.core.rollouts import Runner
from meta_agent.domains.nano import NanoSwe
from meta_agent.policies.training import PolicyChild, train_policy
from meta_agent.policies.training._wire import published_folder
from meta_agent.policies.training.serving.publishing import EngineChild
from tests.training import _loop
from tests.training._seals import Stop, same

pytestmark = pytest.mark.train

RECIPE = {**_loop.TINY, "learning_rate": 3e-3}  # every step changes what is said


@pytest.fixture(scope="module")
def engine() -> Iterator[PolicyChild]:
    with PolicyChild(threads=1) as child:
        yield child


def train(
    child: PolicyChild,
    engine: PolicyChild,
    session: HarnessSession,
    base: Path,
    out: Path,
    *,
    most: int = 1,
    **options: Any,
) -> TrainResult:
    ours = child.settings
    child.settings = replace(ours, max_staleness=most, corrected=most > 0)
    domain = NanoSwe()
    try:
        return train_policy(
            child,
            Runner(domain, session, engine, _loop.STAMP),
            session,
            domain,
            RECIPE,
            **{"seed": 1, "steps": 3, "keep_steps": 2, "seal_every": 1, **options},
            base_policy=base,
            out_dir=out,
            publisher=EngineChild(child, engine, out),
        )
    finally:
        child.settings = ours


@pytest.fixture(scope="module")
def whole(
    shared_child: PolicyChild,
    engine: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> TrainResult:
    """The undisturbed training with overlap."""
    return train(shared_child, engine, session, nano_policy, tmp_path_factory.mktemp("w") / "out")


def test_without_staleness_it_trains_to_the_bits_of_one_child_alone(
    child: PolicyChild,
    engine: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
) -> None:
    alone = _loop.run(child, session, nano_policy, tmp_path / "a", recipe=RECIPE, seed=1)
    beside = train(child, engine, session, nano_policy, tmp_path / "b", most=0)
    assert beside.checkpoint.policy == alone.checkpoint.policy
    assert [row["staleness"] for row in beside.metrics] == [0, 0, 0]


def test_with_it_each_event_but_the_first_is_one_version_old(whole: TrainResult) -> None:
    assert [rollout.policy[-2:] for rollout in whole.rollouts[::16]] == ["+0", "+0", "+1"]
    assert [row["staleness"] for row in whole.metrics] == [0, 1, 1]
    assert whole.rollouts_made == 3 * 16
    assert not published_folder(whole.checkpoint.path).exists()


def test_a_stopped_training_makes_what_it_dropped_again_to_the_bit(
    whole: TrainResult,
    child: PolicyChild,
    engine: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
) -> None:
    for at in (1, 2):
        stop, out = Stop(at), tmp_path / "out"
        with pytest.raises(Interrupted, match=f"saved as of step {at} of 3"):
            train(
                child, engine, session, nano_policy, out,
                seal_every=100, on_metrics=stop.on_metrics, stopping=stop,
            )  # fmt: skip
    same(whole, train(child, engine, session, nano_policy, out, seal_every=100))


@pytest.mark.parametrize("which", ["trainer", "engine"])
def test_a_training_of_which_a_child_was_killed_ends_like_an_undisturbed_one(
    which: str,
    whole: TrainResult,
    child: PolicyChild,
    engine: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
) -> None:
    last_asked = {"trainer": 2, "engine": 1}[which]  # the engine is a step ahead of three

    with PolicyChild(threads=1) as victim:

        def on_metrics(row: JSON) -> None:
            if row["step"] == last_asked:
                os.kill(victim.pid, signal.SIGKILL)

        pair = (victim, engine) if which == "trainer" else (child, victim)
        with pytest.raises(InfrastructureError, match=r"SIGKILL|no token ids"):
            train(*pair, session, nano_policy, tmp_path / "out", on_metrics=on_metrics)
    same(whole, train(child, engine, session, nano_policy, tmp_path / "out"))
