"""One run: opens it, tends the harness's diagnostics, searches and proves, opens the vault once.

The loop is in `strategies/full.py`, one generation of it in `strategies/search.py`. Every durable
step is journalled, so the same command resumes a run.
"""

from __future__ import annotations

from threading import Event

from meta_agent.composition.opening import first_version, open_run
from meta_agent.composition.replayed import telling_replay
from meta_agent.core.config import RunConfig
from meta_agent.core.loop.budget import allowed
from meta_agent.core.loop.diagnostics.tend import tend
from meta_agent.core.loop.finish import finish
from meta_agent.core.loop.records import must_work
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON
from meta_agent.reports import Display, RunState, reduce
from meta_agent.strategies.strategies import STRATEGIES


def evolve(config: RunConfig, display: Display, stop: Event | None = None) -> RunState:
    """Runs or resumes the run of these settings. A run that is done is only read."""
    with open_run(config, display, stop=stop) as run:
        if not run.finished:
            with telling_replay(run):
                _evolve(run)
        return reduce(run.ledger, run.id)


def _evolve(run: Run) -> None:
    first = tend(run, first_version(run))
    run.ledger.event("plan", {"attempts": allowed(run)})
    handed = STRATEGIES[run.config.strategy]().carry_out(run, first)
    finish(run, first, handed)


def train_alone(config: RunConfig, display: Display) -> JSON:
    """Trains `main` for `config.train_steps` steps and measures it on the search split."""
    with open_run(config, display, purpose="train") as run:
        version = first_version(run)
        tree = run.repo.tree(version.commit)
        run.phase("train", f"{config.train_steps} steps on {version.commit[:12]}")
        with must_work(version):
            trained = run.lab.train(tree, seed=0, steps=config.train_steps)
            evaluation = run.lab.evaluate(tree, trained, split="search", limit=run.plan.search)
        run.finish()
    return {
        "schema_version": 1,
        "run": run.id,
        "harness_commit": version.commit,
        "policy": trained.policy,
        "checkpoint": trained.path,
        "steps": trained.steps,
        "split": "search",
        "n": evaluation.planned,
        "success": evaluation.solved / evaluation.planned,
        "clean_success": evaluation.clean / evaluation.planned,
        "metrics": trained.metrics,
    }
