"""`meta-agent train`: one training run under the workspace's promoted harness, on its own."""

from __future__ import annotations

from meta_agent.config import RunConfig
from meta_agent.protocols import JSON
from meta_agent.steps.opening import first_version, open_run
from meta_agent.steps.records import must_work
from meta_agent.view import Display


def train_alone(config: RunConfig, display: Display) -> JSON:
    """Trains `main` for `config.train_steps` steps and measures it on the search split."""
    with open_run(config, display, purpose="train") as run:
        version = first_version(run)
        tree = run.repo.tree(version.commit)
        run.phase("train", f"{config.train_steps} steps on {version.commit[:12]}")
        with must_work(version):
            trained = run.lab.train(tree, seed=0, steps=config.train_steps)
            seen = run.lab.evaluate(tree, trained, split="search", limit=run.plan.search)
        run.finish()
    return {
        "schema_version": 1,
        "run": run.id,
        "harness_commit": version.commit,
        "policy": trained.policy,
        "checkpoint": trained.path,
        "steps": trained.steps,
        "split": "search",
        "n": seen.planned,
        "success": seen.solved / seen.planned,
        "clean_success": seen.clean / seen.planned,
        "metrics": trained.metrics,
    }
