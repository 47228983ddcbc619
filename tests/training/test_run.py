"""The host's training loop, on real rollouts of nano-swe in the process sandbox."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import CandidateError, Interrupted
from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import JSON, PlannedRollout, Rollout, RolloutFailure, TokenRecord
from meta_agent.policies.training import Advantages, PolicyChild, RolloutEvent
from meta_agent.policies.training.events.groups import words_by_task
from meta_agent.policies.training.run import _Loop
from meta_agent.policies.training.seals import Sealed
from tests.training._loop import Drops, FakeDomain, FakeHarness, FakeRunner, loop, run


@pytest.mark.train
def test_a_run_leaves_metrics_rollouts_and_a_checkpoint(
    child: PolicyChild, session: HarnessSession, nano_policy: Path, tmp_path: Path
) -> None:
    rows: list[dict[str, JSON]] = []
    result = run(
        child, session, nano_policy, tmp_path / "out",
        seed=1, keep_steps=1, on_metrics=rows.append,
    )  # fmt: skip
    assert rows == result.metrics and [row["step"] for row in rows] == [1, 2, 3]
    assert {"loss", "reward_mean", "success", "clean_success", "turns_mean"} <= rows[0].keys()
    stops = sum(value for name, value in rows[0].items() if name.startswith("stop_"))
    assert stops == pytest.approx(1.0)
    assert result.rollouts_made == 3 * 16 and len(result.rollouts) == 2 * 16
    assert all(rollout.advantage is not None for rollout in result.rollouts)
    assert all(rollout.tokens is None or rollout.tokens.exact for rollout in result.rollouts)
    assert [result.rollouts[at].policy[-2:] for at in (0, -1)] == ["+0", "+2"]  # steps done
    assert result.checkpoint.path == tmp_path / "out" and child.policy == result.checkpoint.policy


@pytest.mark.train
def test_the_seed_decides_everything(
    child: PolicyChild, session: HarnessSession, nano_policy: Path, tmp_path: Path
) -> None:
    seeds = {"a": 1, "b": 1, "c": 2}
    made = {
        name: run(child, session, nano_policy, tmp_path / name, seed=seed)
        for name, seed in seeds.items()
    }
    policies = {name: result.checkpoint.policy for name, result in made.items()}
    assert policies["a"] == policies["b"] != policies["c"]
    first, second = (
        [{k: v for k, v in row.items() if not k.endswith("_sec")} for row in made[name].metrics]
        for name in "ab"
    )
    assert first == second


def test_a_short_order_is_refilled_and_repeated_tasks_get_other_samples() -> None:
    runner, harness = FakeRunner(), FakeHarness(["b", "d"])
    loop(runner, harness).provide(RolloutEvent(4, 3, 2))
    asked = [(planned.task.key, planned.sample_idx) for planned in runner.plan]
    assert asked == [("b", 0), ("b", 1), ("d", 0), ("d", 1), ("b", 2), ("b", 3)]
    assert len({planned.seed for planned in runner.plan}) == 1
    assert len({planned.group_id for planned in runner.plan}) == 3


def test_the_curriculum_sees_true_outcomes_so_far() -> None:
    runner, harness = FakeRunner(1), FakeHarness(["b", "d"])
    made = loop(runner, harness)
    made.provide(RolloutEvent(0, 2, 2))
    made.provide(RolloutEvent(1, 2, 2))
    assert harness.histories == [
        {},
        {"b": {"tries": 1, "solved": 1}, "d": {"tries": 2, "solved": 1}},
    ]


def test_spoiled_rows_have_no_reward_and_leave_their_group() -> None:
    runner, harness = FakeRunner(0, 1, 2), FakeHarness(["b", "d"])
    rows = loop(runner, harness).provide(RolloutEvent(0, 2, 2))
    assert [row.reward for row in rows] == [None, None, None, 0.0]
    assert harness.groups == [{"task_key": "d", "rewards": [0.0], "outcomes": [False]}]
    assert [row.weight for row in rows] == [1.0, 1.0, 0.5, 0.5]


def test_a_rollout_that_the_judge_did_not_answer_leaves_its_group() -> None:
    class Judged(FakeHarness):
        def reward(self, rollouts: Sequence[Rollout]) -> list[dict[str, float]]:
            rollouts[1].error = RolloutFailure("verifier", "the judge answered nothing")
            return [{"solved": 1.0}, {}, {"solved": 0.0}, {"solved": 1.0}]

    harness = Judged(["b", "d"])
    rows = loop(FakeRunner(), harness).provide(RolloutEvent(0, 2, 2))
    assert [row.reward for row in rows] == [2.0, None, 0.0, 2.0]
    assert [group["rewards"] for group in harness.groups] == [[2.0], [0.0, 2.0]]


def test_what_a_filter_remembers_is_sealed_and_restored() -> None:
    harness = FakeHarness(["b"])
    made = loop(FakeRunner(), harness)
    harness.remembered = {"b": 0.5}
    made.provide(RolloutEvent(0, 1, 2))
    state, rollouts = made.state()
    other = FakeHarness(["b"])
    loop(FakeRunner(), other).restore(Sealed(1, json.loads(json.dumps(state)), rollouts))
    assert other.remembered == {"b": 0.5}


def test_dropped_groups_are_refilled_by_further_prompts_of_the_curriculum() -> None:
    harness = Drops(["b", "d", "a", "c"], "b", "a")
    made = loop(FakeRunner(), harness, 3)
    rows = made.provide(RolloutEvent(0, 2, 2))
    assert [row.weight for row in rows] == [1.0] * 4
    assert [rollout.task_key for rollout in made.remembered()] == [*"bbddaacc"]
    assert [rollout.task_key for rollout in made._latest] == [*"ddcc"]
    assert len({rollout.group_id for rollout in made.remembered()}) == made.rollouts_made // 2 == 4
    assert [sorted(history) for history in harness.histories] == [[], ["b", "d"], ["a", "b", "d"]]
    assert (made._host_values["refilled_ratio"], made.state()[0]["_filter_state"]) == (1.0, 4)


def test_a_refill_ends_with_its_factor_and_repeats_prompts_if_there_are_no_others() -> None:
    runner, harness = FakeRunner(), Drops(["b", "d"], "b", "d")
    made = loop(runner, harness, 1.5)
    rows = made.provide(RolloutEvent(0, 2, 2))
    assert [row.weight for row in rows] == [0.0] * 4 and made.rollouts_made == 6
    assert [(p.task.key, p.sample_idx) for p in runner.plan] == [("b", 2), ("b", 3)]


def test_a_refilled_batch_is_sealed_with_its_weights_and_not_made_again() -> None:
    asked = iter([False, False, False, True])
    harness, runner = Drops(["b", "d", "a"], "b"), FakeRunner()
    made = loop(runner, harness, 2, stopping=lambda: next(asked))
    seals: list[tuple[dict[str, JSON], list[Rollout]]] = []
    with pytest.raises(Interrupted):
        made.provide(RolloutEvent(0, 2, 2), lambda _: seals.append(made.state()))
    state, rollouts = seals[-1]
    other, nobody = Drops(["b"], "d"), FakeRunner()
    resumed = loop(nobody, other, 2)
    resumed.restore(Sealed(1, json.loads(json.dumps(state)), rollouts))
    rows = resumed.provide(RolloutEvent(0, 2, 2))
    assert [row.weight for row in rows] == [1.0] * 4 and not nobody.plan and not other.histories
    assert [rollout.task_key for rollout in resumed._latest] == [*"ddaa"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"a": ["red fox", "red dog"], "b": ["blue cat", "blue cow"]}, 1.0),
        ({"a": ["let me think", "sure thing"], "b": ["let me think", "sure thing"]}, -1.0),
        ({"a": ["same", "same"], "b": ["same", "same"]}, 0.0),
        ({"a": ["red fox", "red dog"], "b": ["alone"]}, None),
    ],
)
def test_words_that_depend_on_the_task_tell_it(
    texts: dict[str, list[str]], expected: float | None
) -> None:
    """The second row is below chance: the only attempt with the same words is of the other task."""
    rollouts = [
        Rollout(
            run="r", version="v", domain="d", split="train", task_key=key, task_hash="h",
            group_id=key, sample_idx=0, seed=0, harness_commit="c", policy="p",
            evaluator_hash="e", messages=[{"role": "assistant", "content": text}],
        )
        for key, replies in texts.items()
        for text in replies
    ]  # fmt: skip
    assert words_by_task(rollouts) == expected


def test_rewards_are_weighted_and_advantages_come_back_into_the_record() -> None:
    runner, harness = FakeRunner(), FakeHarness(["b"])
    made = loop(runner, harness)
    rows = made.provide(RolloutEvent(0, 1, 2))
    assert [row.reward for row in rows] == [2.0, 0.0]
    made.on_advantages(Advantages(0, [0.7, -0.7]))
    assert [rollout.advantage for rollout in made.remembered()] == [0.7, -0.7]


def test_training_seeds_never_share_random_numbers() -> None:
    plans = []
    for seed in (1, 2):
        runner = FakeRunner()
        made = _Loop(
            runner, FakeHarness(["a"]), FakeDomain(), {"temperature": 0.8}, seed, 1, None  # type: ignore[arg-type]
        )  # fmt: skip
        for step in range(3):
            made.provide(RolloutEvent(step, 1, 2))
            plans += [planned.seed for planned in runner.plan[:1]]
    assert len(set(plans)) == 6


class TalksOnTokens(FakeRunner):
    """Its policy wrote 19 tokens into each row, and so many more that no row has."""

    def __init__(self, *lost: int) -> None:
        super().__init__()
        self._of_events = iter(lost)

    def run(self, *args: Any, **options: Any) -> list[Rollout]:
        rollouts, lost = super().run(*args, **options), next(self._of_events)
        for rollout in rollouts:
            rollout.tokens = TokenRecord([1], [2] * 20, [1] * 19 + [0], [0.0] * 20, lost=lost)
        return rollouts


def test_training_stops_where_what_was_sampled_is_not_in_the_rows() -> None:
    made = loop(TalksOnTokens(0, 2, 3), FakeHarness(["b"]), min_exact=0.95)
    made.provide(RolloutEvent(0, 1, 2))
    made.provide(RolloutEvent(1, 1, 2))  # 76 of 80 so far
    with pytest.raises(CandidateError, match=r"91\.9% of the sampled tokens can be trained on"):
        made.provide(RolloutEvent(2, 1, 2))


def test_rollouts_in_which_a_stop_was_asked_for_are_dropped() -> None:
    """A signal to a whole job ends their sandboxes, too."""
    asked = [False, True]
    made = loop(FakeRunner(0, 1), FakeHarness(["b"]), stopping=lambda: asked.pop(0))
    before = deepcopy(made.state())
    with pytest.raises(Interrupted):
        made.provide(RolloutEvent(0, 1, 2))
    assert made.state() == before and not asked


class Raises(FakeRunner):
    """Plays a harness that raises; `begun` of its rollouts had asked the model before."""

    def __init__(self, begun: int) -> None:
        super().__init__()
        self._begun = begun

    def _play(self, index: int, planned: PlannedRollout) -> Rollout:
        made = super()._play(index, planned)
        made.outcome, made.turns = False, int(index < self._begun)
        made.error = RolloutFailure("policy", "KeyError: 'problem'\nTraceback ...")
        return made


def test_a_harness_that_raises_before_it_asks_the_model_trains_nothing() -> None:
    with pytest.raises(CandidateError, match=r"all 2 attempts .* first model call: KeyError: 'pr"):
        loop(Raises(0), FakeHarness(["b"])).provide(RolloutEvent(0, 1, 2))
    assert len(loop(Raises(1), FakeHarness(["b"])).provide(RolloutEvent(0, 1, 2))) == 2


def test_a_nano_policy_trains_on_what_there_is() -> None:
    made = loop(TalksOnTokens(100), FakeHarness(["b"]))
    assert len(made.provide(RolloutEvent(0, 1, 2))) == 2
