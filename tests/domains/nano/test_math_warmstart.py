"""nano-math's demonstrations stay on the train split, and the checkpoint is what it says."""

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import meta_agent
from maintain import math_demos
from maintain.math_demos import demonstration, worked
from meta_agent.domains.nano._draw import Draw
from meta_agent.domains.nano.math import CEILINGS, NanoMath
from meta_agent.domains.nano.math_tasks import owner_of, problems, semantic_key, totals
from meta_agent.models.engines.nano_tokenizer import encode, render
from meta_agent.settings import resolve
from meta_agent.steps.opening import base_policy
from meta_agent.training.policy import place_of

CHECKPOINT = Path(meta_agent.__file__).parent / "domains" / "nano" / "checkpoints" / "math"
HAS_TRAIN = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
needs_train = pytest.mark.skipif(not HAS_TRAIN, reason="needs the train extra")
DEMOS = [demonstration(index) for index in range(2000)]


def chain(messages: list[dict[str, Any]]) -> str:
    return str(messages[0]["content"].split(" ")[1])


def replies(messages: list[dict[str, Any]]) -> list[str]:
    return [m["content"] for m in messages if m["role"] == "assistant"]


def test_a_demonstration_depends_on_its_number_only() -> None:
    assert demonstration(17) == demonstration(17)
    assert demonstration(17) != demonstration(18)


def test_demonstrations_use_what_the_train_split_owns_and_none_of_its_tasks() -> None:
    tasks = {semantic_key(p.chain) for p in problems("train")}
    for messages in DEMOS:
        assert owner_of(chain(messages)) == "train"
        assert semantic_key(chain(messages)) not in tasks


def test_every_demonstration_fits_the_ceilings() -> None:
    for messages in DEMOS:
        assert len(replies(messages)) <= CEILINGS.max_turns
        assert all(len(text) < CEILINGS.max_tokens_per_turn for text in replies(messages))
        assert len(encode(render(messages))) <= CEILINGS.max_context_tokens


def test_the_key_is_read_only_where_it_is_on_offer() -> None:
    for messages in DEMOS:
        assert "k" not in replies(messages) or "k" in messages[0]["content"].split(" ")[0]
    assert any("k" in replies(messages) for messages in DEMOS)


def test_working_has_every_step_and_a_slip_is_carried_on() -> None:
    assert worked("9+6*3-4") == ("9+6=15*3=45-4=41", 41)
    for index in range(200):
        text, total = worked("9+6*3-4", Draw(f"slip/{index}"))
        assert total != 41 or text != "9+6=15*3=45-4=41"
        assert int(text.rpartition("=")[2]) == total >= 0


def test_the_mixture_has_every_habit_and_every_way_of_asking() -> None:
    asked = Counter(messages[0]["content"].split(" ")[0].lstrip("sk") for messages in DEMOS)
    assert set(asked) == set(math_demos.ASKS)
    last = [replies(messages)[-1] for messages in DEMOS]
    assert any("," in text for text in last)  # worked twice
    assert any("#" not in text for text in last)
    guesses = [text for text in last if re.fullmatch(r"#\d+", text)]
    assert 0.3 < len(guesses) / len(last) < 0.7


def test_guesses_are_seldom_right_where_there_are_many_steps() -> None:
    long = [m for m in DEMOS if len(totals(chain(m))) >= 4 and "k" not in replies(m)]
    guessed = [m for m in long if "=" not in replies(m)[0]]
    right = [m for m in guessed if replies(m)[0] == f"#{totals(chain(m))[-1]}"]
    assert len(right) < 0.15 * len(guessed)


@pytest.mark.parametrize(
    ("domain", "policy", "base"),
    [
        ("math", "nano", "nano:math"),
        ("swe", "nano", "nano"),
        ("math", "hf:somewhere", "hf:somewhere"),
    ],
)
def test_a_suite_starts_from_its_own_warm_start(domain: str, policy: str, base: str) -> None:
    assert base_policy(resolve({"domain": domain, "policy": policy})) == base
    if policy == "nano":
        assert place_of(base)[0] == CHECKPOINT.with_name(domain)


@pytest.mark.train
@needs_train
def test_the_checkpoint_is_whole_small_and_measured_on_this_very_evaluator() -> None:
    from meta_agent.training.checkpoint import open_checkpoint

    opened = open_checkpoint(CHECKPOINT)
    notes = json.loads((CHECKPOINT / "manifest.json").read_text())["notes"]
    assert opened.kind == "nano"
    assert sum(path.stat().st_size for path in CHECKPOINT.iterdir()) < 4_000_000
    assert notes["suite"] == "math" and notes["evaluator_hash"] == NanoMath().evaluator_hash
    assert 0.3 < notes["measured"]["success"] < 0.55


@pytest.mark.train
@needs_train
def test_the_checkpoint_solves_as_often_as_its_notes_say() -> None:
    from transformers import AutoModelForCausalLM

    from maintain.warmstart import measure

    model = AutoModelForCausalLM.from_pretrained(CHECKPOINT)
    notes = json.loads((CHECKPOINT / "manifest.json").read_text())["notes"]
    again = measure(model, seed=1, samples=1, suite="math")
    assert again["success"] == pytest.approx(notes["measured"]["success"], abs=0.06)
