"""What holds for the warm start of every suite: its demonstrations, and its checkpoint."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import meta_agent
from maintain import code_demos, math_demos, swe_demos
from maintain.drive import Scaffold, lock_step, search_plans
from meta_agent.composition.inputs import base_policy
from meta_agent.core.protocols import GenerateReply, GenerateRequest
from meta_agent.core.settings import resolve
from meta_agent.domains.nano import NanoSwe, code, math
from meta_agent.policies.engines.nano_tokenizer import encode, render
from meta_agent.policies.training.policy import place_of

CHECKPOINTS = Path(meta_agent.__file__).parent / "domains" / "nano" / "checkpoints"
DEMOS = {"swe": swe_demos, "math": math_demos, "code": code_demos}
SUITES = pytest.mark.parametrize("suite", DEMOS)
HAS_TRAIN = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
needs_train = pytest.mark.skipif(not HAS_TRAIN, reason="needs the train extra")


def notes(suite: str) -> Any:
    return json.loads((CHECKPOINTS / suite / "manifest.json").read_text())["notes"]


@SUITES
def test_a_demonstration_depends_on_its_number_only(suite: str) -> None:
    demonstration = DEMOS[suite].demonstration
    assert demonstration(17) == demonstration(17)
    assert demonstration(17) != demonstration(18)


@pytest.mark.parametrize(
    ("suite", "ceilings"), [("math", math.NanoMath.ceilings), ("code", code.NanoCode.ceilings)]
)
def test_every_demonstration_fits_the_ceilings(suite: str, ceilings: Any) -> None:
    for messages in map(DEMOS[suite].demonstration, range(1500)):
        replies = [m["content"] for m in messages if m["role"] == "assistant"]
        assert len(replies) <= ceilings.max_turns
        assert all(len(text) < ceilings.max_tokens_per_turn for text in replies)
        assert len(encode(render(messages))) <= ceilings.max_context_tokens


@pytest.mark.parametrize(
    ("domain", "policy", "base"),
    [
        ("code", "nano", "nano:code"),
        ("math", "nano", "nano:math"),
        ("swe", "nano", "nano"),
        ("math", "hf:somewhere", "hf:somewhere"),
    ],
)
def test_a_suite_starts_from_its_own_warm_start(domain: str, policy: str, base: str) -> None:
    assert base_policy(resolve({"domain": domain, "policy": policy})) == base
    if policy == "nano":
        assert place_of(base)[0] == CHECKPOINTS / domain


@pytest.mark.train
@needs_train
@pytest.mark.parametrize(
    ("suite", "domain", "megabytes", "low", "high"),
    [
        ("swe", NanoSwe, 5, 0.4, 0.6),
        ("math", math.NanoMath, 4, 0.3, 0.55),
        ("code", code.NanoCode, 4, 0.3, 0.55),
    ],
)
def test_the_checkpoint_is_whole_small_and_measured_on_this_very_evaluator(
    suite: str, domain: Any, megabytes: int, low: float, high: float
) -> None:
    from meta_agent.policies.training.checkpoint import open_checkpoint

    assert open_checkpoint(CHECKPOINTS / suite).kind == "nano"
    assert sum(path.stat().st_size for path in (CHECKPOINTS / suite).iterdir()) < megabytes * 10**6
    told = notes(suite)
    assert told["suite"] == suite and told["evaluator_hash"] == domain().evaluator_hash
    assert low < told["measured"]["success"] < high


@pytest.mark.train
@needs_train
def test_a_checkpoint_solves_as_often_as_its_notes_say() -> None:
    """One suite shows whether the engine still samples as it did; each pins its evaluator above."""
    from transformers import AutoModelForCausalLM

    from maintain.warmstart import measure

    suite = "math"
    model = AutoModelForCausalLM.from_pretrained(CHECKPOINTS / suite)
    again = measure(model, seed=1, samples=1, suite=suite)  # other random numbers than the notes'
    assert again["success"] == pytest.approx(notes(suite)["measured"]["success"], abs=0.06)


class LastMoment:
    """Tests again and again, and submits in the last turn that there is."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def generate(self, requests: list[GenerateRequest]) -> list[GenerateReply]:
        said = ["s" if request.turn == self.turns - 1 else "t" for request in requests]
        return [GenerateReply(action, "stop", 8, 1) for action in said]

    def finish(self, keys: list[str]) -> None: ...


def test_what_is_asked_for_in_the_last_turn_is_still_done() -> None:
    scaffold = Scaffold("swe")
    turns = scaffold.domain.ceilings.max_turns
    (attempt,) = lock_step(scaffold, LastMoment(turns), search_plans(scaffold, 1, 0))
    assert attempt.turns == turns
    assert attempt.environment.verifier_inputs()["submitted"] is True
