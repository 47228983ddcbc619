"""Carries a run out: opens it, removes stale diagnostics, searches, proves, and measures the vault.

The loop is in `core/loop/loop.py`. Every durable step is journalled, so the same command resumes a
run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from meta_agent.composition.opening import open_run
from meta_agent.core.config import RunConfig
from meta_agent.core.gate import effect, pair
from meta_agent.core.lab.live import Evaluated, Trained
from meta_agent.core.ledger.kinds import TRAINED, TRAINED_IN_VAIN
from meta_agent.core.loop import loop
from meta_agent.core.loop.finish import record_handover
from meta_agent.core.loop.loop import first_version
from meta_agent.core.loop.records import HandedOver, must_work
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Effect, HarnessTree
from meta_agent.llm_clients.asking.client import Client
from meta_agent.reports import Display, RunState, reduce
from meta_agent.strategies.strategies import STRATEGIES


def evolve(config: RunConfig, display: Display, stop: Event | None = None) -> RunState:
    """Starts or resumes the run that has these settings and returns its state.

    A finished run is only read.
    """
    with open_run(config, display, stop=stop) as run:
        if not run.finished:
            with recording_drift(run):
                _evolve(run)
        return reduce(run.ledger, run.id)


def _evolve(run: Run) -> None:
    sys.audit("meta_agent.evolve", run.id)
    loop.evolve(run, STRATEGIES[run.config.strategy]())


@contextmanager
def recording_drift(run: Run) -> Iterator[None]:
    """After the block, records how many requests of a `replay:RUN` differ from the recording."""
    try:
        yield
    finally:
        client = run.models
        if isinstance(client, Client) and client.replaying:
            manifest = client.transcripts.manifest() or {}
            recording = str(manifest.get("run_id", run.id))
            labels = manifest.get("labels") or {}
            replay = {"recording": recording, "labels": labels, "drift": client.drifted}
            run.ledger.event("replay", replay)


def train_alone(config: RunConfig, display: Display) -> JSON:
    """Trains the harness on `main` for the configured number of steps, without a search.

    Returns a report with the policy's clean success on the same search tasks before and after. The
    gain is that of a single training seed: it proves nothing about other trainings.
    """
    with open_run(config, display, purpose="train") as run:
        version = first_version(run)
        tree = run.repo.tree(version.commit)
        with must_work(version):
            run.phase("measure", "the policy before its training")
            before = _on_search(run, tree, run.lab.untrained())
            run.phase("train", f"{config.train_steps} steps on {version.commit[:12]}")
            trained = run.lab.train(tree, seed=0, steps=config.train_steps)
            after = _on_search(run, tree, trained)
        gain = _gain(run, tree, before, after)
        words = _words_on(trained.steps, before, after, gain)
        standing = TRAINED if gain.delta > 0 else TRAINED_IN_VAIN
        record_handover(run, version, HandedOver(version, trained, standing, words))
        run.finish()
    return {
        "schema_version": 1,
        "run": run.id,
        "harness_commit": version.commit,
        "policy": trained.policy,
        "checkpoint": trained.path,
        "steps": trained.steps,
        "split": "search",
        "n": after.planned,
        "success": after.solved / after.planned,
        "clean_success": after.clean_success,
        "success_before": before.solved / before.planned,
        "clean_success_before": before.clean_success,
        "gain": {"delta": gain.delta, "low": gain.ci_low, "high": gain.ci_high},
        "tokens_in_rows": trained.metrics[-1].get("tokens_in_rows") if trained.metrics else None,
        "metrics": trained.metrics,
        "next": "meta-agent adopt --model FOLDER" if gain.delta > 0 else "meta-agent report",
    }


def _on_search(run: Run, tree: HarnessTree, policy: Trained) -> Evaluated:
    return run.lab.evaluate(tree, policy, split="search", limit=run.plan.search)


def _gain(run: Run, tree: HarnessTree, before: Evaluated, after: Evaluated) -> Effect:
    """Returns the difference in clean success, paired by task, with its 95 % interval."""
    arms = (
        run.lab.rows(run.lab.arm_of(name, tree, {0: evaluation}))
        for name, evaluation in (("before", before), ("after", after))
    )
    return effect(pair(*arms), alpha=0.025)


def _words_on(steps: int, before: Evaluated, after: Evaluated, gain: Effect) -> str:
    low, high = 100 * gain.ci_low, 100 * gain.ci_high
    return (
        f"trained for {steps} steps: clean success from {before.clean_success:.1%} to "
        f"{after.clean_success:.1%} on {after.planned} search tasks, "
        f"{100 * gain.delta:+.1f} points [{low:+.1f}, {high:+.1f}] of one training seed"
    )
