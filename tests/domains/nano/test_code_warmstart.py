"""nano-code's demonstrations show what no task asks for, and the checkpoint is what it says."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import meta_agent
from maintain import code_demos
from maintain.code_demos import demonstration
from meta_agent.domains.nano.code import CEILINGS, NanoCode
from meta_agent.domains.nano.code_language import Program, parse
from meta_agent.domains.nano.code_tasks import owner_of, problems, semantic_key
from meta_agent.models.engines.nano_tokenizer import encode, render
from meta_agent.protocols import SPLITS
from meta_agent.settings import resolve
from meta_agent.steps.opening import base_policy
from meta_agent.training.policy import place_of

CHECKPOINT = Path(meta_agent.__file__).parent / "domains" / "nano" / "checkpoints" / "code"
HAS_TRAIN = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
needs_train = pytest.mark.skipif(not HAS_TRAIN, reason="needs the train extra")
DEMOS = [demonstration(index) for index in range(1500)]


def replies(messages: list[dict[str, Any]]) -> list[str]:
    return [m["content"] for m in messages if m["role"] == "assistant"]


def programs(messages: list[dict[str, Any]]) -> list[Program]:
    return [found for found in map(parse, replies(messages)) if found]


def tools(messages: list[dict[str, Any]]) -> str:
    return str(messages[0]["content"].split(" ")[0])


def test_a_demonstration_depends_on_its_number_only() -> None:
    assert demonstration(17) == demonstration(17)
    assert demonstration(17) != demonstration(18)


def test_demonstrations_work_on_functions_that_no_task_asks_for() -> None:
    asked = {semantic_key(p.body) for split in SPLITS for p in problems(split)}
    shown = {semantic_key(code_demos.problem_of(index).body) for index in range(300)}
    assert {owner_of(key) for key in shown} == {"demos"}
    assert not shown & asked


def test_every_demonstration_fits_the_ceilings() -> None:
    for messages in DEMOS:
        assert len(replies(messages)) <= CEILINGS.max_turns
        assert all(len(text) < CEILINGS.max_tokens_per_turn for text in replies(messages))
        assert len(encode(render(messages))) <= CEILINGS.max_context_tokens


def test_hidden_tests_are_read_only_where_they_are_on_offer() -> None:
    for messages in DEMOS:
        assert "p" not in replies(messages) or "p" in tools(messages)
    assert any("p" in replies(messages) for messages in DEMOS)


def test_the_mixture_has_every_habit_and_none_dominates() -> None:
    last = [programs(messages)[-1] for messages in DEMOS if "p" not in replies(messages)]
    assert 0.15 < sum(program.special for program in last) / len(last) < 0.35
    run = [m for m in DEMOS if "r" in replies(m)]
    hasty = [m for m in DEMOS if "r" not in replies(m) and replies(m)[-1] == "s"]
    assert len(run) > 0.3 * len(DEMOS) and len(hasty) > 0.3 * len(DEMOS)
    again = [m for m in run if len(programs(m)) > 1]
    assert len(again) > 0.2 * len(run)


def test_a_failed_run_is_followed_by_what_fits_more_often_than_not() -> None:
    better = tried = 0
    for messages in DEMOS:
        said = [m["content"] for m in messages]
        for place, text in enumerate(said[:-1]):
            found = parse(said[place + 1])
            if "~" in text and found and not found.special and text[-1] != "~":
                argument, _, rest = text.partition(">")
                tried += 1
                better += found.result(argument) == rest.partition("~")[0]
    assert better > 0.6 * tried > 0


@pytest.mark.parametrize(
    ("domain", "policy", "base"),
    [
        ("code", "nano", "nano:code"),
        ("code", "hf:somewhere", "hf:somewhere"),
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
    assert notes["suite"] == "code" and notes["evaluator_hash"] == NanoCode().evaluator_hash
    assert 0.3 < notes["measured"]["success"] < 0.55


@pytest.mark.train
@needs_train
def test_the_checkpoint_solves_as_often_as_its_notes_say() -> None:
    from transformers import AutoModelForCausalLM

    from maintain.warmstart import measure

    model = AutoModelForCausalLM.from_pretrained(CHECKPOINT)
    notes = json.loads((CHECKPOINT / "manifest.json").read_text())["notes"]
    again = measure(model, seed=1, samples=1, suite="code")
    assert again["success"] == pytest.approx(notes["measured"]["success"], abs=0.06)
