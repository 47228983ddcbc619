"""The end of a run: the vault is read once, for the first version and the last."""

from __future__ import annotations

from functools import partial

from meta_agent.backtest.live import Job
from meta_agent.gate import wilson
from meta_agent.protocols import JSON
from meta_agent.steps.run import Run, Version


def open_vault(run: Run, first: Version, last: Version) -> None:
    """Measures both versions on the vault split: the pre-registered training seed, one sample."""
    run.phase("vault", "read once, at the end of the run")
    plan = run.plan
    jobs = [Job(run.repo.tree(v.commit), 0, plan.steps, "vault", plan.vault) for v in (first, last)]
    run.lab.prepare(jobs if first.commit != last.commit else jobs[:1])
    reads = _runs_that_read(run)
    for which, version, job in zip(("baseline", "final"), (first, last), jobs, strict=True):
        told = {"which": which, "vault_reads_in_workspace": reads}
        score = partial(_score, run, version, job, told)
        run.once(f"vault/{which}", "vault", {"commit": version.commit}, score)


def _runs_that_read(run: Run) -> int:
    """Runs of this workspace that began to measure on the vault, this one included."""
    evals = run.ledger.steps(kind="eval")
    return len({step.run for step in evals if step.intent["split"] == "vault"} | {run.id})


def _score(run: Run, version: Version, job: Job, told: JSON) -> JSON:
    trained = run.lab.train(job.tree, seed=0, steps=job.steps)
    seen = run.lab.evaluate(job.tree, trained, split="vault", limit=job.limit)
    interval = wilson(seen.clean, seen.planned)
    return {
        **told,
        "version": version.id,
        "commit": version.commit,
        "policy": trained.policy,
        "checkpoint": trained.path,
        "split": "vault",
        "n": seen.planned,
        "success": seen.solved / seen.planned,
        "clean_success": seen.clean / seen.planned,
        "ci": [interval.low, interval.high],
    }
