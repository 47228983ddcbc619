"""The oracle of the recall benchmark: what counts as a repair of a planted fault."""

from __future__ import annotations

import pytest
from _oracle import FILTER, RECIPE, is_free, repaired
from recall import CONTROL, Case, Proposed, summary, table

from meta_agent.domains.nano.planted.faults import (
    AGENT,
    CURRICULUM,
    FAULTS,
    REWARD,
    TOOL_MIX,
    Fault,
    fault,
)
from meta_agent.domains.nano.sources import Variant, sources

VARIANTS: tuple[Variant, ...] = ("seed", "competent")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("planted", FAULTS, ids=lambda f: f.name)
def test_undoing_a_fault_repairs_it(planted: Fault, variant: Variant) -> None:
    clean = sources("swe", variant)
    assert repaired(planted, planted.apply(clean), clean)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("planted", FAULTS, ids=lambda f: f.name)
def test_where_nothing_was_planted_nothing_is_repaired(planted: Fault, variant: Variant) -> None:
    clean = sources("swe", variant)
    assert not repaired(planted, clean, clean)
    assert not repaired(planted, clean, planted.apply(clean))


@pytest.mark.parametrize("planted", FAULTS, ids=lambda f: f.name)
def test_an_edit_of_another_factor_repairs_nothing(planted: Fault) -> None:
    base = planted.apply(sources("swe", "seed"))
    for other in FAULTS:
        if other.factor != planted.factor:
            assert not repaired(planted, base, other.apply(base)), other.name


HALF_MEASURES = [
    ("leak_offered", AGENT, '"vetls"', '"vel"', False),
    ("leak_offered", AGENT, '"vetls"', '"ves"', True),
    ("few_turns", AGENT, "MAX_TURNS = 5", "MAX_TURNS = 4", False),
    ("few_turns", AGENT, "MAX_TURNS = 5", "MAX_TURNS = 7", True),
    ("short_observations", AGENT, "CHARS = 3", "CHARS = 4", False),
    ("short_observations", AGENT, "CHARS = 3", "CHARS = 6", True),
    ("turn_penalty", REWARD, '"efficiency": 1.0', '"efficiency": 0.5', False),
    ("turn_penalty", REWARD, '"efficiency": 1.0', '"efficiency": 0.05', True),
    ("turn_penalty", REWARD, '"solved": 1.0', '"solved": 2.2', False),
    ("turn_penalty", REWARD, "- 0.25 *", "+ 0.0 *", True),
    ("test_bonus", REWARD, '"diligence": 0.5', '"diligence": 0.2', False),
    ("test_bonus", REWARD, "float(sum(", "float(any(", True),
    ("dead_reward", REWARD, '"solved": 1.0', '"solved": 9.0', False),
    ("dead_reward", REWARD, 'rollout.get("resolved")', 'not rollout["outcome"]', False),
    ("dead_reward", REWARD, 'rollout.get("resolved")', 'rollout.get("outcome")', True),
    ("inverted_filter", FILTER, "1e-6", "0.5", False),
    ("inverted_filter", FILTER, "<= MIN_SPREAD", "!= MIN_SPREAD", True),
    ("winners_only", FILTER, "0.85", "0.4", False),
    ("winners_only", FILTER, "0.85", "0.1", True),
    ("easy_first", CURRICULUM, "vague, history", "not vague, history", True),
    ("easy_first", CURRICULUM, 'endswith("?")', "isdigit()", True),
    ("same_few_tasks", CURRICULUM, "-history", "0 * history", False),
    ("same_few_tasks", CURRICULUM, "-history", "+history", True),
    ("tiny_learning_rate", RECIPE, "1e-6", "4e-6", False),
    ("tiny_learning_rate", RECIPE, "1e-6", "1e-2", False),
    ("tiny_learning_rate", RECIPE, "1e-6", "3e-4", True),
    ("cold_sampling", RECIPE, "temperature = 0.2", "temperature = 0.4", False),
    ("cold_sampling", RECIPE, "temperature = 0.2", "temperature = 1.2", True),
    ("anchored", RECIPE, "beta = 3.0", "beta = 0.3", False),
    ("anchored", RECIPE, "beta = 3.0", "beta = 0.01", True),
    ("blind_to_leaks", TOOL_MIX, '"submit")', '"submit", "log")', False),
]


@pytest.mark.parametrize(("name", "path", "old", "new", "expected"), HALF_MEASURES)
def test_an_edit_counts_by_what_the_harness_then_does(
    name: str, path: str, old: str, new: str, expected: bool
) -> None:
    base = fault(name).apply(sources("swe", "seed"))
    text = base[path].decode()
    assert text.count(old) == 1
    edited = {**base, path: text.replace(old, new).encode()}
    assert repaired(fault(name), base, edited) is expected


def test_a_new_diagnostic_may_see_leaks_as_well() -> None:
    base = fault("blind_to_leaks").apply(sources("swe", "seed"))
    watching = b"""
NAME = "conduct"
THRESHOLDS = {"flagged": {"warn": 0.01, "critical": 0.05, "direction": "above"}}


def measure(rollouts):
    return {"flagged": sum(bool(r["flags"]) for r in rollouts) / max(len(rollouts), 1)}
"""
    assert is_free(fault("blind_to_leaks"), {**base, "swe/diagnostics/conduct.py": watching})
    silent = watching.replace(b'{"flagged": {"warn', b'{"other": {"warn')
    assert not is_free(fault("blind_to_leaks"), {**base, "swe/diagnostics/conduct.py": silent})


# --- the table ---


def case(name: str, *rules: str, repairs: str = "") -> Case:
    proposals = [
        Proposed(rank, rule, "reward", "if", rule == repairs) for rank, rule in enumerate(rules, 1)
    ]
    return Case(name, 0.5, [], proposals, {})


CASES = [
    case(CONTROL, "a", "b"),
    case("turn_penalty", "a", "c", repairs="c"),
    case("test_bonus", "b", "c", "d", "a", repairs="a"),
    case("anchored", "a"),
]


def test_recall_is_counted_by_rank_and_by_whether_there_was_a_rule() -> None:
    result = summary(CASES)
    assert result["recall"]["ruled"] == {"faults": 2, "first": 0, "top3": 1, "found": 2}
    assert result["recall"]["unruled"] == {"faults": 1, "first": 0, "top3": 0, "found": 0}


def test_a_rank_is_told_beside_the_rank_that_the_rule_has_without_the_fault() -> None:
    rows = {row["fault"]: row for row in summary(CASES)["faults"]}
    assert (rows["turn_penalty"]["rank"], rows["turn_penalty"]["rank_in_control"]) == (2, None)
    assert (rows["test_bonus"]["rank"], rows["test_bonus"]["rank_in_control"]) == (4, 1)


def test_the_table_lists_what_the_control_set_off() -> None:
    assert "1 a, 2 b" in table(summary(CASES))
