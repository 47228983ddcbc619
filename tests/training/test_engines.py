"""Trainings whose rollouts a real vLLM samples on the CPU, under the weights of each step.

One engine for all tests of nano, one for adapters: on two cores each takes a minute to start.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("trl", reason="needs the train extra")

from meta_agent.core.errors import ProviderError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.lab._rows import Again
from meta_agent.core.lab.training import TrainResult
from meta_agent.core.protocols import JSON
from meta_agent.domains.nano import NanoSwe
from meta_agent.policies.engines.talks import NanoTalks, Talks
from meta_agent.policies.fleet import EngineGateway, Fleet, Patience, Routes, Served
from meta_agent.policies.fleet.launch import VllmLaunch
from meta_agent.policies.served.vllm_server import PYTHON_VARIABLE
from meta_agent.policies.training import PolicyChild, TrainSettings, train_policy
from meta_agent.policies.training.policy import place_of
from meta_agent.policies.training.serving.publishing import EnginePublisher
from meta_agent.policies.training.serving.speaker import Speaker
from meta_agent.policies.training.serving.untied import untied
from tests.models import _tiny_qwen, _vllm
from tests.training import _loop

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(1800)]

RECIPE = {**_loop.TINY, "learning_rate": 3e-3}  # every step changes what is said
CLOSE = 1e-3
"""How far the engine's log-probabilities may be from the trainer's, in float32."""


@pytest.fixture(scope="module")
def environment() -> Iterator[None]:
    python = _vllm.require_vllm()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PYTHON_VARIABLE, python)
        for name, value in _vllm.COMPILE_NOTHING.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def nano_fleet(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    launch = VllmLaunch(tmp_path_factory.mktemp("logs"), context_tokens=256)
    patience = Patience(poll_sec=0.1)
    base = untied(place_of("nano")[0], tmp_path_factory.mktemp("base") / "untied")
    fleet = Fleet(launch, 1, Served("base", base), patience=patience)
    yield fleet
    fleet.close()


def train(
    child: PolicyChild,
    fleet: Fleet,
    talks: Talks,
    session: HarnessSession,
    base: str | Path,
    out: Path,
    *,
    context: int = 256,
    **options: Any,
) -> TrainResult:
    gateway = EngineGateway(fleet, talks, "before", context)
    domain = NanoSwe()
    return train_policy(
        child,
        Again(domain, session, gateway, _loop.STAMP),
        session,
        domain,
        **{"recipe": RECIPE, "seed": 1, "steps": 3, "keep_steps": 3, **options},
        base_policy=base,
        out_dir=out,
        publisher=EnginePublisher(child, fleet, gateway, out),
    )


@pytest.fixture
def corrected(child: PolicyChild) -> Iterator[PolicyChild]:
    plain = child.settings
    child.settings = replace(plain, corrected=True)
    yield child
    child.settings = plain


def require_sampled_by_each_step(result: TrainResult) -> None:
    """Weights move by far more than `CLOSE` each step: rows of older ones would not agree."""
    versions = [one.policy.rpartition("+")[2] for one in result.rollouts]
    assert versions == [str(step) for step in range(len(result.metrics)) for _ in range(16)]
    assert all(row["grad_norm"] > 0 for row in result.metrics)
    assert max(row["mismatch_max"] for row in result.metrics) < CLOSE
    assert all(one.error is None and one.tokens and one.tokens.exact for one in result.rollouts)


def routes(fleet: Fleet) -> Routes:
    found = fleet.replicas[0].routes()
    assert found is not None
    return found


def test_only_this_user_reaches_an_engine(nano_fleet: Fleet) -> None:
    at = routes(nano_fleet)._at
    assert stat.S_ISSOCK(at.stat().st_mode)
    assert stat.S_IMODE(at.parent.stat().st_mode) == stat.S_IRWXU
    with pytest.raises(ProviderError, match="401"):
        Routes(at, "another key").take_adapter("name", at.parent, 60.0)


def test_nano_trains_on_what_the_engine_samples_although_it_is_killed_between_two_steps(
    corrected: PolicyChild, nano_fleet: Fleet, session: HarnessSession, tmp_path: Path
) -> None:
    before = nano_fleet.replaced

    def on_metrics(row: JSON) -> None:
        if row["step"] == 2:
            engine: Any = nano_fleet.replicas[0]._engine
            (guard,) = psutil.Process(engine.pid).children()
            (server,) = guard.children()
            os.killpg(server.pid, signal.SIGKILL)

    result = train(
        corrected, nano_fleet, NanoTalks(256), session, "nano", tmp_path / "out",
        on_metrics=on_metrics,
    )  # fmt: skip
    require_sampled_by_each_step(result)
    assert result.metrics[-1]["publish_sec"] > 0
    assert nano_fleet.replaced == before + 1


def test_adapters_of_a_model_with_a_template_are_served_step_by_step(
    environment: None, session: HarnessSession, tmp_path: Path
) -> None:
    base = _tiny_qwen.write(tmp_path / "tiny")
    launch = VllmLaunch(tmp_path / "logs", context_tokens=4096)
    fleet = Fleet(launch, 1, Served("base", base), rank=8)
    settings = TrainSettings(lora_rank=8, corrected=True)
    try:
        with Speaker(threads=1) as speaker, PolicyChild(threads=1, settings=settings) as child:
            speaker.load(f"hf:{base}")
            recipe = {**RECIPE, "lora_r": 8, "learning_rate": 0.02}
            result = train(
                child, fleet, speaker, session, f"hf:{base}", tmp_path / "out",
                recipe=recipe, steps=2, context=4096,
            )  # fmt: skip
    finally:
        fleet.close()
    require_sampled_by_each_step(result)
    assert fleet.served.adapter is not None and fleet.served.weights == base
