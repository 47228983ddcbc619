"""A comparison: declared once, carried out run by run, read from what the runs recorded."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from meta_agent.composition.inputs import open_or_create
from meta_agent.composition.root import extensions_of
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import BudgetError, ConfigError, Interrupted
from meta_agent.core.history import HarnessRepo
from meta_agent.core.lab.inspector import Inspector
from meta_agent.core.ledger import Ledger
from meta_agent.core.loop.budget import one_pair, spent
from meta_agent.core.loop.finish import finish
from meta_agent.core.loop.loop import first_version
from meta_agent.core.loop.plan import LEG, MIN_PAIRS, plan_for
from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import RolloutFailure
from meta_agent.domains.nano.sources import sources
from meta_agent.reports import Display, open_display, reduce
from meta_agent.skills import SkillLibrary
from meta_agent.strategies._baselines import ScoreOnly
from meta_agent.studies.conditions import Comparison, carry_out, declare, human_condition
from meta_agent.studies.conditions_results import _promotions, _proven_after, report, results_of
from tests.steps import _bench
from tests.steps._bench import Bench, make_lab, rollout
from tests.steps._ideas import Idea, found_with, handed_over, having, marks, prepare, solving
from tests.steps._kit import write_tasks

TINY = RunConfig(profile="tiny", generations=1, candidates=2, train_steps=2, jobs=2)
A_STEP = 16  # the tiny profile's batch


def quiet(_name: str) -> Display:
    return open_display()


def declared(
    folder: Path, *conditions: str, seeds: int = 2, config: RunConfig = TINY
) -> Comparison:
    return declare(config, conditions or ("full", "static"), seeds, folder)


# --- a person's harness -------------------------------------------------------------------------


def test_a_persons_harness_gets_the_whole_budget_as_one_training(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    for path, content in sources("swe", "competent").items():
        (mine / path).parent.mkdir(parents=True, exist_ok=True)
        (mine / path).write_bytes(content)
    arm = human_condition(f"human:{mine}", tmp_path, tmp_path / "c")
    comparison = declared(tmp_path / "c", "static", arm, seeds=1)
    static, human = comparison.runs()
    assert (human.config.strategy, human.config.harness) == ("static", str(mine))
    assert human.config.budget == static.config.budget
    assert human.config.workspace.parent == static.config.workspace.parent


def test_conditions_of_a_policy_that_is_trained_in_legs(tmp_path: Path) -> None:
    """Without `declare`, which reads a model: each condition's own settings are what is tested."""
    config = RunConfig(strategy="staged", policy="hf:/models/some", lora_rank=16)
    names = ("staged", "harness-alone", "imitate", "static", "score-only", "human:/mine")
    comparison = Comparison(tmp_path, names, (0,), 960, 6, config, {})
    made = {
        run.condition: (run.config.strategy, run.config.train_steps, run.config.generations)
        for run in comparison.runs()
    }
    assert made == {
        "staged": ("staged", 30, 3),
        "harness-alone": ("staged", 0, 3),
        "imitate": ("imitate", LEG, 3),
        "static": ("static", LEG, 3),
        "score-only": ("score-only", LEG, 12),
        "human:/mine": ("imitate-then-train", LEG, 3),
    }


# --- declaring -----------------------------------------------------------------------------------


def test_arms_differ_in_how_they_search_and_where_they_lie(tmp_path: Path) -> None:
    """Each gets what the plan declares; runs come seed by seed, from the first seed on."""
    config = TINY.model_copy(update={"seed": 7})
    comparison = declared(tmp_path, config=config)
    full, static, *_ = runs = list(comparison.runs())
    assert [run.name for run in runs] == ["full-s7", "static-s7", "full-s8", "static-s8"]
    same = full.config.model_dump(exclude={"strategy", "workspace"})
    assert same == static.config.model_dump(exclude={"strategy", "workspace"})
    assert (full.config.strategy, static.config.strategy) == ("full", "static")
    assert full.config.workspace == tmp_path / "full-s7"
    assert comparison.budget == plan_for(TINY).trainings * (2 * A_STEP + 64)
    assert {run.config.budget for run in runs} == {comparison.budget}
    # An arm that tries one idea at a time goes on until its budget is spent.
    (score,) = declared(tmp_path / "score", "score-only", seeds=1).runs()
    assert score.config.candidates == 1
    assert score.config.generations >= (score.config.budget or 0) // (2 * A_STEP + 64)


def test_unknown_arms_arms_named_twice_and_a_budget_for_nothing_are_refused(tmp_path: Path) -> None:
    unknown: tuple[tuple[str, ...], ...] = (("full", "best"), ("full", "full"), ())
    for conditions in unknown:
        with pytest.raises(ConfigError):
            declare(TINY, conditions, 1, tmp_path)
    with pytest.raises(ConfigError, match=str(3 * A_STEP)):
        declared(tmp_path, config=TINY.model_copy(update={"budget": 3 * A_STEP}))


def test_what_was_declared_holds_when_it_is_repeated(tmp_path: Path) -> None:
    first = declared(tmp_path)
    assert declared(tmp_path) == first
    assert declared(tmp_path, "full", "static", "score-only", seeds=3).budget == first.budget
    others: list[dict[str, Any]] = [
        {"config": TINY.model_copy(update={"budget": 10_000})},
        {"config": TINY.model_copy(update={"train_steps": 3, "budget": 2400})},
    ]
    for changes in others:
        with pytest.raises(ConfigError):
            declared(tmp_path, **changes)
    with pytest.raises(ConfigError, match="static"):
        declared(tmp_path, "full", seeds=2)


def test_on_a_small_set_it_is_said_which_arms_race(tmp_path: Path) -> None:
    sizes = {"train": 1, "search": 12, "confirm": 10, "vault": 2}
    config = RunConfig(
        tasks=write_tasks(tmp_path / "tasks", sizes), policy="openai/m", sandbox="process",
        allow_unsafe_process=True, workspace=tmp_path / "unused",
    )  # fmt: skip
    conditions = ("full", "no-diagnostics", "score-only")
    splits = declared(tmp_path / "compared", *conditions, config=config).splits
    assert splits["full"] == splits["no-diagnostics"]
    numbers = {arm: [int(n) for n in re.findall(r"\d+", text)] for arm, text in splits.items()}
    assert (numbers["full"], numbers["score-only"]) == ([11, 12], [12, 10])
    assert len(set(declared(tmp_path / "big").splits.values())) == 1


# --- carrying out --------------------------------------------------------------------------------


def test_a_run_that_stops_does_not_stop_the_others(tmp_path: Path) -> None:
    done: list[str] = []

    def evolve(config: RunConfig, display: Display, stop: threading.Event) -> None:
        if config.strategy == "static":
            raise BudgetError("the cap is reached")
        done.append(config.workspace.name)

    stopped = carry_out(declared(tmp_path), evolve, quiet)
    assert sorted(done) == ["full-s0", "full-s1"]
    assert sorted(stopped) == ["static-s0", "static-s1"]


def test_a_drain_reaches_every_run_and_begins_none(tmp_path: Path) -> None:
    begun: list[str] = []

    def evolve(config: RunConfig, display: Display, stop: threading.Event) -> None:
        begun.append(config.workspace.name)
        stop.set()
        raise Interrupted

    config = TINY.model_copy(update={"jobs": 1})
    with pytest.raises(Interrupted):
        carry_out(declared(tmp_path, config=config), evolve, quiet)
    assert begun == ["full-s0"]


# --- reading -------------------------------------------------------------------------------------


def finished(config: RunConfig, share: float) -> None:
    """A run of these settings that reached the vault and solved this share of it."""
    workspace = open_or_create(config)
    with Ledger.open(workspace.ledger_file) as ledger:
        ledger.start_run("r", config.to_json(), config_hash="h")
        lab = make_lab(workspace.root, ledger, stopping=lambda: False)
        lab.script = lambda _: share
        repo = HarnessRepo.open(workspace.harness_repo)
        skills = SkillLibrary(workspace.skills_library)
        run = Run(
            *("r", config, plan_for(config), ledger, repo, lab, skills, quiet("")),
            *(1_800_000_000, lambda: False, extensions_of(config, "r", None)),
        )
        version = Version("v0", repo.head())
        trained = lab.train(repo.tree(version.commit), seed=0, steps=run.plan.steps)
        finish(run, version, HandedOver(version, trained, "start"))


def test_a_comparison_is_read_from_its_workspaces(tmp_path: Path) -> None:
    comparison = declared(tmp_path, "full", "static", "score-only", seeds=2)
    shares = {"full-s0": 0.75, "full-s1": 0.5, "static-s0": 0.5, "static-s1": 0.5}
    for run in comparison.runs():
        if run.name in shares:
            finished(run.config, shares[run.name])
    told = report(comparison, results_of(comparison))
    assert told["reference"] == "static"
    assert told["unfinished"] == ["score-only-s0", "score-only-s1"]
    assert told["arms"]["score-only"] == {"runs": 0}
    full = told["arms"]["full"]
    assert full["mean"]["value"] == pytest.approx(0.625)
    assert list(full["versus"]) == ["static"]  # score-only has no run yet
    versus = full["versus"]["static"]
    assert versus["difference"]["value"] == pytest.approx(0.125)
    assert versus["better_seeds"] == 1
    assert versus["improvement"]["value"] == pytest.approx(0.75)
    assert (full["spent"], full["trained_on"]) == (20, 20)  # the vault is not counted
    assert told["arms"]["static"]["versus"] == {}


def lose(monkeypatch: pytest.MonkeyPatch, lost: set[str]) -> None:
    """From now on machines lose the attempts at these tasks."""

    def made(task: Any, **facts: Any) -> Any:
        gone = {"outcome": None, "error": RolloutFailure("infra", "open: no machine")}
        return rollout(task, **facts, **(gone if task.key in lost else {}))

    monkeypatch.setattr(_bench, "rollout", made)


def test_what_machines_lost_is_in_no_share_and_has_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = declared(tmp_path, "full", "static", seeds=2)
    runs = {run.name: run.config for run in comparison.runs()}
    finished(runs["static-s0"], 0.5)
    finished(runs["static-s1"], 0.5)
    finished(runs["full-s1"], 0.5)
    lose(monkeypatch, {"vault-000", "vault-095"})  # one that it solves, one that it does not
    finished(runs["full-s0"], 0.5)
    results = results_of(comparison)
    lossy = next(one for one in results if one.lost)
    assert (lossy.arm, lossy.seed, lossy.lost) == ("full", 0, 2)
    assert lossy.clean_success == pytest.approx(47 / 94)
    assert lossy.bounds == pytest.approx((47 / 96, 49 / 96))
    assert lossy.to_json()["clean"].count("?") == 2
    told = report(comparison, results)
    full, versus = told["arms"]["full"], told["arms"]["full"]["versus"]["static"]
    assert (full["lost"], full["planned"], versus["lost_pairs"]) == (2, 192, 2)
    assert full["mean"]["value"] == pytest.approx(0.5)
    assert full["bounds"] == pytest.approx([95 / 192, 97 / 192])
    assert versus["difference"]["value"] == pytest.approx(0.0)
    assert versus["bounds"] == pytest.approx([-1 / 192, 1 / 192])
    assert versus["better_seeds"] == 0


def test_a_run_that_lost_too_much_is_void(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = declared(tmp_path, "full", "static", seeds=1)
    full, static = (run.config for run in comparison.runs())
    finished(static, 0.5)
    lose(monkeypatch, {f"vault-{n:03d}" for n in range(6)})
    finished(full, 0.5)
    told = report(comparison, results_of(comparison))
    assert told["void"] == ["full-s0"] and told["unfinished"] == []
    assert told["arms"]["full"] == {"runs": 0}
    assert told["arms"]["static"]["versus"] == {}


def test_a_run_that_has_not_ended_is_not_a_result(tmp_path: Path) -> None:
    comparison = declared(tmp_path, "full", seeds=1)
    (run,) = comparison.runs()
    workspace = open_or_create(run.config)
    with Ledger.open(workspace.ledger_file) as ledger:
        ledger.start_run("r", {}, config_hash="h")
    assert results_of(comparison) == []
    with Ledger.open(workspace.ledger_file) as ledger:
        ledger.finish_run("r", "interrupted")
    assert results_of(comparison) == []


def test_promotions_are_inspected_afterwards(bench: Bench) -> None:
    bench.lab.leaks = lambda tree, *_: "one" in marks(tree)
    prepare(bench, candidates=1)
    having(bench, Idea("one", "data"))
    solving(bench, lambda found: 0.6 if found else 0.5)
    handed = ScoreOnly().carry_out(bench.run, first_version(bench.run))
    assert handed.version.id == "v1"
    assert promotions_of(bench) == (("g0/c0",), {"g0/c0": ("conduct.leak",)})


def promotions_of(bench: Bench) -> tuple[Any, ...]:
    inspector = Inspector(bench.lab.store, bench.lab.domain)
    return _promotions(bench.run.ledger, reduce(bench.run.ledger, "r"), inspector)


def test_a_claim_counts_as_the_promotion_that_it_is(bench: Bench) -> None:
    """What trains on after the proof is no part of its cost."""
    prepare(bench)
    solving(bench, lambda found: 0.5 + 0.2 * len(found))
    found = found_with(bench, Idea("one", "data"))
    before = spent(bench.run.ledger, "r")
    assert handed_over(bench, found).standing == "proven"
    assert promotions_of(bench) == (("claim",), {})
    pairs = MIN_PAIRS * one_pair(bench.run.plan, bench.repo.tree(bench.repo.head()))
    after = _proven_after(bench.run.ledger, "r")
    assert after == before + bench.run.plan.search + pairs < spent(bench.run.ledger, "r")
