from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import CandidateError, IntegrityError
from meta_agent.core.lab.replay import CHUNK_BYTES, ReplayReport, replay
from meta_agent.core.protocols import Rollout
from meta_agent.core.rollouts import RolloutStore

from ._harness import KEEP_LIVE, PAYS_LEAKS, broken, groups, session, tree


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
    assert (report.rollouts, report.groups) == (16, 4)
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
    assert (report.before["ordering_violations"], report.after["ordering_violations"]) == (0, 0.5)


def test_a_reward_that_closes_the_leak_improves() -> None:
    report = run(groups("lmlm"), base={"reward": PAYS_LEAKS}, reward=CLEAN_ONLY)
    assert report.reading == "improves"
    assert report.after["ordering_violations"] == 0.0
    assert report.after["alignment"] == 1.0


def test_a_bonus_revives_groups() -> None:
    blind = run(groups("ffff"), reward=PAYS_LEAKS)
    assert (blind.revived, blind.killed, blind.reading) == (4, 0, "neutral")


def test_a_reward_that_goes_flat_kills_groups() -> None:
    flat = "WEIGHTS = {'one': 1.0}\ndef reward(rollout):\n    return {'one': 1.0}\n"
    report = run(groups("mmmm"), reward=flat)
    assert report.killed == 4
    assert report.reading == "harms"


PAYS_PARTS = """
WEIGHTS = {"solved": 1.0, "said": 0.1}

def reward(rollout):
    solved = float(bool(rollout["outcome"]))
    return {"solved": solved, "said": 1.0 if solved else float(rollout["sample_idx"] % 2)}
"""


def test_parts_that_tell_failed_attempts_apart_are_no_harm_to_groups_that_teach() -> None:
    report = run(groups("mmff"), base={"filter": KEEP_LIVE}, filter=KEEP_LIVE, reward=PAYS_PARTS)
    assert (report.revived, report.killed, report.reading) == (2, 0, "neutral")
    assert report.after["alignment"] < report.before["alignment"]
    assert report.after["alignment_of_mixed"] == report.before["alignment_of_mixed"] == 1.0


def test_a_filter_that_drops_the_groups_that_teach_harms() -> None:
    drops = "def keep(groups):\n    return [float(all(g['outcomes'])) for g in groups]\n"
    assert run(groups("mmsf"), filter=drops).reading == "harms"


def test_a_filter_that_drops_dead_groups_concentrates_the_weight() -> None:
    report = run(groups("mfsf"), filter=KEEP_LIVE)
    assert report.after["alignment"] > report.before["alignment"]
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
    assert (base.lines, candidate.lines) == (0, 16)
    assert report == replay(Counting(), Counting(2.0), groups("mmmm"))


def test_rewards_stored_under_another_commit_are() -> None:
    base = Counting()
    replay(base, Counting(), groups("mm"), stored_commit="elsewhere")
    assert base.lines == 8


def test_lines_travel_in_bounded_chunks() -> None:
    big = [{"role": "user", "content": "x" * 100_000}]
    seen = (replace(r, messages=big) for _ in range(5) for r in groups("mmmm"))
    scorer = Counting()
    replay(scorer, Counting(), seen)
    assert scorer.lines == 80
    assert scorer.largest < CHUNK_BYTES + 110_000


def test_members_of_a_group_may_lie_apart() -> None:
    seen = sorted(groups("mmmm"), key=lambda r: r.sample_idx)
    assert replay(Counting(), Counting(), seen).groups == 4


@pytest.mark.parametrize("line", [b"not json\n", b"[1]\n", b'{"group_id":"g"}\n'])
def test_what_is_no_record_is_an_integrity_error(line: bytes) -> None:
    with pytest.raises(IntegrityError):
        replay(Counting(), Counting(), [line])
