"""Slice guards: proven harm to some tasks is seen, luck is not, and the level is kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from meta_agent.core.gate import Arm, Context, Finding, Labels, Side, Terms, judge_live
from meta_agent.core.gate.validity._slices import harm, slice_effects
from meta_agent.core.protocols import Verdict, VerdictKind
from meta_agent.core.slices import slices_of
from meta_agent.domains import load_domain
from tests.gate._rows import arm, drawn_arm

STORED = Path(__file__).parents[2] / "benchmarks" / "data" / "aa_nano_swe.json"
TASKS = 200
LABELS = {f"t{n:04d}": {"level": "hard" if n < 60 else "easy"} for n in range(TASKS)}


def arms(
    shift: dict[str, float], seed: int, *, seeds: int = 4, spread: float = 0.02
) -> tuple[Arm, Arm]:
    """A pair of arms with a true effect by level, and luck of training seeds in both."""
    rng = np.random.default_rng(seed)
    hard = np.arange(TASKS) < 60
    gains = np.where(hard, shift["hard"], shift["easy"])
    luck = rng.normal(0, spread, (2, seeds, 1))
    return (
        drawn_arm("before", np.clip(0.6 + luck[0] + 0 * gains, 0, 1), rng),
        drawn_arm("after", np.clip(0.6 + luck[1] + gains, 0, 1), rng),
    )


def guard_slices(before: Arm, after: Arm, labels: Labels) -> tuple[Finding, ...]:
    return tuple(harm(Side(before), Side(after), Context(labels=labels)))


def blocked(pair: tuple[Arm, Arm]) -> bool:
    found = guard_slices(*pair, LABELS)
    return any(finding.severity == "harm" for finding in found)


def test_a_slice_that_is_harmed_beyond_doubt_is_named() -> None:
    found = guard_slices(*arms({"hard": -0.5, "easy": 0.3}, 1), LABELS)
    table, harm = found
    assert (harm.code, harm.severity) == ("slice.harm", "harm")
    assert "level hard" in harm.message and "60 tasks" in harm.message
    assert (table.severity, len(table.lines)) == ("note", 2)
    assert set(table.numbers) == {"level easy", "level hard"}


def test_effects_of_slices_average_to_the_whole() -> None:
    pair = arms({"hard": -0.2, "easy": 0.2}, 2)
    seen = {one.name: one for one in slice_effects(*pair, LABELS)}
    mean = sum(one.tasks * one.effect.delta for one in seen.values()) / TASKS
    whole = [np.mean([bool(row.clean) for row in side.rows()]) for side in pair]
    assert mean == pytest.approx(float(whole[1] - whole[0]))


def test_small_groups_and_the_whole_set_are_no_slices() -> None:
    labels = {key: {"all": "x", "few": "y" if key < "t0019" else "z"} for key in LABELS}
    seen = slice_effects(*arms({"hard": 0, "easy": 0}, 3), labels)
    assert [one.name for one in seen] == ["few z"]  # "few y" has 19 tasks, "all x" has all of them


def test_two_training_seeds_prove_hardly_any_harm() -> None:
    """As with gains: one degree of freedom proves hardly anything."""
    pairs = [arms({"hard": -0.3, "easy": 0.2}, n, seeds=2) for n in range(12)]
    assert sum(map(blocked, pairs)) <= 5


@pytest.mark.parametrize(
    ("seeds", "draws"),
    [
        (4, 30),
        pytest.param(1, 150, marks=pytest.mark.nightly),
        pytest.param(4, 150, marks=pytest.mark.nightly),
    ],
)
def test_a_candidate_at_the_margin_is_blocked_no_more_often_than_the_level_says(
    seeds: int, draws: int
) -> None:
    """The worst case: one slice exactly at the margin. At 5 %, and three standard errors."""
    spread = 0.0 if seeds == 1 else 0.02
    margin: dict[str, float] = {"hard": -0.05, "easy": 0.1}
    hits = [blocked(arms(margin, n, seeds=seeds, spread=spread)) for n in range(draws)]
    assert sum(hits) / draws <= 0.05 + 3 * (0.05 * 0.95 / draws) ** 0.5


def test_great_harm_is_seen_and_what_is_better_everywhere_is_next_to_never_blocked() -> None:
    harmed = [blocked(arms({"hard": -0.3, "easy": 0.2}, n)) for n in range(10)]
    assert sum(harmed) >= 8
    assert not any(blocked(arms({"hard": 0.05, "easy": 0.05}, n)) for n in range(15))


def test_a_few_lost_tasks_of_a_small_slice_are_not_proof() -> None:
    """One policy, 20 tasks of which three are lost: skewed differences, few of them."""
    labels = {f"t{n:04d}": {"repo": "a" if n < 20 else "b"} for n in range(12)}
    before, after = arm(tasks=60), arm(tasks=60, change=lambda _, t: {"success": t > 2})
    assert not any(one.severity == "harm" for one in guard_slices(before, after, labels))


def test_seeds_that_agree_by_chance_prove_nothing_that_attempts_do_not() -> None:
    """Each of two seeds loses one task of twenty: equal means, and one attempt in twenty."""
    labels = {f"t{n:04d}": {"repo": "a" if n < 20 else "b"} for n in range(60)}
    before = arm(tasks=60, seeds=(0, 1))
    after = arm(tasks=60, seeds=(0, 1), change=lambda s, t: {"success": t not in (s, s + 2)})
    one = slice_effects(before, after, labels)[0]
    assert one.effect.delta == pytest.approx(-0.1)
    assert one.effect.ci_high > 0.0


def test_training_luck_alone_does_not_block() -> None:
    """Pairs of stored A/A runs, four to an arm, by the real slices of nano-swe."""
    clean = np.array(
        [[c == "1" for c in line] for line in json.loads(STORED.read_text())["clean"].values()]
    )
    keys = [task.key for task in load_domain("swe").tasks("confirm")]
    told = slices_of(load_domain("swe"), "confirm")
    labels = {f"t{n:04d}": told[key] for n, key in enumerate(keys)}
    rng, hits = np.random.default_rng(0), 0
    for _ in range(10):
        drawn = rng.permutation(len(clean))[:8]
        sides = [drawn_arm("x", clean[part].astype(float), rng) for part in (drawn[:4], drawn[4:])]
        found = guard_slices(sides[0], sides[1], labels)
        assert len(found[0].lines) == 4
        hits += len(found) > 1
    assert not hits  # luck of training is a few points, and the margin is five


def judged(pair: tuple[Arm, Arm], *more: Finding) -> Verdict:
    found = (*guard_slices(*pair, LABELS), *more)
    return judge_live(*pair, Terms(min_seeds=2), found)


def test_a_candidate_that_is_better_but_harms_a_slice_is_rejected_with_the_reason() -> None:
    verdict = judged(arms({"hard": -0.4, "easy": 0.4}, 1))
    assert verdict.effect is not None
    assert verdict.effect.ci_low > 0  # without the guard it would have been promoted
    assert verdict.kind is VerdictKind.REJECT
    assert any(reason.startswith("slice.harm: level hard") for reason in verdict.reasons)
    assert "slice.effects" in {found["code"] for found in verdict.evidence["findings"]}


def test_what_is_invalid_stays_invalid_whatever_the_slices_say() -> None:
    veto = Finding("conduct.leak", "veto", "it reads the answer")
    assert judged(arms({"hard": -0.4, "easy": 0.4}, 1), veto).kind is VerdictKind.INVALID


def test_a_guard_never_makes_a_promotion() -> None:
    """Harm on a slice of something that was not proven anyway changes no verdict."""
    for seed in range(4):
        pair = arms({"hard": -0.2, "easy": 0.05}, seed)
        without = judge_live(*pair, Terms(min_seeds=2))
        assert judged(pair).kind in (without.kind, VerdictKind.REJECT)
