"""A training goes on under a changed harness: the cheap way to try an idea.

With `--continue-steps`, the cells of a bundle continue the version's weights for a few steps, in
place of whole trainings from the base. They are compared with the *control*: the version itself,
continued in the same way. Both sides start from the same weights, with a fresh optimiser, a
schedule over these steps and the start's weights as reference. Both get the same seed and tasks.

The best cell above the control is *confirmed*: it is trained from the base, and that training is
compared with the version's own. So neither a version nor a claim rests on a continued training.

`plan_bundle` records which ideas go which way and what each costs, before anything is trained. An
idea goes from the base if it changes a key of `OF_WHOLE_TRAININGS`. All ideas do if there are fewer
than `fewest_ideas`, because a control and a confirmation would cost more than is saved. All ideas
of a bundle go the same way, so that its cells compare.

Not covered: other strategies than `full`; experiments of proposers, which train from the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meta_agent.core.harness import recipe_of
from meta_agent.core.harness.recipe import OF_WHOLE_TRAININGS
from meta_agent.core.loop.budget import cell_prices, cells_left, fewest_ideas
from meta_agent.core.loop.records import Collected, must_work
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.cells import WORTHWHILE, Cell, best, job_of, measure, short
from meta_agent.core.protocols import JSON, Candidate, HarnessTree


class BundlePlan(NamedTuple):
    """The ideas that may form the next bundle, and those that wait for a later bundle."""

    ideas: Sequence[Candidate]
    others: Sequence[Candidate]
    room: int = 0
    """Continued cells that the search pays for. 0: the cells of this bundle train from the base."""


def plan_bundle(
    run: Run, collected: Collected, generation: int, ideas: Sequence[Candidate]
) -> BundlePlan:
    """Returns the ideas for the next bundle: those that can be trained in the way of the first one.

    They continue the version's training, or they train from the base policy. Records and shows
    which ideas can continue, and what each way costs.
    """
    if not run.plan.continue_steps or not ideas:
        return BundlePlan(ideas, ())
    name, price = f"g{generation}", cell_prices(run.plan, collected.tree)
    beside = price["continued"] + price["from_base"]  # the control and the confirmation
    room = cells_left(
        run, collected.tree, f"{name}/continued", beside, later=generation > 0, continued=True
    )
    tree = run.repo.tree
    continuing = [idea for idea in ideas if can_continue(tree(idea.base), tree(idea.commit))]
    members = min(room - 1, len(continuing), run.config.candidates)  # a cell more than members
    if members < fewest_ideas(run.plan, collected.tree):
        continuing = []
    others = [idea for idea in ideas if idea not in continuing]
    record: JSON = {
        "generation": generation,
        "continued": [idea.id for idea in continuing],
        "from_base": [idea.id for idea in others],
        "attempts": price,
    }
    run.once(f"{name}/plan", "plan", {"commit": collected.version.commit}, lambda: record)
    run.note(_words(run, collected, continuing, others))
    if ideas[0] in continuing:
        return BundlePlan(continuing, others, room)
    return BundlePlan(others, continuing)


def can_continue(before: HarnessTree, after: HarnessTree) -> bool:
    """Returns True if an edit changes no recipe key that only a whole training can judge."""
    old, new = recipe_of(before), recipe_of(after)
    return all(getattr(old, key) == getattr(new, key) for key in OF_WHOLE_TRAININGS)


def continue_version(run: Run, collected: Collected) -> Collected:
    """Trains the version on without an edit (the control); returns it with that evaluation.

    Raises ConfigError if the harness fails.
    """
    control, version = collected._replace(continued=True), collected.version
    steps = f"{run.plan.continue_steps} steps more, after {collected.trained.steps}"
    run.phase("collect", f"{version.id} unchanged: {steps}")
    with must_work(version):
        evaluation = run.lab.measure(job_of(run, control, collected.tree))
    return control._replace(evaluated=evaluation)


def confirm(
    run: Run, collected: Collected, base: Collected, generation: int, cells: Sequence[Cell]
) -> list[Cell]:
    """Trains the best continued cell once more, from the base policy; returns all cells with it.

    Trains none if the cells did not continue, or if none is above the control `base`.
    """
    if not base.continued:
        return list(cells)
    control = base.evaluated.clean_success
    chosen = best(cells, control) or best(cells, control - WORTHWHILE)
    if chosen is None:
        return list(cells)
    mix = chosen.mix._replace(name=f"from the base: {chosen.mix.name}")
    return [*cells, *measure(run, collected, generation, [mix])]


def from_base(cells: Sequence[Cell]) -> list[Cell]:
    """Returns the cells that do not continue a version's training."""
    return [cell for cell in cells if not cell.continued]


def _words(
    run: Run, collected: Collected, continuing: Sequence[Candidate], others: Sequence[Candidate]
) -> str:
    version, steps = collected.version.id, run.plan.continue_steps
    price = cell_prices(run.plan, collected.tree)
    further, whole = f"{price['continued']:,} attempts a cell", f"{price['from_base']:,}"
    parts = []
    if continuing:
        parts.append(
            f"{_names(run, continuing)}: {steps} training steps more than {version}, at {further} "
            f"and as many for {version} unchanged; the best is confirmed from the base at {whole}"
        )
    if others:
        parts.append(f"{_names(run, others)}: trained from the base, at {whole} attempts a cell")
    return "; ".join(parts)


def _names(run: Run, ideas: Sequence[Candidate]) -> str:
    return ", ".join(short(run, idea) for idea in ideas)
