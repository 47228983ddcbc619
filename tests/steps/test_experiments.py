"""Experiments of the team: what they bring, what they take, and what a hostile one cannot do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import CandidateError, ProviderError
from meta_agent.core.lab.units import TrainUnit
from meta_agent.core.ledger import Ledger
from meta_agent.core.loop.budget import EXPERIMENT_SHARE, SEARCH_SHARE, attempts_a_step, spent
from meta_agent.core.loop.records import Collected
from meta_agent.core.loop.verbs.collect import rolled_out_untrained
from meta_agent.core.loop.verbs.propose import revise
from meta_agent.core.protocols import HarnessTree, Rollout
from tests.agents._models import Call, ScriptedModels, Turn
from tests.steps._bench import PLAN, Bench, as_frozen, replace_plan, rollout
from tests.steps._team import (
    AGENT,
    APPROVE,
    COMMIT,
    FINISH,
    edit,
    good,
    idea,
    proposed,
    script,
    submit,
    with_team,
)

MORE = {"path": AGENT, "old": "MAX_TURNS = 8", "new": "MAX_TURNS = 9"}
TRY = {"policy": "base", "split": "search", "tasks": 8}


def rich(bench: Bench) -> Collected:
    """A budget that pays for experiments, of which repairs solve more; the version read twice."""
    replace_plan(bench, trainings=1000)
    bench.lab.script = lambda tree: 0.75 if b"MAX_TURNS = 8" not in tree.files[AGENT] else 0.5
    collected = bench.collected()
    return collected._replace(untrained=rolled_out_untrained(bench.run, collected.tree))


def analysed(*turns: Turn, authors: Sequence[Sequence[Turn]] = (good(),)) -> dict[str, Any]:
    """An analyst that experiments first, then hands over one idea per author."""
    found = script(*authors)
    return {**found, "g0/analyst": [*turns, *found["g0/analyst"]]}


def trying(*edits: dict[str, str], **changes: Any) -> list[Call]:
    return [("try_edit", {**TRY, "edits": list(edits), **changes})]


def training(*edits: dict[str, str]) -> list[Call]:
    return [("train_edit", {"edits": list(edits)})]


STAGED: list[Call] = [("train_edit", {})]


def made(bench: Bench) -> int:
    return spent(bench.run.ledger, "r")


def evals(bench: Bench) -> list[str]:
    return [step.key for step in bench.run.ledger.steps(kind="eval")]


# --- what they bring ----------------------------------------------------------------------------


def test_an_edit_is_rolled_out_and_reported_like_the_version(bench: Bench) -> None:
    collected = rich(bench)
    before, trainings = made(bench), bench.lab.trainings
    models = with_team(bench, analysed(trying(MORE)))
    assert len(proposed(bench, collected)) == 1
    (told,) = models.heard("g0/analyst")
    assert "The base policy on 8 search tasks" in told
    assert "the edit: 6 of 8 clean (75.0%), 6 solved" in told
    assert "the version, same tasks: 8 of 8" in told  # its stored attempts: 100 of 200 are solved
    _, moved = told.split("What moved, ")
    assert "clean success 75.0% [" in moved and "\nbehaviour\n" not in moved
    assert "Every attempt in a line:" in told and "# search search-006 sample 0" in told
    assert made(bench) - before == 8 and bench.lab.trainings == trainings


def test_a_report_is_kept_as_evidence_and_may_be_quoted(bench: Bench) -> None:
    collected = rich(bench)
    path = "evidence/experiments/01-try.md"
    quote = {"path": path, "line": 1, "quote": "- the edit: 6 of 8 clean"}
    turns = analysed(trying(MORE), authors=[[[("view", {"path": path})], *good()]])
    turns["g0/analyst"][1] = submit(idea(evidence=[quote]))
    models = with_team(bench, turns)
    (candidate,) = proposed(bench, collected)
    assert candidate.hypothesis.evidence == (f"{path}:2: - the edit: 6 of 8 clean",)
    assert f"in full at {path}" in models.heard("g0/analyst")[0]
    assert "The base policy on 8 search tasks" in models.heard("g0/c0/proposer")[0]


def test_train_tasks_are_tried_beside_the_version(bench: Bench) -> None:
    collected = rich(bench)
    before = made(bench)
    models = with_team(bench, analysed(trying(MORE, split="train", policy="trained")))
    proposed(bench, collected)
    (told,) = models.heard("g0/analyst")
    assert "The version's trained policy on 8 train tasks" in told
    assert "the version, same tasks: 4 of 8" in told
    assert made(bench) - before == 16


def test_a_short_training_tells_both_sides(bench: Bench) -> None:
    collected = rich(bench)
    replace_plan(bench, steps=30)
    models = with_team(bench, analysed(training(MORE)))
    proposed(bench, collected)
    (told,) = models.heard("g0/analyst")
    assert "10 steps from the base policy on either side, training seed 0" in told
    assert "the edit: 96 of 128 clean (75.0%), 96 solved" in told
    assert "the version: 64 of 128 clean (50.0%), 64 solved" in told
    assert "gain +25.0 points, over tasks [+" in told
    assert [name.rpartition("-")[2] for name in bench.lab.made] == ["n2", "n10", "n10"]


def test_the_version_is_trained_once_for_all_who_ask(bench: Bench) -> None:
    collected = rich(bench)
    replace_plan(bench, steps=30)
    authors = [[edit(at), STAGED, COMMIT, FINISH] for at in range(3)]
    models = with_team(bench, analysed(training(MORE), authors=authors))
    assert len(proposed(bench, collected)) == 3
    # the version's, the analyst's edit, which is the first author's too, and two others
    assert len([name for name in bench.lab.made if name.endswith("n10")]) == 4
    for at in range(3):
        assert "the edit: 96 of 128 clean" in models.heard(f"g0/c{at}/proposer")[1]


def test_what_a_training_went_through_is_told_from_its_ends(bench: Bench) -> None:
    collected = rich(bench)
    plain = bench.lab._train

    def stored(unit: TrainUnit, tree: Any) -> Any:
        name = unit.name
        rows = [
            rollout(task, name=name, solved=step > 0, group_id=f"train/{step:04d}/000")
            for step in range(8)
            for task in bench.lab.domain.tasks("train")[:4]
        ]
        shard = bench.lab.store.write(f"train-{name}", rows)
        told = {"name": shard.name, "sha256": shard.sha256}
        return {**plain(unit, tree), "shard": told}

    bench.lab._train = stored  # type: ignore[method-assign]
    replace_plan(bench, steps=30)
    models = with_team(bench, analysed(training(MORE)))
    proposed(bench, collected)
    (told,) = models.heard("g0/analyst")
    first, _, last = told.partition("## The last groups of its training")
    assert "## The first groups of its training" in first
    assert "clean success 66.7% [" in first and "clean success 100.0% [" in last


def test_a_reward_is_replayed_without_attempts(bench: Bench) -> None:
    collected = _with_stored_training(rich(bench), bench)
    before = made(bench)
    reward = bench.text("swe/reward.py")
    change = {"path": "swe/reward.py", "content": reward + "\n# no other\nSPARE = 1\n"}
    models = with_team(bench, analysed([("replay_edit", {"edits": [change]})]))
    proposed(bench, collected)
    (told,) = models.heard("g0/analyst")
    assert "measured>" in told and "rollouts: 8" in told
    assert made(bench) == before


def _with_stored_training(collected: Collected, bench: Bench) -> Collected:
    tasks = bench.lab.domain.tasks("train")[:2]
    commit = collected.version.commit
    rows: list[Rollout] = [
        rollout(task, solved=at % 2 == 0, sample_idx=at, group_id=f"train/0000/{number:03d}",
                harness_commit=commit)
        for number, task in enumerate(tasks) for at in range(4)
    ]  # fmt: skip
    shard = bench.lab.store.write("train-stored", rows)
    told = {"name": shard.name, "sha256": shard.sha256}
    return collected._replace(trained=collected.trained._replace(shard=told))


def test_two_factors_that_mask_each_other_are_tried_together(bench: Bench) -> None:
    collected = rich(bench)
    keep = {"path": "swe/filter.py", "content": bench.text("swe/filter.py") + "\nSPARE = 1\n"}
    recipe = {"path": "swe/recipe.toml", "content": bench.text("swe/recipe.toml") + "\n# x\n"}
    models = with_team(bench, analysed(trying(MORE, keep), trying(MORE, keep, recipe)))
    proposed(bench, collected)
    both, three = models.heard("g0/analyst")
    assert "the edit: 6 of 8 clean" in both
    assert "static.several_factors" in three


# --- what they take -----------------------------------------------------------------------------


def test_both_prompts_say_what_is_left(bench: Bench) -> None:
    collected = rich(bench)
    models = with_team(bench, analysed(trying(MORE), authors=[good(), good(1)]))
    proposed(bench, collected)
    declared = _declared(bench)
    lent = f"{declared:,} attempts and 8 calls are left to you, of the {declared:,} attempts"
    assert lent in str(models.requests["g0/analyst", 0].messages[0]["content"])
    assert (
        f"[in full at evidence/experiments/01-try.md; {declared - 8:,} attempts and 7"
        in (models.heard("g0/analyst")[0])
    )
    for at in range(2):
        said = str(models.requests[f"g0/c{at}/proposer", 0].messages[0]["content"])
        assert f"{(declared - 8) // 2:,} attempts and 8 calls are left to you" in said


def _declared(bench: Bench) -> int:
    step = bench.run.ledger.step("r/g0/experiments")
    assert step is not None
    return int(step.outcome["attempts"])


def test_a_generation_declares_a_part_of_the_searchs_share(bench: Bench) -> None:
    collected = rich(bench)
    with_team(bench, analysed())
    proposed(bench, collected)
    cell = PLAN.steps * attempts_a_step(collected.tree) + PLAN.search
    assert _declared(bench) == int(EXPERIMENT_SHARE * SEARCH_SHARE * 1000 * cell)


@pytest.mark.parametrize("why", ["no room beside a bundle", "a race", "by score", "scores alone"])
def test_where_nothing_is_lent_nothing_is_offered(bench: Bench, why: str) -> None:
    collected = rich(bench)
    with_team(bench, analysed())
    if why == "no room beside a bundle":
        replace_plan(bench, trainings=5)
    elif why == "a race":
        replace_plan(bench, race=2000)
    else:
        named = {"by score": "score-only", "scores alone": "no-diagnostics"}[why]
        bench.run.config = replace_config(bench, strategy=named)
    models = bench.run.models
    assert isinstance(models, ScriptedModels)
    assert len(proposed(bench, collected)) == 1
    for role in ("g0/analyst", "g0/c0/proposer"):
        request = models.requests[role, 0]
        assert not any(tool.name.endswith("_edit") for tool in request.tools)
        assert "experiment" not in str(request.messages[0]["content"]).replace("small exper", "")


def replace_config(bench: Bench, **changes: Any) -> RunConfig:
    return RunConfig.from_json({**bench.run.config.to_json(), **changes})


def test_a_call_beyond_what_is_left_is_refused_in_a_sentence(bench: Bench) -> None:
    collected = rich(bench)
    replace_plan(bench, trainings=12, steps=30)
    step = attempts_a_step(collected.tree)
    most = int(EXPERIMENT_SHARE * SEARCH_SHARE * 12 * (30 * step + PLAN.search))
    assert most < 2 * (10 * step + 128)
    before = bench.lab.made.copy()
    tries = [trying({**MORE, "new": f"MAX_TURNS = {9 + at}"}, tasks=8) for at in range(8)]
    models = with_team(bench, analysed(training(MORE), *tries))
    proposed(bench, collected)
    absent, *told = models.heard("g0/analyst")
    assert "train_edit" not in [tool.name for tool in models.requests["g0/analyst", 0].tools]
    assert "train_edit" not in str(models.requests["g0/analyst", 0].messages)
    assert "no tool" in absent
    assert len(told) == 8
    assert bench.lab.made == before


def test_calls_are_counted_too(bench: Bench) -> None:
    collected = rich(bench)
    tries = [trying({**MORE, "new": f"MAX_TURNS = {9 + at}"}) for at in range(9)]
    models = with_team(bench, analysed(*tries))
    proposed(bench, collected)
    *told, refused = models.heard("g0/analyst")
    assert len([one for one in told if "the edit: 6 of 8" in one]) == 8
    assert refused.startswith("ERROR: this needs one call and 8 attempts; ")
    assert " and 0 calls are left to you" in refused


def test_a_recipe_with_a_giant_batch_is_priced_by_it(bench: Bench) -> None:
    collected = rich(bench)
    replace_plan(bench, trainings=100)
    recipe = bench.text("swe/recipe.toml").replace("groups_per_step = 16", "groups_per_step = 512")
    change = {"path": "swe/recipe.toml", "content": recipe}
    before = bench.lab.made.copy()
    models = with_team(bench, analysed(training(change)))
    proposed(bench, collected)
    (told,) = models.heard("g0/analyst")
    assert f"this needs one call and {2 * 512 * 8 + 128 + 128:,} attempts" in told
    assert bench.lab.made == before


# --- kills and replays --------------------------------------------------------------------------


def test_a_run_that_stops_repeats_no_experiment(bench: Bench) -> None:
    collected = rich(bench)
    replace_plan(bench, steps=30)
    down = ProviderError("down", kind="overloaded")
    authors = [[edit(0), STAGED, down], [edit(1), STAGED, COMMIT, FINISH]]
    first = with_team(bench, analysed(training(MORE), trying(MORE), authors=authors))
    with pytest.raises(ProviderError):
        proposed(bench, collected)
    authors = [[edit(at), STAGED, COMMIT, FINISH] for at in range(2)]
    again = with_team(bench, analysed(training(MORE), trying(MORE), authors=authors))
    again.recorded = dict(first.recorded)
    assert len(proposed(bench, collected)) == 2
    assert not set(again.live) & set(first.recorded)
    assert len(bench.lab.made) == len(set(bench.lab.made)) == 4
    assert len(evals(bench)) == len(set(evals(bench)))
    assert all(s.attempts == 1 for s in bench.run.ledger.steps(kind="experiment"))


def test_a_recording_is_heard_again_word_for_word_in_another_workspace(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_plan(bench, steps=30)
    authors = [[edit(at), STAGED, COMMIT, FINISH] for at in range(3)]
    first = with_team(bench, analysed(training(MORE), authors=authors))
    commits = [one.commit for one in proposed(bench, rich(bench))]
    with Ledger.open(tmp_path / "other.sqlite") as ledger:
        folder = tmp_path / "other"
        folder.mkdir()
        other = Bench(folder, ledger, monkeypatch)
        replace_plan(other, steps=30)
        again = with_team(other, {})
        again.recorded = dict(first.recorded)
        assert [one.commit for one in proposed(other, rich(other))] == commits
    assert again.live == []


def test_a_revision_has_what_the_generation_left(bench: Bench) -> None:
    collected = rich(bench)
    turns = analysed(trying(MORE))
    again: list[Call] = [("edit", {**MORE, "old": "MAX_TURNS = 9", "new": "MAX_TURNS = 10"})]
    turns |= {"g0/c3/proposer": [again, COMMIT, FINISH], "g0/c3/reviewer": APPROVE}
    models = with_team(bench, turns)
    (candidate,) = proposed(bench, collected)
    assert revise(bench.run, collected, bench.reading, candidate, "rather ten") is not None
    said = str(models.requests["g0/c3/proposer", 0].messages[0]["content"])
    assert f"{_declared(bench) - 8:,} attempts and 8 calls are left to you" in said


# --- what goes wrong ----------------------------------------------------------------------------


def test_an_edit_that_fails_its_checks_costs_nothing(bench: Bench) -> None:
    collected = rich(bench)
    broken = {"path": AGENT, "content": "def run(:\n"}
    raising = {"path": AGENT, "content": bench.text(AGENT) + "\nraise RuntimeError('no')\n"}
    same = {**MORE, "new": MORE["old"]}
    before = evals(bench)
    calls = (trying(broken), training(raising), trying(same), training())
    models = with_team(bench, analysed(*calls))
    proposed(bench, collected)
    syntax, loads, empty, none = models.heard("g0/analyst")
    assert "static.python_syntax" in syntax and "FAILED its checks, nothing ran" in syntax
    assert "contract.load" in loads and "edits no file" in empty
    assert "'edits' must be a list" in none
    assert evals(bench) == before and not bench.run.ledger.steps(kind="experiment")


def test_an_edit_that_breaks_while_it_is_measured_is_an_answer(bench: Bench) -> None:
    collected = rich(bench)

    def fails(tree: HarnessTree) -> float:
        if b"MAX_TURNS = 8" not in tree.files[AGENT]:
            raise CandidateError("its agent ate the sandbox", reason="sandbox_oom")
        return 0.5

    bench.lab.script = fails
    replace_plan(bench, steps=30)
    models = with_team(bench, analysed(training(MORE), trying(MORE)))
    assert len(proposed(bench, collected)) == 1
    for told in models.heard("g0/analyst"):
        assert "FAILED>" in told and "It cannot be measured: its agent ate the sandbox" in told


HOSTILE = ["../x.py", "/etc/passwd", "harness.toml", "swe/../harness.toml", "tests/grade.py", "",
           "swe/.gitattributes", "swe/\0.py", "swe/\ud800.py", "swe//agent.py", "SWE/agent.py",
           "swe/" + "a" * 5000, ".git/config", "swe/\u202eyp.tnega"]  # fmt: skip


def test_no_hostile_name_reaches_a_sandbox(bench: Bench) -> None:
    collected = rich(bench)
    before = evals(bench)
    tries = [trying({"path": path, "content": "x = 1\n"}) for path in HOSTILE]
    models = with_team(bench, analysed(*tries))
    assert len(proposed(bench, collected)) == 1
    heard = models.heard("g0/analyst")
    assert len(heard) == len(HOSTILE)
    assert all(told.startswith("ERROR: ") for told in heard), json.dumps(heard, indent=1)
    assert evals(bench) == before and not bench.run.ledger.steps(kind="experiment")


@pytest.mark.parametrize(
    "changes",
    [{"split": "confirm"}, {"split": "vault"}, {"policy": "../w"}, {"tasks": 33}, {"edits": "x"},
     {"edits": [MORE] * 21}, {"edits": [["x"]]}, {"edits": [{**MORE, "old": 5}]},
     {"edits": [{**MORE, "new": "y" * 200_001}]}, {"tasks": True}],
)  # fmt: skip
def test_only_what_is_offered_can_be_asked_for(bench: Bench, changes: dict[str, Any]) -> None:
    collected = rich(bench)
    before = evals(bench)
    models = with_team(bench, analysed(trying(MORE, **changes)))
    proposed(bench, collected)
    assert models.heard("g0/analyst")[0].startswith("ERROR: ")
    assert evals(bench) == before


# --- what the team is told beside ----------------------------------------------------------------


def test_the_team_is_told_what_rounds_remain(bench: Bench) -> None:
    collected = rich(bench)
    bench.run.once("g0/propose/budget", "budget", {}, lambda: {"cells": 7})
    models = with_team(bench, analysed())
    proposed(bench, collected)
    said = str(models.requests["g0/analyst", 0].messages[0]["content"])
    assert "This is generation 0; at most 2 more are asked for ideas after it." in said
    assert "The search's share of the budget pays for 7 more trainings." in said


def test_a_race_is_told_as_it_is(bench: Bench) -> None:
    bench.run.plan = as_frozen(PLAN, race=2000, looks=(5,), confirm=40)
    models = with_team(bench, analysed())
    proposed(bench)
    for role in ("g0/analyst", "g0/c0/proposer"):
        said = str(models.requests[role, 0].messages[0]["content"])
        assert "a race of 2,000 attempts on 200 search tasks" in said
        assert "in blocks of 8 attempts" in said and "5 samples of each of 40 tasks" in said
        assert "once without each" not in said and "bundle" not in said


# --- what the rules agent tries by itself ---------------------------------------------------------


def test_the_rules_agent_tries_small_edits_once_and_counts_them(bench: Bench) -> None:
    replace_plan(bench, trainings=1000)
    collected = bench.collected()
    bench.lab.script = lambda tree: 1.0 if b"if done:" not in tree.files[AGENT] else 0.0
    bench.reading = bench.reading._replace(untrained=bench.reading.evidence)
    before = made(bench)
    found = proposed(bench, collected)
    tried = [one for one in found if one.hypothesis.rule.startswith("small-edit-")]
    assert [one.factor for one in tried] == ["scaffold"]
    assert b"if done:" not in bench.repo.tree(tried[0].commit).files[AGENT]
    assert made(bench) > before
    measured = evals(bench)
    assert [one.commit for one in proposed(bench, collected)] == [one.commit for one in found]
    assert evals(bench) == measured


def test_small_edits_wait_for_a_budget_that_pays_for_them(bench: Bench) -> None:
    collected = rich(bench)
    replace_plan(bench, trainings=3)
    bench.reading = bench.reading._replace(untrained=bench.reading.evidence)
    before = evals(bench)
    proposed(bench, collected)
    assert evals(bench) == before
