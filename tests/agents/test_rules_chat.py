"""Ideas for chat harnesses around pretrained models, on the sources that ship."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Sequence
from typing import Any

import pytest

from meta_agent.core.proposals import Situation, TriedIdea
from meta_agent.core.protocols import HarnessTree, Rollout
from meta_agent.core.resources import shipped_harness
from meta_agent.proposers import Proposal, propose
from meta_agent.proposers.rules.scaffold import lower_reply_limit
from tests.agents._rules import evidence, namespace

CHATS = ("open", "math", "code", "swe")
ANSWER = '{"name": "Ada"}'


def tree(name: str = "open", edits: dict[str, tuple[str, str]] | None = None) -> HarnessTree:
    files = shipped_harness(f"chat/{name}")
    for path, (old, new) in (edits or {}).items():
        assert old in files[path].decode()
        files[path] = files[path].decode().replace(old, new).encode()
    return HarnessTree("a" * 40, "t" * 40, files)


def attempt(number: int = 0, said: str = ANSWER, *, solved: bool = True, **fields: Any) -> Rollout:
    messages = [
        {"role": "system", "content": "You do one task."},
        {"role": "user", "content": f"Who is number {number}?"},
        {"role": "assistant", "content": said},
    ]
    task = f"graded/train/{number}"
    group = fields.pop("group_id", task)
    facts: dict[str, Any] = {"outcome": solved, "messages": messages, "turns": 1, **fields}
    return Rollout(
        "r", "v", "graded", "train", task, "h", group, 0, 0, "c", "p", "e", **facts
    )  # fmt: skip


def ideas(
    harness: HarnessTree,
    attempts: Sequence[Rollout] = (),
    tried: Sequence[TriedIdea] = (),
    weights: Any = "lora",
    **metrics: float,
) -> dict[str, Proposal]:
    situation = Situation(weights=weights, attempts=lambda: attempts)
    proposals = propose(evidence(**metrics), harness, tried, (), situation=situation)
    return {proposal.hypothesis.rule: proposal for proposal in proposals}


def said_first(harness: HarnessTree, proposal: Proposal) -> str:
    (text,) = proposal.edits.values()
    ast.parse(text)
    return text


def examples_of(text: str) -> Any:
    constant = next(
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXAMPLES"
    )
    return ast.literal_eval(constant)


@pytest.mark.parametrize("name", CHATS)
def test_clean_solved_attempts_become_worked_examples(name: str) -> None:
    solved = [attempt(n) for n in range(4)]
    proposals = ideas(tree(name), solved)
    for rule, number in (("worked-example", 1), ("worked-examples", 3)):
        text = said_first(tree(name), proposals[rule])
        messages = examples_of(text)
        assert [m["role"] for m in messages] == ["user", "assistant"] * number
        assert messages[1]["content"] == ANSWER
        assert "*EXAMPLES" in text.partition('"system"')[2]


def test_without_a_solved_attempt_training_tasks_with_their_reply_become_examples() -> None:
    solutions = [(f"Who is {n}?", ANSWER) for n in range(3)] + [("long " * 2_000, ANSWER)]
    situation = Situation(weights="frozen", solutions=lambda: solutions)
    proposals = {
        proposal.hypothesis.rule: proposal
        for proposal in propose(evidence(), tree(), (), (), situation=situation)
    }
    text = said_first(tree(), proposals["worked-examples"])
    assert [f"Who is {n}?" in text for n in range(3)] == [True] * 3
    assert "worked-example" not in ideas(tree(), ())


@pytest.mark.parametrize(("failing", "is_worth_it"), [(0.0, False), (0.03, False), (0.3, True)])
def test_nothing_is_shown_where_hardly_any_attempt_fails(failing: float, is_worth_it: bool) -> None:
    proposed = ideas(tree(), [attempt(n) for n in range(4)], score__clean_success=1 - failing)
    for rule in ("worked-example", "worked-examples", "say-form"):
        assert (rule in proposed) == is_worth_it


def test_failed_flagged_and_tool_using_attempts_are_no_examples() -> None:
    rows = [attempt(0, solved=False), attempt(1, flags=["leak:log"])]
    rows[0].messages[-1]["tool_calls"] = [{"id": "1"}]
    assert "worked-example" not in ideas(tree(), rows)


def test_more_worked_examples_take_the_place_of_fewer() -> None:
    solved = [attempt(n) for n in range(4)]
    one = said_first(tree(), ideas(tree(), solved)["worked-example"])
    files = {**tree().files, "agent/agent.py": one.encode()}
    begun = ideas(HarnessTree("a" * 40, "t" * 40, files), solved)
    assert "worked-example" not in begun
    three = begun["worked-examples"].edits["agent/agent.py"]
    assert three.count("*EXAMPLES") == one.count("*EXAMPLES")
    assert len(examples_of(one)) == 2 and len(examples_of(three)) == 6


def test_words_of_an_attempt_enter_as_a_literal() -> None:
    words = '"""\n]\nimport os  # \\'
    text = said_first(tree(), ideas(tree(), [attempt(said=words)])["worked-example"])
    assert repr(words)[1:-1] in text
    assert not [
        n
        for n in ast.parse(text).body
        if "os" in ast.unparse(n) and "import os" in ast.unparse(n).splitlines()
    ]


def namespace_of(text: str) -> str:
    node = next(
        n
        for n in ast.parse(text).body
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "SYSTEM"
    )
    return str(ast.literal_eval(node.value))


def ideas_of(harness: HarnessTree, situation: Situation, **metrics: float) -> dict[str, Proposal]:
    proposals = propose(evidence(**metrics), harness, (), (), situation=situation)
    return {proposal.hypothesis.rule: proposal for proposal in proposals}


@pytest.mark.parametrize("name", CHATS)
def test_the_system_prompt_quotes_a_short_accepted_answer(name: str) -> None:
    solutions = [("Long?", "word " * 100), ("Who?", ANSWER), ("Where?", "[here()]")]
    situation = Situation(weights="frozen", solutions=lambda: solutions)
    proposal = ideas_of(tree(name), situation)["say-form"]
    ((path, text),) = proposal.edits.items()
    before = namespace_of(tree(name).files[path].decode())
    assert namespace_of(text).startswith(before.rstrip())
    assert ANSWER in namespace_of(text).removeprefix(before.rstrip())
    assert "say-form" not in ideas_of(tree(name), Situation(weights="frozen"))


def test_the_limit_of_replies_follows_references_and_no_longer_the_cut_replies() -> None:
    def limit(tokens: int) -> str:
        situation = Situation(weights="lora", reply_tokens=lambda: tokens)
        proposal = ideas_of(tree(), situation, measured__cut_reply_share=0.5).get("longer-replies")
        return proposal.edits["agent/agent.py"] if proposal else ""

    assert "MAX_TOKENS = 2048" in limit(0)
    assert "MAX_TOKENS = 640" in limit(640)
    assert limit(96) == ""
    lowered = lower_reply_limit(tree(), 96)["agent/agent.py"]
    assert "MAX_TOKENS = 96" in lowered
    assert lower_reply_limit(tree(), 640) == {}


def test_parts_of_a_grade_are_paid_where_they_tell_attempts_of_a_group_apart() -> None:
    def of_parts(name: float, **more: Any) -> dict[str, Any]:
        return {"outcome_detail": {"verdict": "not_solved", "name": name, "limit": 1.0, **more}}

    failed = [
        attempt(0, solved=False, group_id=f"g{n // 2}", rewards={"solved": 0.0}, **of_parts(n % 2))
        for n in range(4)
    ]
    text = ideas(tree(), failed)["pay-parts"].edits["agent/reward.py"]
    reward: Any = namespace(text)["reward"]
    row = {"outcome": False, "outcome_detail": {"name": 0.5, "score": 0.25}}
    assert reward(row) == {"solved": 0.0, "score": 0.25, "parts": 0.5}
    assert "name" in text and "limit" not in text.partition("def parts")[2]
    solved_without = attempt(9, **of_parts(0.0))
    assert "pay-parts" not in ideas(tree(), [*failed, solved_without])
    assert "pay-parts" not in ideas(tree(), failed[1:3])


def test_an_answer_in_a_fence_is_read_out_of_it() -> None:
    failed = [attempt(n, f"Sure!\n```json\n{ANSWER}\n```", solved=False) for n in range(4)]
    proposal = ideas(tree(), failed)["read-fenced-answer"]
    text = proposal.edits["agent/agent.py"]
    assert 'tools.call("submit", answer=unfenced(reply.content))' in text
    unfenced: Any = namespace(text[text.index("def unfenced") :])["unfenced"]
    assert unfenced(f"Sure!\n```json\n{ANSWER}\n```") == ANSWER
    assert unfenced(f"```\n{ANSWER}\n```\nDone.") == ANSWER
    assert unfenced(ANSWER) == ANSWER
    assert "read-fenced-answer" not in ideas(tree(), [attempt(solved=False)])


STILL = {
    "signal__train.reward_mean.change": 0.0,
    "signal__train.entropy.first": 1.79,
    "signal__train.entropy.change": 0.0,
    "signal__train.steps": 2.0,
}


@pytest.mark.parametrize(
    ("weights", "before", "after"), [("full", 8e-6, 2e-5), ("lora", 1e-4, 4e-4)]
)
def test_a_rate_of_pretrained_weights_stays_below_its_limit(
    weights: str, before: float, after: float
) -> None:
    harness = tree(
        edits={"agent/recipe.toml": ("learning_rate = 1e-6", f"learning_rate = {before}")}
    )
    proposal = ideas(harness, weights=weights, **STILL)["raise-learning-rate"]
    rate = tomllib.loads(proposal.edits["agent/recipe.toml"])["learning_rate"]
    assert rate == pytest.approx(after)
    ruinous = ideas(harness, weights="nano", **STILL)["raise-learning-rate"]
    assert tomllib.loads(ruinous.edits["agent/recipe.toml"])["learning_rate"] == 2.5e-3


def test_adapters_do_not_begin_at_the_rate_of_full_weights() -> None:
    lora, full = ideas(tree(), weights="lora"), ideas(tree(), weights="full")
    recipe = tomllib.loads(lora["usual-range"].edits["agent/recipe.toml"])
    assert recipe["learning_rate"] == 1e-4
    assert "usual-range" not in full
