"""train on: what is left of the budget trains what was found, and the best checkpoint is kept.

Training goes on from weights that exist (the proof seed that is best on search, or the search's
own), `CHUNK` lengths at a time, with a checkpoint wherever a training of the search would have
ended. A chunk that brings nothing better on the search split is the last one. `one_long` is the
rival without a search: the whole budget in one training, its best checkpoint chosen likewise.

Where too little is left for one more length, the weights stay.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.lab.live import Evaluated, Trained
from meta_agent.core.loop.budget import allowed, left, one_cell
from meta_agent.core.loop.records import Version, must_work
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, HarnessTree

CHUNK: Final = 3
FIRST_SEED: Final = 100
"""Training seeds of what goes on: no search and no proof uses them."""


class Checkpoint(NamedTuple):
    """Weights, and what they did on the search split."""

    trained: Trained
    seen: Evaluated


def on_search(run: Run, tree: HarnessTree, trained: Trained) -> Checkpoint:
    """These weights on the search split."""
    return Checkpoint(
        trained, run.lab.evaluate(tree, trained, split="search", limit=run.plan.search)
    )


def best_of(checkpoints: list[Checkpoint]) -> Checkpoint:
    """The highest clean success; the earliest of equals."""
    return max(checkpoints, key=lambda one: (one.seen.clean, -one.trained.steps))


def train_on(run: Run, version: Version, start: Trained, *, reserved: int = 0) -> Trained:
    """Trains `start` under this version for as long as it pays and the budget lasts.

    `reserved` attempts are left for what comes after.
    """
    tree = run.repo.tree(version.commit)
    told: dict[str, float] = {}
    best: Checkpoint | None = None
    for chunk in range(run.plan.trainings):
        beside = reserved if best else reserved + run.plan.search
        lengths = (left(run, f"train_on/{chunk}") - beside) // one_cell(run.plan, tree)
        if lengths < 1:
            break
        best = best or on_search(run, tree, start)
        made = _chunk(run, version, tree, best.trained, FIRST_SEED + chunk, min(CHUNK, lengths))
        told |= {str(one.trained.steps): _share(one.seen) for one in made}
        better = best_of([best, *made])
        if better is best:
            run.note("training stops: it no longer pays")
            break
        best = better
    if best is None:
        return start
    if told:
        _record(run, best, told)
    return best.trained


def _chunk(
    run: Run, version: Version, tree: HarnessTree, start: Trained, seed: int, lengths: int
) -> list[Checkpoint]:
    """A training on top of `start`, and its checkpoints; none where the harness gives up."""
    steps = lengths * run.plan.steps
    run.phase("train on", f"{version.id}: {steps} steps more, after {start.steps}")
    try:
        trained = run.lab.train(tree, seed=seed, steps=steps, keep_every=run.plan.steps, onto=start)
        return [on_search(run, tree, one) for one in trained.on_the_way()]
    except CandidateError as error:
        run.note(f"no further training: {error}")
        return []


def one_long(run: Run, version: Version) -> Trained:
    """One training for the whole budget; of its checkpoints the best on the search split."""
    tree, plan = run.repo.tree(version.commit), run.plan
    lengths = allowed(run) // one_cell(plan, tree)
    if lengths < 1:
        raise ConfigError(
            f"--budget {run.config.budget} pays for no training of {plan.steps} steps: "
            f"{one_cell(plan, tree):,} attempts with its evaluation",
            hint=f"--budget {one_cell(plan, tree)} or more, or fewer --train-steps",
        )
    steps = lengths * plan.steps
    run.phase("train", f"{version.id}: {steps} steps, the whole budget")
    run.lab.label(tree, version.id)
    run.lab.require(tree)
    with must_work(version):
        trained = run.lab.train(tree, seed=0, steps=steps, keep_every=plan.steps)
        found = [on_search(run, tree, one) for one in trained.on_the_way()]
    best = best_of(found)
    _record(run, best, {str(one.trained.steps): _share(one.seen) for one in found})
    return best.trained


def _share(seen: Evaluated) -> float:
    return seen.clean / seen.planned


def _record(run: Run, best: Checkpoint, by_steps: dict[str, float]) -> None:
    told: JSON = {
        "steps": best.trained.steps,
        "policy": best.trained.policy,
        "path": best.trained.path,
        "search_clean_success": by_steps,
    }
    run.once("checkpoint", "checkpoint", {"policy": best.trained.policy}, lambda: told)
    run.note(f"the checkpoint after {best.trained.steps} steps is kept: {_share(best.seen):.1%}")
