"""Trains the resulting version with the rest of the budget, and keeps the best checkpoint.

Training continues from existing weights: those of the claim's seed that is best on the search
split, or those of the search. One chunk is `CHUNK` times the search's training length, with a
checkpoint after each length. Training stops after a chunk without a better checkpoint on the search
split. If the budget pays for no further length, the weights stay.

`one_long` is the baseline without a search. It spends the whole budget on one training and chooses
its best checkpoint in the same way.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.lab.live import Evaluated, Trained
from meta_agent.core.loop.budget import allowed, attempts_left, one_cell
from meta_agent.core.loop.records import Version, must_work
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, HarnessTree

CHUNK: Final = 3
FIRST_SEED: Final = 100
"""First training seed of this continued training. The search and the claim never use it."""


class Checkpoint(NamedTuple):
    """Trained weights, and their evaluation on the search split."""

    trained: Trained
    evaluation: Evaluated


def on_search(run: Run, tree: HarnessTree, trained: Trained) -> Checkpoint:
    """Evaluates trained weights on the search split. Raises CandidateError if the harness fails."""
    return Checkpoint(
        trained, run.lab.evaluate(tree, trained, split="search", limit=run.plan.search)
    )


def best_of(checkpoints: list[Checkpoint]) -> Checkpoint:
    """Returns the checkpoint with the highest clean success, the earliest among equals."""
    return max(checkpoints, key=lambda c: (c.evaluation.clean, -c.trained.steps))


def train_on(run: Run, version: Version, start: Trained, *, reserved: int = 0) -> Trained:
    """Trains the weights `start` further with a version's harness while that improves them.

    Leaves `reserved` attempts of the budget unused. Returns the weights with the most clean success
    on the search split: `start` if the budget pays for no training.
    """
    tree = run.repo.tree(version.commit)
    by_steps: dict[str, float] = {}
    best: Checkpoint | None = None
    for chunk in range(run.plan.trainings):
        beside = reserved if best else reserved + run.plan.search
        lengths = (attempts_left(run) - beside) // one_cell(run.plan, tree)
        if lengths < 1:
            break
        best = best or on_search(run, tree, start)
        seed = FIRST_SEED + chunk
        checkpoints = _chunk(run, version, tree, best.trained, seed, min(CHUNK, lengths))
        by_steps |= _shares_by_steps(checkpoints)
        better = best_of([best, *checkpoints])
        if better is best:
            run.note("training stops: it no longer pays")
            break
        best = better
    if best is None:
        return start
    if by_steps:
        _record(run, best, by_steps)
    return best.trained


def _chunk(
    run: Run, version: Version, tree: HarnessTree, start: Trained, seed: int, lengths: int
) -> list[Checkpoint]:
    """Trains on top of `start`. Returns the checkpoints, or none if the harness fails."""
    steps = lengths * run.plan.steps
    run.phase("train on", f"{version.id}: {steps} steps more, after {start.steps}")
    try:
        trained = run.lab.train(tree, seed=seed, steps=steps, keep_every=run.plan.steps, onto=start)
        return [on_search(run, tree, weights) for weights in trained.on_the_way()]
    except CandidateError as error:
        run.note(f"no further training: {error}")
        return []


def one_long(run: Run, version: Version, *, onto: Checkpoint | None = None) -> Trained:
    """Spends the rest of the budget on one training; returns its best weights on the search split.

    The training begins with the weights `onto`, which stay if nothing better comes of it. Raises
    ConfigError if the budget pays for no training, or if the harness fails.
    """
    tree, plan = run.repo.tree(version.commit), run.plan
    unspent = attempts_left(run) if onto else allowed(run)
    lengths = unspent // one_cell(plan, tree)
    if lengths < 1:
        raise ConfigError(
            f"--budget {run.config.budget} cannot pay for a training of {plan.steps} steps, "
            f"which takes {one_cell(plan, tree):,} attempts with its evaluation",
            hint=f"give --budget {one_cell(plan, tree)} or more, or fewer --train-steps",
        )
    steps = lengths * plan.steps
    run.phase("train", f"{version.id}: {steps} steps, the rest of the budget")
    run.lab.label(tree, version.id)
    run.lab.require(tree)
    with must_work(version):
        trained = run.lab.train(
            tree, seed=0, steps=steps, keep_every=plan.steps, onto=onto and onto.trained
        )
        checkpoints = [on_search(run, tree, weights) for weights in trained.on_the_way()]
    best = best_of([onto, *checkpoints] if onto else checkpoints)
    _record(run, best, _shares_by_steps(checkpoints))
    return best.trained


def _shares_by_steps(checkpoints: list[Checkpoint]) -> dict[str, float]:
    return {str(c.trained.steps): c.evaluation.clean_success for c in checkpoints}


def _record(run: Run, best: Checkpoint, by_steps: dict[str, float]) -> None:
    record: JSON = {
        "steps": best.trained.steps,
        "policy": best.trained.policy,
        "path": best.trained.path,
        "search_clean_success": by_steps,
    }
    run.once("checkpoint", "checkpoint", {"policy": best.trained.policy}, lambda: record)
    clean_success = f"{best.evaluation.clean_success:.1%}"
    run.note(f"the checkpoint after {best.trained.steps} steps is kept: {clean_success}")
