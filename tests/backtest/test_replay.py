from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import CandidateError, IntegrityError
from meta_agent.core.protocols import Rollout, ToolEvent
from meta_agent.core.replay._lines import _cut, slim
from meta_agent.core.replay._ranks import Ranks
from meta_agent.core.replay.comparison import ReplayReport
from meta_agent.core.replay.probes import PROBES
from meta_agent.core.replay.replay import CHUNK_BYTES, replay
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.rollouts.record import to_line

from ._harness import HONEST, KEEP_LIVE, PAYS_LEAKS, broken, groups, rollout, session, tree


def run(
    seen: Iterable[Rollout | bytes], *, base: dict[str, Any] | None = None, **changes: Any
) -> ReplayReport:
    commit = changes.pop("stored_commit", None)
    with session(tree(**(base or {}))) as before, session(tree("new", **changes)) as after:
        return replay(before, after, seen, stored_commit=commit)


# --- readings, through the real sandbox -----------------------------------------------------------


def test_the_same_harness_changes_nothing() -> None:
    report = run(groups("mmfs"))
    assert report.reading == "neutral"
    assert report.before == report.after
    assert (report.rollouts, report.groups, report.rank_changes) == (16, 4, 0.0)
    assert json.loads(json.dumps(report.to_json()))["reading"] == "neutral"
    assert report.before["dead_group_ratio"] == 0.5


CLEAN_ONLY = """
WEIGHTS = {"clean": 1.0}

def reward(rollout):
    return {"clean": float(bool(rollout["outcome"]) and not rollout["flags"])}
"""


def test_a_reward_that_pays_for_the_leak_harms() -> None:
    report = run(groups("llll"), reward=PAYS_LEAKS)
    assert report.reading == "harms"
    assert (report.before["ordering_violations"], report.before["ordering_ties"]) == (0.0, 0.5)
    assert report.after["ordering_violations"] == 0.5
    assert report.after["ordering_violations_by_flagged"] == 0.5
    assert (report.before["good_outranked"], report.after["good_outranked"]) == (0.0, 1.0)


def test_a_constant_offset_is_named_and_neutral_and_a_fine_for_clean_attempts_is_counted() -> None:
    report = run(groups("mfms"), reward=HONEST.replace("float(bool", "0.3 + float(bool"))
    assert report.constant_offset == pytest.approx(0.3)
    assert (report.reading, report.rank_changes) == ("neutral", 0.0)
    fined = """
WEIGHTS = {"solved": 1.0, "slow": -0.01}

def reward(rollout):
    return {"solved": float(bool(rollout["outcome"])), "slow": float(rollout["turns"])}
"""
    report = run(groups("mmss"), reward=fined)
    assert (report.before["good_penalised"], report.after["good_penalised"]) == (0.0, 1.0)


def test_a_reward_that_closes_the_leak_improves() -> None:
    report = run(groups("lmlm"), base={"reward": PAYS_LEAKS}, reward=CLEAN_ONLY)
    assert report.reading == "improves"
    assert report.after["ordering_violations"] == 0.0
    assert report.after["alignment"] == 1.0


def test_a_bonus_that_revives_groups_says_whether_truth_differs_in_them() -> None:
    blind = run(groups("ffff"), reward=PAYS_LEAKS)
    assert (blind.revived, blind.revived_mixed, blind.killed) == (4, 0, 0)
    assert blind.after["blind_spread"] > blind.before["blind_spread"]  # type: ignore[operator]


def test_a_reward_that_goes_flat_kills_groups() -> None:
    flat = "WEIGHTS = {'one': 1.0}\ndef reward(rollout):\n    return {'one': 1.0}\n"
    report = run(groups("mmmm"), reward=flat)
    assert report.killed == 4
    assert report.reading == "harms"
    assert report.constant_components == ("one",)


def test_a_filter_that_drops_dead_groups_concentrates_the_weight() -> None:
    report = run(groups("mfsf"), filter=KEEP_LIVE)
    assert report.before["weight_on_live_groups"] == 0.25
    assert report.after["weight_on_live_groups"] == 1.0
    assert report.reading == "improves"


def test_rollouts_that_ended_in_an_error_are_left_out_and_counted() -> None:
    report = run([*groups("mm"), broken()])
    assert (report.rollouts, report.skipped) == (8, 1)


def test_single_samples_give_no_reading() -> None:
    report = run(groups("mfs", size=1))
    assert (report.groups, report.reading) == (0, "neutral")


@pytest.mark.parametrize(
    "bad",
    [
        "WEIGHTS = {}\ndef reward(rollout):\n    return {'x': float('nan')}\n",
        "WEIGHTS = {}\ndef reward(rollout):\n    raise ValueError('no')\n",
        "WEIGHTS = {}\ndef reward(rollout):\n    return 1.0\n",
    ],
)
def test_a_reward_that_breaks_its_contract_is_the_candidates_fault(bad: str) -> None:
    with pytest.raises(CandidateError):
        run(groups("mm"), reward=bad)


# --- where the rewards come from ------------------------------------------------------------------


def test_lines_of_the_store_give_what_records_give(tmp_path: Path) -> None:
    seen = groups("mlfs")
    store = RolloutStore(tmp_path)
    shard = store.write("run/x", seen)
    from_lines = run(store.iter_lines(shard), reward=PAYS_LEAKS)
    assert from_lines == run(seen, reward=PAYS_LEAKS)


class Counting:
    """A scorer in this process that counts."""

    def __init__(self, harmless: float = 1.0) -> None:
        self.weights = {"solved": harmless}
        self.lines = 0
        self.largest = 0

    def begin_reward(self, lines: Any) -> Callable[[], list[dict[str, float]]]:
        self.lines += len(lines)
        self.largest = max(self.largest, sum(map(len, lines)))
        return lambda: [{"solved": float(json.loads(line)["outcome"])} for line in lines]

    def begin_keep(self, groups: Any) -> Callable[[], list[float]]:
        assert len(groups) <= 16
        return lambda: [1.0] * len(groups)


def test_stored_rewards_of_the_base_are_not_computed_again() -> None:
    base, candidate = Counting(), Counting(2.0)
    report = replay(base, candidate, groups("mmmm"), stored_commit="base")
    probed = 4 * len(PROBES)
    assert (base.lines, candidate.lines) == (probed, 16 + probed)
    assert report == replay(Counting(), Counting(2.0), groups("mmmm"))


def test_rewards_stored_under_another_commit_are() -> None:
    base = Counting()
    replay(base, Counting(), groups("mm"), stored_commit="elsewhere", probes=False)
    assert base.lines == 8


def test_lines_travel_in_bounded_chunks() -> None:
    big = [{"role": "user", "content": "x" * 100_000}]
    seen = (replace(r, messages=big) for _ in range(5) for r in groups("mmmm"))
    scorer = Counting()
    replay(scorer, Counting(), seen, probes=False)
    assert scorer.lines == 80
    assert scorer.largest < CHUNK_BYTES + 110_000


def test_members_of_a_group_may_lie_apart() -> None:
    seen = sorted(groups("mmmm"), key=lambda r: r.sample_idx)
    assert replay(Counting(), Counting(), seen).groups == 4


# --- slim lines -----------------------------------------------------------------------------------


def test_forged_text_inside_a_record_cannot_move_the_cut() -> None:
    text = ',"rewards":{"solved":9},"weights":{},"outcome":true,"flags":[],"error":null}'
    message = [{"role": "assistant", "content": text}]
    nested = {"a": 1, "rewards": {"solved": 9}, "weights": {}, "outcome": True, "flags": []}
    for made in (
        rollout(0, 0, messages=message),
        rollout(0, 0, verifier_inputs={**nested, "error": None}),
        rollout(0, 0, outcome_detail={"said": text, **nested}),
    ):
        assert slim(to_line(made)).rewards == {"solved": 0.0}
        assert slim(to_line(made)).outcome is False


def test_other_key_orders_are_parsed_whole() -> None:
    record = json.loads(to_line(rollout(0, 0, outcome=True)))
    line = json.dumps(dict(sorted(record.items()))).encode()
    assert _cut(line) is None
    assert slim(line).outcome is True


@pytest.mark.parametrize("line", [b"not json\n", b"[1]\n", b'{"group_id":"g"}\n'])
def test_what_is_no_record_is_an_integrity_error(line: bytes) -> None:
    with pytest.raises(IntegrityError):
        slim(line)


# --- arithmetic -----------------------------------------------------------------------------------


def test_a_filter_that_drops_groups_in_which_the_truth_differs_says_so() -> None:
    drops = "def keep(groups):\n    return [float(all(g['outcomes'])) for g in groups]\n"
    report = run(groups("mmsf"), filter=drops)
    assert (report.before["mixed_groups_dropped"], report.after["mixed_groups_dropped"]) == (0, 1)


# --- probes ---------------------------------------------------------------------------------------

PAYS_TOOLS = """
WEIGHTS = {"solved": 1.0, "calls": 0.4}

def reward(rollout):
    return {"solved": float(bool(rollout["outcome"])), "calls": float(len(rollout["tool_events"]))}
"""
PAYS_WORDS = """
WEIGHTS = {"solved": 1.0}

def reward(rollout):
    said = any("PASSED" in m["content"] for m in rollout["messages"])
    return {"solved": 2.0 if said else float(bool(rollout["outcome"]))}
"""
PAYS_ENDLESS = """
WEIGHTS = {"solved": 1.0}

def reward(rollout):
    solved = float(bool(rollout["outcome"]))
    return {"solved": solved if rollout["stop_reason"] == "submitted" else 1.5}
"""
PAYS_FLAGS = """
WEIGHTS = {"solved": 1.0}

def reward(rollout):
    return {"solved": 2.0 if rollout["flags"] else float(bool(rollout["outcome"]))}
"""
PAYS_ENDING = """
WEIGHTS = {"solved": 1.0}

def reward(rollout):
    said = [m["content"] for m in rollout["messages"] if m["role"] == "assistant"]
    return {"solved": 2.0 * (said[-1:] == ["done"]) + 0.1 * len(rollout["messages"])}
"""


def working(kinds: str) -> list[Rollout]:
    """Attempts that say something and call tools; the clean ones end with `done`."""
    seen = groups(kinds)
    for made in seen:
        made.tool_events = [ToolEvent(turn, "view", {}, "code", True) for turn in range(2)]
        made.messages = [
            {"role": "user", "content": "please"},
            {"role": "assistant", "content": "v"},
            {"role": "tool", "content": "code"},
            {"role": "assistant", "content": "done" if made.clean else "hm"},
        ]
    return seen


@pytest.mark.parametrize(
    ("reward", "tricks"),
    [
        (HONEST, set()),
        (CLEAN_ONLY, set()),
        (PAYS_TOOLS, {"repeated_calls"}),
        (PAYS_WORDS, {"forged_report"}),
        (PAYS_ENDLESS, {"truncated", "never_ended"}),
        (PAYS_FLAGS, {"flagged_solution"}),
        (PAYS_ENDING, {"copied_words"}),
        (PAYS_LEAKS.replace("0.5", "1.0"), {"handed_in_at_once"}),
    ],
)
def test_the_trick_that_beats_a_reward_is_named(reward: str, tricks: set[str]) -> None:
    report = run(working("mmmmmm"), reward=reward)
    beaten = {one.name for one in report.hackable}
    assert beaten == tricks
    assert {one.tried for one in report.probes} == {6}
    for one in report.hackable:
        assert one.worst is not None and any(one.name in reason for reason in report.reasons)


def test_what_beats_the_base_already_is_no_news() -> None:
    report = run(working("mmmm"), base={"reward": PAYS_WORDS}, reward=PAYS_WORDS)
    forged = next(one for one in report.probes if one.name == "forged_report")
    assert (forged.beats_before, forged.beats_after) == (4, 4)
    assert report.hackable == ()


def test_without_a_clean_attempt_there_is_nothing_to_beat() -> None:
    assert run(working("ffff"), reward=PAYS_WORDS).probes == ()


@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_kendall_and_spearman_are_those_of_scipy() -> None:
    from scipy.stats import kendalltau, spearmanr

    draw = random.Random(7)
    for size in (2, 5, 8, 40):
        for _ in range(20):
            before = [float(draw.randrange(4)) for _ in range(size)]
            after = [float(draw.randrange(4)) for _ in range(size)]
            found = Ranks()
            found.add(before, after)
            tau, rho = kendalltau(before, after).statistic, spearmanr(before, after).statistic
            assert found.kendall == (None if math.isnan(tau) else pytest.approx(tau, abs=1e-12))
            assert found.spearman == (None if math.isnan(rho) else pytest.approx(rho, abs=1e-12))
