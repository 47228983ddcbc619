"""Rules about diagnostics: what is measured next, and what is done with what was admitted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from meta_agent.core.harness import parse_contract
from meta_agent.core.proposals import Situation
from meta_agent.core.protocols import HarnessTree, Rollout, ToolEvent
from meta_agent.core.task_splits import is_shown
from meta_agent.proposers import Proposal
from meta_agent.proposers.rules._rewards import RewardFile
from meta_agent.proposers.rules._source import PythonFile
from tests.agents._rules import evidence, find, namespace, rollout, tree

STEPS, REPLY = "watch-steps", "watch-reply"


def attempt(task: int, clean: bool, *, tested: bool = False, reply: str = "3") -> Rollout:
    names = {"task_key": f"train-{task}", "group_id": f"g{task}", "split": "train"}
    calls = [("edit", "ok"), *([("test", "2t ok")] if tested else []), ("submit", "done")]
    blank = dict.fromkeys(("run", "version", "domain", "task_hash"), "")
    blank |= dict.fromkeys(("harness_commit", "policy", "evaluator_hash"), "")
    return Rollout(
        **blank, **names, sample_idx=0, seed=0, outcome=clean,  # type: ignore[arg-type]
        tool_events=[ToolEvent(1, tool, {}, result, True) for tool, result in calls],
        messages=[{"role": "assistant", "content": reply}],
    )  # fmt: skip


def careful_ones_win() -> list[Rollout]:
    return [
        attempt(task, clean=sample < 4, tested=sample in (0, 1, 2, 4), reply=f"it is {sample}")
        for task in range(40)
        for sample in range(8)
    ]


def suggested(rule: str, attempts: Sequence[Rollout], harness: HarnessTree) -> Proposal | None:
    return find(rule, evidence(), harness, Situation(attempts=lambda: attempts))


def with_edits(proposal: Proposal) -> HarnessTree:
    files = tree().files | {path: text.encode() for path, text in proposal.edits.items()}
    return HarnessTree("a" * 40, "t" * 40, files)


def test_the_call_that_clean_attempts_make_becomes_a_diagnostic() -> None:
    proposal = suggested(STEPS, careful_ones_win(), tree())
    assert proposal is not None
    ((path, source),) = proposal.edits.items()
    assert parse_contract(tree()).factor_of([path]) == "diagnostics"
    scope = namespace(source)
    assert scope["MARK"] in (("test ok", "submit done"), ("edit ok", "test ok"))
    assert proposal.hypothesis.metric == f"measured.{scope['NAME']}.share"
    assert scope["THRESHOLDS"]["share"]["direction"] == "below"  # type: ignore[index]
    events = [{"tool": t, "result": r} for t, r in (("edit", "ok"), ("test", "ok"))]
    careful = rollout(tool_events=[*events, {"tool": "submit", "result": "done"}])
    measure = scope["measure"]
    assert measure([careful, rollout()]) == {"share": 0.5}  # type: ignore[operator]
    assert measure([]) == {}  # type: ignore[operator]
    assert "+50%" in proposal.hypothesis.statement


def test_a_word_of_the_last_reply_becomes_a_diagnostic() -> None:
    attempts = [
        replace(row, messages=[{"role": "assistant", "content": "perhaps " * (not row.clean)}])
        for row in careful_ones_win()
    ]
    proposal = suggested(REPLY, attempts, tree())
    assert proposal is not None
    (source,) = proposal.edits.values()
    scope = namespace(source)
    assert scope["MARK"] in (
        ("holds", "perhaps"),
        ("begins with", "perhaps"),
        ("ends with", "perhaps"),
    )
    assert scope["THRESHOLDS"]["share"]["direction"] == "above"  # type: ignore[index]
    hedge = rollout(messages=[{"role": "assistant", "content": "perhaps"}])
    assert scope["measure"]([hedge, rollout()]) == {"share": 0.5}  # type: ignore[operator]


@pytest.mark.parametrize("attempts", [[], careful_ones_win()[:16]])
def test_few_groups_suggest_nothing(attempts: list[Rollout]) -> None:
    assert suggested(STEPS, attempts, tree()) is None


def test_what_is_measured_is_not_suggested_again() -> None:
    first = suggested(STEPS, careful_ones_win(), tree())
    assert first is not None
    second = suggested(STEPS, careful_ones_win(), with_edits(first))
    assert second is None or second.edits.keys() != first.edits.keys()


def test_attempts_at_held_out_tasks_are_not_read() -> None:
    held_out = [row for row in careful_ones_win() if not is_shown(row.task_key)]
    assert held_out and suggested(STEPS, held_out, tree()) is None


# --- what an admitted diagnostic leads to ---------------------------------------------------------


def admitted(proposal: Proposal) -> Proposal | None:
    metric = proposal.hypothesis.metric
    found = evidence(**{metric.replace(".", "__"): 0.3})
    return find(
        "pay-foretold", replace(found, foretells={metric: (0.75, 0.7, 0.8)}), with_edits(proposal)
    )


def test_an_admitted_diagnostic_is_paid_for_and_named_in_the_reason() -> None:
    watched = suggested(STEPS, careful_ones_win(), tree())
    assert watched is not None
    idea = admitted(watched)
    assert idea is not None
    assert watched.hypothesis.metric in idea.hypothesis.statement
    ((path, source),) = idea.edits.items()
    assert path == "swe/reward.py"
    (name,) = re.findall(r"measured\.(\w+)\.share", watched.hypothesis.metric)
    weights = RewardFile(PythonFile(path, source)).weights
    assert weights[name] == pytest.approx((weights["solved"] + weights["submitted"]) / 4, abs=0.01)
    events = [
        {"tool": t, "result": r} for t, r in (("edit", "ok"), ("test", "ok"), ("submit", "done"))
    ]
    reward = namespace(source)["reward"]
    pays = [reward(rollout(tool_events=calls))[name] for calls in (events, [])]  # type: ignore[operator]
    assert pays == [1.0, 0.0]


def test_what_nobody_admitted_is_not_paid_for() -> None:
    watched = suggested(STEPS, careful_ones_win(), tree())
    assert watched is not None
    assert find("pay-foretold", evidence(), with_edits(watched)) is None
