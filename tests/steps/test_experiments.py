"""Experiments of the team: what they bring, what they take, and what a hostile one cannot do."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

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


def test_the_team_tries_edits_and_authors_may_quote_what_came_of_it(bench: Bench) -> None:
    """Five kinds of experiment, their reports, their price, and what is left for others."""
    collected = _with_stored_training(rich(bench), bench)
    replace_plan(bench, steps=30)
    train_with_stored_rows(bench)
    path = "evidence/experiments/01-try.md"
    keep = {"path": "swe/filter.py", "content": bench.text("swe/filter.py") + "\nSPARE = 1\n"}
    recipe = {"path": "swe/recipe.toml", "content": bench.text("swe/recipe.toml") + "\n# x\n"}
    reward = {"path": "swe/reward.py", "content": bench.text("swe/reward.py") + "\nSPARE = 1\n"}
    turns = analysed(
        trying(MORE),
        trying(MORE, split="train", policy="trained"),
        training(MORE),
        [("replay_edit", {"edits": [reward]})],
        trying(MORE, keep),
        trying(MORE, keep, recipe),
        authors=[[[("view", {"path": path})], *good()], good(1)],
    )
    quote = {"path": path, "line": 1, "quote": "- the edit: 6 of 8 clean"}
    turns["g0/analyst"][-1] = submit(idea(evidence=[quote]), idea(1))
    again: list[Call] = [("edit", {**MORE, "old": "MAX_TURNS = 9", "new": "MAX_TURNS = 10"})]
    turns |= {"g0/c3/proposer": [again, FINISH], "g0/c3/reviewer": APPROVE}
    models = with_team(bench, turns)
    before, trainings = made(bench), bench.lab.trainings
    candidate, _ = proposed(bench, collected)
    assert candidate.hypothesis.evidence == (f"{path}:2: - the edit: 6 of 8 clean",)
    tried, beside, trained, replayed, both, three = models.heard("g0/analyst")
    assert "the edit: 6 of 8 clean (75.0%), 6 solved" in tried
    assert "the version, same tasks: 8 of 8" in tried  # stored attempts: 100 of 200 are solved
    assert "clean success 75.0% [" in tried and "# search search-006 sample 0" in tried
    assert "8 train tasks" in beside and "the version, same tasks: 4 of 8" in beside
    assert "10 steps" in trained and "gain +25.0 points, over tasks [+" in trained
    assert "the edit: 96 of 128 clean (75.0%), 96 solved" in trained
    assert "the version: 64 of 128 clean (50.0%), 64 solved" in trained
    opening, _, last = trained.partition("## The last groups of its training")
    assert "clean success 66.7% [" in opening and "clean success 100.0% [" in last
    assert "measured>" in replayed and "rollouts: 8" in replayed
    assert "the edit: 6 of 8 clean" in both and "static.several_factors" in three
    assert len(bench.lab.made) - trainings == 2, "the edit and the version, ten steps each"
    steps = 2 * 10 * bench.lab.rollouts_a_step
    assert made(bench) - before == 8 + 16 + steps + 2 * 128 + 8
    declared, spent_here = _declared(bench), made(bench) - before
    cell = 30 * attempts_a_step(collected.tree) + PLAN.search
    assert declared == int(EXPERIMENT_SHARE * SEARCH_SHARE * 1000 * cell)
    assert left_to(models, "g0/analyst") == declared
    assert f"{declared - 8:,} attempts and 7" in tried, "for the analyst"
    each = left_to(models, "g0/c0/proposer")
    assert each == left_to(models, "g0/c1/proposer") and 0 < 2 * each <= declared - spent_here
    assert revise(bench.run, collected, bench.reading, candidate, "rather ten") is not None
    assert left_to(models, "g0/c3/proposer") // 2 == each, "a revision has what is left"


def train_with_stored_rows(bench: Bench) -> None:
    """A training's first step solves nothing, and later ones everything."""
    plain = bench.lab._train

    def stored(unit: TrainUnit, tree: Any) -> Any:
        rows = [
            rollout(task, name=unit.name, solved=step > 0, group_id=f"train/{step:04d}/000")
            for step in range(8)
            for task in bench.lab.domain.tasks("train")[:4]
        ]
        shard = bench.lab.store.write(f"train-{unit.name}", rows)
        return {**plain(unit, tree), "shard": {"name": shard.name, "sha256": shard.sha256}}

    bench.lab._train = stored  # type: ignore[method-assign]


def told_first(models: ScriptedModels, role: str) -> str:
    return str(models.requests[role, 0].messages[0]["content"])


def left_to(models: ScriptedModels, role: str) -> int:
    """The attempts that a prompt says are left, of eight calls."""
    stated = re.search(r"([\d,]+) attempts and 8 calls", told_first(models, role))
    assert stated
    return int(stated[1].replace(",", ""))


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


# --- what they take -----------------------------------------------------------------------------


def _declared(bench: Bench) -> int:
    return bench.run.grants[0][1]


@pytest.mark.parametrize("why", ["no room beside a bundle", "a race", "scores alone"])
def test_where_nothing_is_lent_nothing_is_offered(bench: Bench, why: str) -> None:
    collected = rich(bench)
    with_team(bench, analysed())
    if why == "no room beside a bundle":
        replace_plan(bench, trainings=5)
    elif why == "a race":
        bench.run.plan = as_frozen(PLAN, race=2000, looks=(5,), confirm=40)
    else:
        bench.run.config = bench.run.config.model_copy(update={"strategy": "no-diagnostics"})
    models = bench.run.models
    assert isinstance(models, ScriptedModels)
    assert len(proposed(bench, collected)) == 1
    for role in ("g0/analyst", "g0/c0/proposer"):
        request, prompt = models.requests[role, 0], told_first(models, role)
        assert not any(tool.name.endswith("_edit") for tool in request.tools)
        assert "experiment" not in prompt.replace("small exper", "")
        assert ("a race of 2,000 attempts" in prompt) == (why == "a race")


def test_calls_and_attempts_beyond_what_is_left_are_refused(bench: Bench) -> None:
    collected = rich(bench)
    replace_plan(bench, trainings=12, steps=30)
    step = attempts_a_step(collected.tree)
    most = int(EXPERIMENT_SHARE * SEARCH_SHARE * 12 * (30 * step + PLAN.search))
    assert most < 2 * (10 * step + 128)
    before = bench.lab.made.copy()
    tries = [trying({**MORE, "new": f"MAX_TURNS = {9 + at}"}, tasks=8) for at in range(9)]
    models = with_team(bench, analysed(training(MORE), *tries))
    proposed(bench, collected)
    absent, *told, refused = models.heard("g0/analyst")
    assert "train_edit" not in [tool.name for tool in models.requests["g0/analyst", 0].tools]
    assert absent.startswith("ERROR: ")
    assert len([text for text in told if "the edit: 6 of 8" in text]) == len(told) == 8
    assert refused.startswith("ERROR: ") and "0 calls" in refused
    assert bench.lab.made == before


def test_a_recipe_with_a_giant_batch_is_priced_by_it(bench: Bench) -> None:
    collected = rich(bench)
    replace_plan(bench, trainings=100)
    recipe = bench.text("swe/recipe.toml").replace("groups_per_step = 16", "groups_per_step = 512")
    change = {"path": "swe/recipe.toml", "content": recipe}
    before = bench.lab.made.copy()
    models = with_team(bench, analysed(training(change)))
    proposed(bench, collected)
    (told,) = models.heard("g0/analyst")
    assert told.startswith("ERROR: ") and f"{2 * 512 * 8 + 128 + 128:,} attempts" in told
    assert bench.lab.made == before


# --- kills and replays --------------------------------------------------------------------------


def test_a_run_that_stops_repeats_no_experiment(bench: Bench) -> None:
    collected = rich(bench)
    replace_plan(bench, steps=30)
    down = ProviderError("down", kind="overloaded")
    authors = [[edit(0), STAGED, down], [edit(1), STAGED, FINISH]]
    first = with_team(bench, analysed(training(MORE), trying(MORE), authors=authors))
    with pytest.raises(ProviderError):
        proposed(bench, collected)
    bench.forget()
    collected = rich(bench)
    authors = [[edit(at), STAGED, FINISH] for at in range(2)]
    again = with_team(bench, analysed(training(MORE), trying(MORE), authors=authors))
    again.recorded = dict(first.recorded)
    assert len(proposed(bench, collected)) == 2
    assert not set(again.live) & set(first.recorded)
    assert len(bench.lab.made) == len(set(bench.lab.made)) == 4
    assert len(evals(bench)) == len(set(evals(bench)))
    assert all(s.attempts == 1 for s in bench.run.ledger.steps(kind="experiment"))


def test_the_version_is_trained_once_for_all_and_a_recording_is_heard_again_elsewhere(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_plan(bench, steps=30)
    authors = [[edit(at), STAGED, FINISH] for at in range(3)]
    first = with_team(bench, analysed(training(MORE), authors=authors))
    commits = [one.commit for one in proposed(bench, rich(bench))]
    # the version's, the analyst's edit, which is the first author's too, and two others
    assert len([name for name in bench.lab.made if name.endswith("n10")]) == 4
    for at in range(3):
        assert "the edit: 96 of 128 clean" in first.heard(f"g0/c{at}/proposer")[1]
    with Ledger.open(tmp_path / "other.sqlite") as ledger:
        folder = tmp_path / "other"
        folder.mkdir()
        other = Bench(folder, ledger, monkeypatch)
        replace_plan(other, steps=30)
        again = with_team(other, {})
        again.recorded = dict(first.recorded)
        assert [one.commit for one in proposed(other, rich(other))] == commits
    assert again.live == []


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
    assert "static.python_syntax" in syntax and "contract.load" in loads
    assert empty.startswith("ERROR: ") and none.startswith("ERROR: ")
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
        assert "FAILED>" in told and "its agent ate the sandbox" in told


HOSTILE = ["../x.py", "/etc/passwd", "harness.toml", "swe/../harness.toml", "tests/grade.py", "",
           "swe/.gitattributes", "swe/\0.py", "swe/\ud800.py", "swe//agent.py", "SWE/agent.py",
           "swe/" + "a" * 5000, ".git/config", "swe/\u202eyp.tnega"]  # fmt: skip


UNOFFERED: list[dict[str, Any]] = [
    {"split": "confirm"}, {"split": "vault"}, {"policy": "../w"}, {"tasks": 33}, {"edits": "x"},
    {"edits": [MORE] * 21}, {"edits": [["x"]]}, {"edits": [{**MORE, "old": 5}]},
    {"edits": [{**MORE, "new": "y" * 200_001}]}, {"tasks": True},
]  # fmt: skip


def test_no_hostile_name_reaches_a_sandbox_and_only_what_is_offered_is_done(bench: Bench) -> None:
    collected = rich(bench)
    before = evals(bench)
    tries = [trying({"path": path, "content": "x = 1\n"}) for path in HOSTILE]
    tries += [trying(MORE, **changes) for changes in UNOFFERED]
    models = with_team(bench, analysed(*tries))
    assert len(proposed(bench, collected)) == 1
    heard = models.heard("g0/analyst")
    assert len(heard) == len(tries)
    assert all(told.startswith("ERROR: ") for told in heard), json.dumps(heard, indent=1)
    assert evals(bench) == before and not bench.run.ledger.steps(kind="experiment")
