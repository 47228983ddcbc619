"""What holds for the seed harnesses of all suites, and for the faults planted in them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any, Final

import pytest

from meta_agent.core.harness.contract import parse_contract
from meta_agent.core.harness.recipe import parse_recipe
from meta_agent.core.protocols import FACTORS, TRAINING_FACTORS, HarnessTree
from meta_agent.domains.nano.planted._fault import Fault, drawn_from
from meta_agent.domains.nano.planted.seeds import seed_files
from meta_agent.domains.nano.sources import Variant, sources
from tests.domains.nano._played import ATTEMPTS, TABLES, VARIANTS, module

VIEWS: Final[dict[str, list[Any]]] = {
    "swe": [{"issue": issue} for issue in ("3?", "35")],
    "math": [{"sum": text} for text in ("1+2", "1+2*3")],
    "code": [{"call": "f", "sketch": s, "examples": [["2", "4"]]} for s in ("x*2", "x?2")],
}
"""What two tasks of each suite show."""
SUITES = pytest.mark.parametrize("suite", TABLES)


def planted() -> Iterator[Any]:
    """Every fault of every suite, once for each of its sources."""
    for suite, table in TABLES.items():
        for variant in VARIANTS:
            for fault in table.FAULTS:
                name = f"{suite}-{variant}-{fault.name}"
                yield pytest.param(suite, sources(suite, variant), fault, id=name)


def keeps_the_contract(suite: str, files: dict[str, bytes]) -> None:
    contract = parse_contract(HarnessTree("c", "t", files))
    for path in files:
        if path.startswith(f"{suite}/"):
            assert len(contract.factors_matching(path)) == 1
        if path.endswith(".py"):
            module(files, path)
    parse_recipe(files[f"{suite}/recipe.toml"].decode())


def drawn(suite: str, seed: int) -> tuple[Fault, ...]:
    table = TABLES[suite]
    return drawn_from(table.FAULTS, suite, seed, table.DEFAULT_SEED)


@SUITES
@pytest.mark.parametrize("variant", VARIANTS)
def test_sources_keep_the_harness_contract_and_work(suite: str, variant: Variant) -> None:
    keeps_the_contract(suite, sources(suite, variant))
    works(suite, sources(suite, variant))


@pytest.mark.parametrize(("suite", "files", "fault"), list(planted()))
def test_a_fault_keeps_the_contract_works_touches_its_own_factor_and_names_itself_nowhere(
    suite: str, files: dict[str, bytes], fault: Fault
) -> None:
    faulty = fault.apply(files)
    keeps_the_contract(suite, faulty)
    works(suite, faulty)
    changed = [path for path in files if faulty[path] != files[path]]
    contract = parse_contract(HarnessTree("c", "t", files))
    assert contract.factor_of(changed) == fault.factor
    assert fault.name.encode() not in b"".join(faulty.values())


def works(suite: str, files: dict[str, bytes]) -> None:
    """It rewards, filters, orders and measures."""
    attempt, reward = ATTEMPTS[suite], module(files, f"{suite}/reward.py")
    values = reward.reward(attempt)
    assert set(values) == set(reward.WEIGHTS)
    assert all(isinstance(value, float) for value in values.values())
    group = {"task_key": "a", "rewards": [0.0, 1.0], "outcomes": [False, True]}
    assert len(module(files, f"{suite}/filter.py").keep([group, group])) == 2
    tasks = [{"key": key, "view": view} for key, view in zip("ab", VIEWS[suite], strict=True)]
    order = module(files, f"{suite}/curriculum.py").order
    assert sorted(order(tasks, {"a": {"tries": 8, "solved": 3}})) == ["a", "b"]
    for path in files:
        if path.startswith(f"{suite}/diagnostics/"):
            for rollouts in ([], [attempt], [attempt, attempt | {"messages": [], "outcome": None}]):
                assert all(v == float(v) for v in module(files, path).measure(rollouts).values())


@SUITES
def test_every_diagnostic_names_its_layer_and_its_alarms(suite: str) -> None:
    files = sources(suite, "seed")
    paths = [path for path in files if path.startswith(f"{suite}/diagnostics/")]
    assert paths
    for path in paths:
        loaded = module(files, path)
        assert loaded.LAYER in {"score", "signal", "behaviour", "version"}
        for limits in loaded.THRESHOLDS.values():
            assert limits["direction"] in {"above", "below"}
            ordered = sorted([limits["warn"], limits["critical"]])
            assert limits["critical"] == ordered[limits["direction"] == "above"]


@SUITES
def test_both_variants_measure_alike(suite: str) -> None:
    seed, competent = sources(suite, "seed"), sources(suite, "competent")
    shared = [p for p in seed if "diagnostics" in p or not p.startswith(f"{suite}/")]
    assert {path: seed[path] for path in shared} == {path: competent[path] for path in shared}


@SUITES
def test_faults_cover_every_factor_and_some_have_no_rule(suite: str) -> None:
    known = TABLES[suite].FAULTS
    assert {fault.factor for fault in known} == set(FACTORS)
    assert len({fault.name for fault in known}) == len(known) >= 10
    assert any(not fault.ruled for fault in known)


@SUITES
def test_the_default_seed_carries_a_costly_fault_on_either_side(suite: str) -> None:
    chosen = drawn(suite, 0)
    assert any(f.costly and f.factor == "scaffold" for f in chosen)
    assert any(f.costly and f.factor in TRAINING_FACTORS for f in chosen)


@SUITES
def test_a_seed_carries_two_or_three_faults_of_different_factors(suite: str) -> None:
    counts = set()
    for seed in range(100):
        factors = [fault.factor for fault in drawn(suite, seed)]
        assert len(set(factors)) == len(factors)
        counts.add(len(factors))
    assert counts == {2, 3}


@SUITES
def test_every_fault_is_drawn_by_some_seed(suite: str) -> None:
    names = {fault.name for seed in range(100) for fault in drawn(suite, seed)}
    assert names == {fault.name for fault in TABLES[suite].FAULTS}


@SUITES
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_a_workspace_starts_from_what_was_planted(suite: str, seed: int) -> None:
    files, names = seed_files(suite, seed)
    expected = sources(suite, "seed")
    for fault in drawn(suite, seed):
        expected = fault.apply(expected)
    assert names == [fault.name for fault in drawn(suite, seed)]
    assert files == expected != sources(suite, "seed")


@SUITES
def test_the_competent_variant_carries_no_fault(suite: str) -> None:
    assert seed_files(suite, 5, variant="competent") == (sources(suite, "competent"), [])


@SUITES
def test_the_tiny_profile_trains_on_small_batches(suite: str) -> None:
    recipe = tomllib.loads(seed_files(suite, 0, "tiny").files[f"{suite}/recipe.toml"].decode())
    assert recipe["groups_per_step"] * recipe["num_generations"] == 16
