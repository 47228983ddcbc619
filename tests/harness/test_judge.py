"""The judge of a reward: recorded, paid once, typed if it answers nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from meta_agent.core.errors import BudgetError, InfrastructureError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.harness.judge import RewardJudge
from meta_agent.core.protocols import RolloutFailure
from meta_agent.sandboxes import open_sandbox
from tests.loopback import Call, Say, openai_server
from tests.models._clients import opened, script

from ..rollouts._laboratory import tree
from ._samples import sample

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "rewards.md"
QUESTIONS = ["how good is a?", "how good is b?", "how good is a?"]


def test_a_question_is_asked_and_paid_once_also_after_a_restart(tmp_path: Path) -> None:
    asked: list[str] = []

    def brain(call: Call) -> Say:
        asked.append(str(call.messages[-1]["content"]))
        return Say("7", input_tokens=20, output_tokens=5)

    with openai_server(brain) as url:
        settings = {"models": {"reward": "openai/any"}, "base_urls": {"all": url}}
        for _ in range(2):  # the second is the run after a crash
            with opened(tmp_path, **settings) as run:
                answers = RewardJudge(run.client, "openai/any")(QUESTIONS)
                assert answers == ["7", "7", "7"]
                assert run.ledger.spend()["reward"].tokens == 50
    assert sorted(asked) == sorted(set(QUESTIONS))


def test_the_judge_has_a_cap_of_its_own(tmp_path: Path) -> None:
    model = script(tmp_path / "s.jsonl", ("reward/*", {"content": "7"}))
    settings = {"models": {"reward": model}, "role_max_tokens": {"reward": 50}}
    with opened(tmp_path, **settings) as run, pytest.raises(BudgetError, match="reward"):
        RewardJudge(run.client, model)(QUESTIONS)


def test_a_judge_that_answers_nothing_is_typed(tmp_path: Path) -> None:
    def brain(call: Call) -> Say:
        return Say("" if "is b" in str(call.messages) else "7")

    with (
        openai_server(brain) as url,
        opened(tmp_path, models={"reward": "openai/any"}, base_urls={"all": url}) as run,
    ):
        judge = RewardJudge(run.client, "openai/any")
        first, nothing, last = judge(QUESTIONS)
        assert isinstance(nothing, RolloutFailure) and nothing.kind == "verifier"
        assert (first, last, judge([])) == ("7", "7", [])
        with pytest.raises(InfrastructureError, match="openai/any"):
            judge([QUESTIONS[1]])


def test_the_harness_of_the_page_runs_on_a_scripted_judge(tmp_path: Path) -> None:
    """Graded by a judge, with a filter by spread and a length penalty that grows."""
    reward, keep, *_ = re.findall(
        r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert len((reward + keep).splitlines()) < 60
    model = script(tmp_path / "s.jsonl", ("reward/*", {"content": "I give 6"}))
    failed, long, short = (
        sample(
            group_id="train/0010/000",
            outcome=solved,
            messages=[{"role": "user", "content": "?"}, {"role": "assistant", "content": text}],
        )
        for solved, text in ((False, "no"), (True, "a long way to say it"), (True, "it"))
    )
    with (
        opened(tmp_path, models={"reward": model}) as run,
        open_sandbox("process", run="test") as sandbox,
    ):
        held = HarnessSession(sandbox, tree(reward=reward, filter=keep))
        assert all(row.ok for row in held.check([failed, long, short], [])), "contract"
        held.ask_judge = RewardJudge(run.client, model)
        rows = held.reward([failed, long, short])
        spent = run.ledger.spend()["reward"]
        group = {"task_key": "a", "outcomes": [True, True]}
        spreads = [{**group, "rewards": [1.0, 1.01]}, {**group, "rewards": [1.0, 1.2]}]
        assert held.keep(spreads) == [0.0, 1.0]
    assert rows[0] == {"solved": 0.0, "quality": 0.6, "short": 0.0}
    assert rows[1] == {"solved": 1.0, "quality": 1.0, "short": 0.0}
    assert rows[2] == {"solved": 1.0, "quality": 1.0, "short": 0.5}  # half of the way to step 20
    assert (failed.judged, long.judged) == ("I give 6", None) and spent.tokens > 0
