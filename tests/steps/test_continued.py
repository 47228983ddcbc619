"""A training goes on under a changed harness: fair pairs, confirmed from the base, all counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from meta_agent.composition.preflight import require_savings
from meta_agent.composition.used import require_used
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError, IntegrityError, Interrupted
from meta_agent.core.lab.live import Lab
from meta_agent.core.lab.units import EvalUnit, TrainUnit
from meta_agent.core.loop.budget import search_cap, spent
from meta_agent.core.loop.verbs.cells import CONTINUED_SEED
from meta_agent.core.protocols import HarnessTree
from tests.steps._again import gone_through_again
from tests.steps._bench import Bench
from tests.steps._ideas import Idea, carried_out, having, in_it, marks, outcomes, prepare, searched

REWARD, DATA, FILTER = Idea("reward", "reward"), Idea("data", "data"), Idea("filter", "filter")
RECIPE = "swe/recipe.toml"
STEPS = 6
WHOLE, CONTINUED = STEPS * 128 + 200, 128 + 200


class Warmup(Idea):
    """Sets a key of the recipe that acts over a whole training."""

    def edits(self, tree: HarnessTree) -> dict[str, str]:
        return {RECIPE: f"{tree.files[RECIPE].decode()}\nwarmup_steps = 1\n"}


def warms_up(tree: HarnessTree) -> bool:
    return b"\nwarmup_steps = 1\n" in tree.files[RECIPE]


def continuing(
    bench: Bench, *ideas: Idea, trainings: int = 30, generations: int = 1
) -> list[TrainUnit]:
    """Lets ideas continue trainings of six steps for one more. Returns the trainings to come."""
    prepare(bench, generations=generations, budget=trainings * WHOLE)
    bench.run.plan = replace(bench.run.plan, steps=STEPS, continue_steps=1)
    having(bench, *ideas)
    units: list[TrainUnit] = []
    train = bench.lab._train

    def counting(unit: TrainUnit, tree: HarnessTree) -> Any:
        units.append(unit)
        return train(unit, tree)

    bench._patch.setattr(bench.lab, "_train", counting)
    return units


def worth(gain: float, *, only_continued: bool = False) -> Any:
    """Every idea is worth `gain`, in any training or only from one that was continued."""

    def acts(tree: HarnessTree, unit: EvalUnit) -> float:
        counts = not only_continued or unit.steps > STEPS
        return 0.2 + 0.02 * unit.steps + gain * len(marks(tree)) * counts

    return acts


def names(bench: Bench) -> list[str]:
    return [record["name"] for record in outcomes(bench, "cell")]


def test_both_sides_go_on_from_the_same_weights_for_equal_steps_on_the_same_tasks(
    bench: Bench,
) -> None:
    units = continuing(bench, REWARD, DATA)
    evaluations: list[EvalUnit] = []
    share = worth(0.1)
    bench.lab.acts = lambda tree, unit: evaluations.append(unit) or share(tree, unit)
    found = searched(bench)
    start = found.read[0].collected.trained
    further = [unit for unit in units if unit.before]
    assert len({unit.harness for unit in further}) == len(further) == 4  # the version, three cells
    terms = {(unit.policy, unit.path, unit.before, unit.steps, unit.seed) for unit in further}
    assert terms == {(start.policy, start.path, STEPS, 1, CONTINUED_SEED)}
    read = {(unit.split, unit.limit, unit.samples, unit.seed)
            for unit in evaluations if unit.steps == STEPS + 1}  # fmt: skip
    assert read == {("search", 200, range(1), CONTINUED_SEED)}


def test_the_search_goes_on_from_what_a_training_from_the_base_confirms(bench: Bench) -> None:
    continuing(bench, REWARD, DATA)
    bench.lab.acts = worth(0.1)
    found = searched(bench)
    assert in_it(bench, found) == {"reward", "data"}
    assert names(bench) == ["all", "without g0/c0", "without g0/c1", "from the base: all"]
    *further, confirmed = outcomes(bench, "cell")
    assert [record.get("continued") for record in further] == [1, 1, 1]
    assert "continued" not in confirmed and round(confirmed["delta"], 2) == 0.2
    (bundle,) = outcomes(bench, "bundle")
    assert bundle["chosen"] == "from the base: all"
    assert {round(share["delta"], 2) for share in bundle["shares"]} == {0.1}


def test_a_cell_a_little_above_the_control_is_confirmed_for_a_detour(bench: Bench) -> None:
    continuing(bench, REWARD, DATA)
    bench.lab.acts = worth(0.005)
    found = searched(bench)
    assert names(bench)[-1] == "from the base: all" and not in_it(bench, found)
    assert outcomes(bench, "bundle")[0]["chosen"] == "from the base: all"


def test_what_is_only_found_by_continuing_is_never_claimed(bench: Bench) -> None:
    continuing(bench, REWARD, DATA)
    bench.lab.acts = worth(0.2, only_continued=True)
    result = carried_out(bench)
    assert result.standing == "start" and not in_it(bench, result)
    assert not outcomes(bench, "live") and not outcomes(bench, "lead")
    assert outcomes(bench, "bundle")[0]["chosen"] is None
    reasons = {record["kind"]: record["reasons"] for record in outcomes(bench, "verdict")}
    reason = "better in a continued training, and not from the base: all (+0.0 points)"
    assert reasons == {"INCONCLUSIVE": [reason]}


def test_a_claim_is_made_of_trainings_from_the_base(bench: Bench) -> None:
    units = continuing(bench, REWARD, DATA, trainings=60)
    bench.lab.acts = worth(0.2)
    assert carried_out(bench).standing == "proven"
    assert outcomes(bench, "live")
    claimed = [unit for unit in units if 0 < unit.seed < CONTINUED_SEED]
    assert claimed and {(unit.before, unit.steps) for unit in claimed} == {(0, STEPS)}


def test_an_idea_about_a_whole_training_goes_from_the_base_in_a_bundle_of_its_own(
    bench: Bench,
) -> None:
    warmup = Warmup("warmup", "recipe", strength=0.4)
    units = continuing(bench, REWARD, DATA, warmup)
    share = worth(0.1)
    bench.lab.acts = lambda tree, unit: share(tree, unit) + 0.1 * warms_up(tree)
    found = searched(bench)
    assert sorted(member.factor for member in found.candidates) == ["data", "recipe", "reward"]
    (plan,) = outcomes(bench, "plan")
    assert plan["continued"] == ["r/g0/c0", "r/g0/c1"] and plan["from_base"] == ["r/g0/c2"]
    assert plan["attempts"] == {"continued": CONTINUED, "from_base": WHOLE}
    assert names(bench)[-2:] == ["from the base: all", "plus g0/c2"]
    assert [unit.before for unit in units] == [0, *[STEPS] * 4, 0, 0]


def test_the_strongest_idea_decides_how_a_bundle_trains_and_the_others_wait(bench: Bench) -> None:
    warmup = Warmup("warmup", "recipe", strength=0.9)
    continuing(bench, REWARD, DATA, warmup, generations=2)
    share = worth(0.1)
    bench.lab.acts = lambda tree, unit: share(tree, unit) + 0.1 * warms_up(tree)
    found = searched(bench)
    assert found.candidates[0].factor == "recipe" and len(found.candidates) == 3
    first, second = outcomes(bench, "plan")
    assert first["from_base"] == ["r/g0/c0"] and len(first["continued"]) == 2
    assert len(second["continued"]) == 2 and not second["from_base"]


def test_an_idea_that_is_tried_alone_trains_from_the_base(bench: Bench) -> None:
    """Its control and its confirmation would cost more than they save."""
    units = continuing(bench, REWARD)
    bench.lab.acts = worth(0.1)
    assert in_it(bench, searched(bench)) == {"reward"}
    (plan,) = outcomes(bench, "plan")
    assert plan["from_base"] == ["r/g0/c0"] and [unit.before for unit in units] == [0, 0]


def test_the_plan_says_what_is_spent_and_every_attempt_counts(bench: Bench) -> None:
    continuing(bench, REWARD, DATA)
    bench.lab.acts = worth(0.1)
    searched(bench)
    (plan,) = outcomes(bench, "plan")
    price = plan["attempts"]
    start = price["from_base"] + 200  # and the base policy's reading
    cells = 4 * price["continued"] + price["from_base"]  # control, three cells, confirmation
    assert spent(bench.run.ledger, "r") == start + cells


def slow(trainings: int) -> Any:
    return pytest.param(trainings, marks=pytest.mark.slow)


@pytest.mark.parametrize("trainings", [4, 7, slow(9), slow(14), slow(20)])
def test_the_search_spends_at_most_its_share(bench: Bench, trainings: int) -> None:
    late = Idea("late", "data", first=True, after="reward")
    warmup = Warmup("warmup", "recipe", strength=0.6)
    continuing(bench, REWARD, DATA, FILTER, late, warmup, trainings=trainings, generations=4)
    bench.lab.acts = worth(0.1)
    searched(bench)
    start = WHOLE + 200  # the start is trained and read twice whatever is left
    assert spent(bench.run.ledger, "r") <= max(search_cap(bench.run, later=True), start)


def test_where_a_control_is_too_dear_ideas_train_from_the_base(bench: Bench) -> None:
    continuing(bench, REWARD, DATA, trainings=7)
    bench.lab.acts = worth(0.1)
    searched(bench)
    (plan,) = outcomes(bench, "plan")
    assert not plan["continued"] and len(plan["from_base"]) == 2
    assert names(bench)[0] == "all" and "continued" not in outcomes(bench, "cell")[0]


def test_a_search_that_is_stopped_anywhere_ends_as_undisturbed_and_trains_nothing_twice(
    bench: Bench,
) -> None:
    units = continuing(bench, REWARD, DATA)
    bench.lab.acts = worth(0.1)
    train = bench.lab._train

    def stopped(unit: TrainUnit, tree: HarnessTree) -> Any:
        bench.stop = True  # after this training
        return train(unit, tree)

    bench._patch.setattr(bench.lab, "_train", stopped)
    stops = 0
    while True:
        try:
            found = searched(bench)
            break
        except Interrupted:
            bench.stop, stops = False, stops + 1
    assert stops >= 4, "two cells train at a time"
    assert len(units) == len({unit.name for unit in units}) == 6
    assert in_it(bench, found) == {"reward", "data"}
    walk = gone_through_again(bench, searched)
    assert not walk.differences and walk.steps > 10


def test_a_checkpoint_that_is_missing_is_named_before_it_is_trained_on(bench: Bench) -> None:
    unit = TrainUnit("n", "h", 0, 1, 0, "/no/weights", "nano@1", 2)
    with pytest.raises(IntegrityError, match="/no/weights, which the training n continues, is mis"):
        Lab._train(bench.lab, unit, bench.repo.tree(bench.repo.head()))


@pytest.mark.parametrize(
    ("steps", "candidates", "message"),
    [
        (6, 6, "--continue-steps 6 saves nothing: a training from the base has 6 steps"),
        (5, 6, "saves nothing with --candidates 6: a continued cell takes 840 .* needs 14 ideas"),
        (
            1,
            1,
            "saves nothing with --candidates 1: .* from the base 968, so a bundle needs 2 ideas",
        ),
    ],
)
def test_steps_that_save_nothing_are_refused(
    bench: Bench, steps: int, candidates: int, message: str
) -> None:
    plan = replace(bench.run.plan, steps=STEPS, continue_steps=steps)
    tree = bench.repo.tree(bench.repo.head())
    with pytest.raises(ConfigError, match=message):
        require_savings(RunConfig(candidates=candidates), plan, tree)


@pytest.mark.parametrize(
    "settings",
    [{"policy": "openai/gpt-5.1"}, {"policy": "hf:x", "train_steps": 0}, {"strategy": "frontier"}],
)
def test_a_policy_that_trains_nothing_and_other_strategies_refuse_it(settings: Any) -> None:
    origin = {"continue_steps": "command line"}
    with pytest.raises(ConfigError, match="--continue-steps has no effect in this run: it applies"):
        require_used(RunConfig(**settings, continue_steps=2, origin=origin))


def test_a_run_without_it_keeps_its_name() -> None:
    assert "continue_steps" not in RunConfig().hashed
    assert RunConfig(continue_steps=2).config_hash != RunConfig().config_hash
