"""`staged` on a scripted policy: real ledger, git, store, sandbox, replays and gate."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.harness.recipe import SFT_ROWS
from meta_agent.core.history._repo import LEAD
from meta_agent.core.lab.live import Evaluated, Trained
from meta_agent.core.lab.units import EvalUnit, TrainUnit, tasks_of
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Warmup
from meta_agent.core.loop.budget import spent
from meta_agent.core.loop.finish import finish
from meta_agent.core.loop.loop import first_version
from meta_agent.core.loop.plan import plan_for
from meta_agent.core.loop.records import HandedOver
from meta_agent.core.loop.verbs import propose as propose_step
from meta_agent.core.protocols import JSON, HarnessTree
from meta_agent.proposers import Proposal, RulesAgent
from meta_agent.strategies.strategies import STRATEGIES
from tests.steps._again import gone_through_again
from tests.steps._bench import Bench, ScriptedLab, _proposal, rollout
from tests.steps._ideas import Idea, having, in_it, marks, outcomes

BUDGET = 4000


class Legs(ScriptedLab):
    """A policy that a pass of imitation and each leg make better, unless the rate is too high."""

    references = 20
    skills: dict[str, float]

    def render_references(self, tree: HarnessTree) -> Warmup:
        record = Warmup(rows=self.references, sha256="")
        return self.ledger.once(f"{self.settings.run}/warmup", "warmup", {}, lambda: record)

    def _train(self, unit: TrainUnit, tree: HarnessTree) -> JSON:
        self.made.append(unit.name)
        ruined, before = rate(tree) >= 0.05, self.skills.get(unit.policy, 0.0)
        gain = (0.2 if unit.before == 0 else 0.0) if unit.imitates else 0.05
        skill = self.skills[unit.name] = 0.0 if ruined and not unit.imitates else before + gain
        rows = [] if unit.imitates else self._attempts(unit, tree, before)
        metrics = [
            {"step": step + 1, "entropy": 0.01 if ruined and step else 1.0, "loss": 0.1,
             "grad_norm": 1.0, "reward_mean": skill, "dead_group_ratio": 0.5}
            for step in range(unit.steps)
        ]  # fmt: skip
        shard = self.store.write(f"train-{unit.name}", rows)
        kept = {"name": shard.name, "sha256": shard.sha256}
        steps, made = unit.before + unit.steps, len(rows)
        return Trained(
            f"/{unit.name}", unit.name, unit.seed, steps, kept, metrics, unit.steps, made
        ).to_json()

    def _attempts(self, unit: TrainUnit, tree: HarnessTree, skill: float) -> list[Any]:
        """Groups of which one is mixed and the others fail, at different lengths."""
        tasks = self.domain.tasks("train")
        return [
            rollout(
                tasks[(unit.seed + step * 4 + group) % len(tasks)],
                name=unit.name,
                solved=group == 0 and at < 4,
                group_id=f"train/{step:04d}/{group:03d}",
                sample_idx=at,
                harness_commit=tree.commit,
                turns=1 + at % 2,
                stop_reason="submitted",
            )
            for step in range(unit.steps)
            for group in range(4)
            for at in range(8)
        ]

    def _evaluate(self, unit: EvalUnit, tree: HarnessTree) -> JSON:
        share = self.script(tree) + self.skills.get(unit.policy, 0.0)
        rows = [
            rollout(task, name=unit.name, solved=coin(task.key, sample) < share,
                    sample_idx=sample, harness_commit=tree.commit)
            for sample in unit.samples
            for task in tasks_of(self.domain, unit.split, unit.limit, unit.part)
        ]  # fmt: skip
        shard = self.store.write(f"eval-{unit.name}", rows)
        kept = {"name": shard.name, "sha256": shard.sha256}
        clean = sum(row.clean for row in rows)
        return Evaluated(kept, len(rows), clean, clean, unit.seed, len(rows))._asdict()


def coin(key: str, sample: int) -> float:
    return hashlib.sha256(f"{key} {sample}".encode()).digest()[0] / 256


def rate(tree: HarnessTree) -> float:
    found = re.search(rb"learning_rate = (\S+)", tree.files["swe/recipe.toml"])
    assert found
    return float(found[1])


@pytest.fixture
def staged(bench: Bench) -> Bench:
    return prepared(bench)


def prepared(bench: Bench) -> Bench:
    bench.lab.__class__ = Legs
    bench.lab.skills = {}
    settings = {"strategy": "staged", "budget": BUDGET, "generations": 2, "candidates": 4}
    bench.run.config = RunConfig(**settings)
    bench.run.plan = plan_for(bench.run.config)
    bench.lab.script = lambda tree: 0.1 + 0.2 * ("better" in marks(tree))

    return bench


def carried_out(bench: Bench) -> HandedOver:
    bench.forget()
    return STRATEGIES["staged"]().carry_out(bench.run, first_version(bench.run))


def kinds(bench: Bench) -> list[str]:
    """The stages in their order: each kind of step once, where it began."""
    seen = dict.fromkeys(step.kind for step in bench.run.ledger.steps("r"))
    return [kind for kind in seen if kind in ("race", "warmup", "leg", "live", "attribution")]


def verdicts(bench: Bench) -> dict[str, str]:
    return {row["candidate"].partition("/")[2]: row["kind"] for row in outcomes(bench, "verdict")}


def test_it_races_warms_up_trains_in_legs_and_claims_once(staged: Bench) -> None:
    having(staged, Idea("better", "scaffold"), Idea("useless", "scaffold", first=True))
    found = carried_out(staged)
    assert kinds(staged) == ["race", "warmup", "leg", "live", "attribution"]
    assert found.standing == "proven" and in_it(staged, found) == {"better"}
    assert staged.repo.head() == found.version.commit and staged.repo.tip(LEAD) is None
    (warm,) = outcomes(staged, "passes")
    assert warm["passes"] == 1 and len(warm["clean_success"]) == 3, "the second added nothing"
    legs = outcomes(staged, "leg")
    assert len(legs) >= 2 and not any(leg["harm"] for leg in legs)
    assert found.trained and found.trained.steps == legs[-1]["steps"]
    (parts,) = outcomes(staged, "attribution")
    assert parts["cells"]["new_new"] > parts["cells"]["old_new"] > parts["cells"]["old_old"]
    assert verdicts(staged)["claim"] == "PROMOTE" and len(outcomes(staged, "live")) == 1


def test_no_stage_spends_more_than_its_share(staged: Bench) -> None:
    having(staged, *(Idea(f"no{n}", "scaffold") for n in range(6)))
    carried_out(staged)
    ledger = staged.run.ledger
    warmup = ledger.step("r/warmup")
    assert warmup and spent(ledger, "r", before=warmup) <= 0.4 * BUDGET
    assert spent(ledger, "r") <= BUDGET
    bought = sum(row["attempts"] for row in outcomes(staged, "race"))
    assert bought < BUDGET


def test_an_edit_between_legs_is_decided_by_replay_or_race_and_acts_in_the_next(
    staged: Bench,
) -> None:
    asked = edits_after_the_race(
        staged,
        ("scaffold", "swe/agent.py", lambda text: f"{text}\n\nMARK_better = 1\n"),
        ("reward", "swe/reward.py", lambda text: text.replace('"solved": 1.0', '"solved": -1')),
        ("filter", "swe/filter.py", lambda text: f"{text}\n\nMARK_same = 1\n"),
    )
    found = carried_out(staged)
    assert asked, "the proposer was asked after a leg"
    told = verdicts(staged)
    assert [told[f"g1/c{n}"] for n in range(3)] == ["PROMOTE", "INCONCLUSIVE", "INCONCLUSIVE"]
    assert in_it(staged, found) == {"better"}
    versions = [leg["version"] for leg in outcomes(staged, "leg")]
    assert versions[0] == "v0" and set(versions[1:]) == {"v0+1"}


def test_a_leg_with_a_planted_rate_is_taken_back_with_its_edit(staged: Bench) -> None:
    edits_after_the_race(
        staged, ("recipe", "swe/recipe.toml", lambda text: text.replace("2e-4", "0.1"))
    )
    found = carried_out(staged)
    legs = outcomes(staged, "leg")
    assert [bool(leg["harm"]) for leg in legs[:3]] == [False, True, False]
    assert legs[1]["before"] == legs[2]["before"] == legs[0]["clean_success"]
    assert "0.1" not in staged.repo.tree(found.version.commit).files["swe/recipe.toml"].decode()
    assert verdicts(staged)["g1/c0"] == "INCONCLUSIVE"
    assert found.trained and staged.lab.skills[found.trained.policy] > 0.2


def test_a_run_that_is_killed_at_many_steps_ends_like_an_undisturbed_one(
    staged: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a step did and the journal does not hold is lost, as with SIGKILL: each third."""
    ideas = Idea("better", "scaffold"), Idea("other", "data", after="better")
    having(staged, *ideas)
    undisturbed = ending(staged, carried_out(staged))
    assert undisturbed[-1]["g0/c0"] == "PROMOTE" and len(undisturbed[-2]) > 3

    (tmp_path / "killed").mkdir()
    with Ledger.open(tmp_path / "killed" / "ledger.sqlite") as ledger:
        bench = prepared(Bench(tmp_path / "killed", ledger, monkeypatch))
        having(bench, *ideas)
        finished, left = ledger._finish, [3]

        def killed(*row: Any) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            finished(*row)

        monkeypatch.setattr(ledger, "_finish", killed)
        kills, found = 0, None
        while found is None:
            left[0] = 3
            try:
                found = carried_out(bench)
            except KeyboardInterrupt:
                kills += 1
        assert kills > 20 and ending(bench, found) == undisturbed


def ending(bench: Bench, found: HandedOver) -> list[Any]:
    """What must be the same at the end; a commit's date is the run's own."""
    legs = [(leg["version"], leg["clean_success"]) for leg in outcomes(bench, "leg")]
    return [found.version, found.trained and found.trained.policy, found.standing, legs,
            verdicts(bench)]  # fmt: skip


def test_verification_finds_a_staged_run_as_it_was(staged: Bench) -> None:
    having(staged, Idea("better", "scaffold"))
    first = first_version(staged.run)
    finish(staged.run, first, carried_out(staged))

    def whole(bench: Bench) -> None:
        again = first_version(bench.run)
        finish(bench.run, again, STRATEGIES["staged"]().carry_out(bench.run, again))

    assert gone_through_again(staged, whole).differences == []


def edits_after_the_race(
    bench: Bench, *edits: tuple[Any, str, Callable[[str], str]]
) -> list[HarnessTree]:
    """Nothing is proposed in the race; after the first leg these are."""
    asked: list[HarnessTree] = []

    def propose(_evidence: Any, tree: HarnessTree, *_: Any, **more: Any) -> list[Proposal]:
        if more.get("repair") or bench.run.stage_factors or asked:
            return []
        asked.append(tree)
        return [
            _proposal(at, factor, {path: edit(tree.files[path].decode())}, "")
            for at, (factor, path, edit) in enumerate(edits)
        ]

    bench.run.extensions.proposer = RulesAgent(propose)
    bench._patch.setattr(propose_step, "_situation", lambda _: None)
    return asked


def test_no_leg_is_trained_where_every_search_task_is_solved(staged: Bench) -> None:
    staged.lab.script = lambda tree: 1.0
    carried_out(staged)
    assert "leg" not in kinds(staged)


@pytest.mark.parametrize(
    ("strategy", "goes_on"), [("imitate", False), ("imitate-then-train", True)]
)
def test_a_baseline_imitates_under_the_start_and_claims_nothing(
    staged: Bench, strategy: str, goes_on: bool
) -> None:
    staged.run.config = RunConfig(strategy=strategy, budget=BUDGET, train_steps=4)
    staged.run.plan = plan_for(staged.run.config)
    found = STRATEGIES[strategy]().carry_out(staged.run, first_version(staged.run))
    assert kinds(staged) == ["warmup"] and found.standing == "start"
    (warm,) = outcomes(staged, "passes")
    assert warm["passes"] == 1 and found.trained
    imitated = -(-Legs.references // SFT_ROWS)
    assert (found.trained.steps > imitated) == goes_on
    assert spent(staged.run.ledger, "r") <= BUDGET
