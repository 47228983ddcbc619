"""The end of a run: records its harness and weights, and measures them once on the vault."""

from __future__ import annotations

from functools import partial

from meta_agent.core.gate import row_of, wilson
from meta_agent.core.lab.live import Job, Trained
from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.loop.results import vault_results
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.spending import runs_that_read_vault
from meta_agent.core.loop.verbs.learn import note_parts, recorded_in
from meta_agent.core.protocols import JSON


def finish(run: Run, first: Version, handed: HandedOver) -> None:
    """Ends a run: records its result, and measures it and the first version on the vault split."""
    record_handover(run, first, handed)
    _open_vault(run, first, handed)
    _seal(run, handed.version.commit)
    run.finish()


def record_handover(run: Run, first: Version, handed: HandedOver) -> None:
    """Records the harness that the run ends with, its diff to the first, its weights and proof."""
    trained = handed.trained

    def handover() -> JSON:
        return {
            "version": handed.version.id,
            "commit": handed.version.commit,
            "standing": handed.standing,
            "words": handed.words,
            "policy": trained.policy if trained else run.lab.untrained().policy,
            "checkpoint": trained.path if trained and trained.steps else None,
            "steps": trained.steps if trained else 0,
            "diff": run.repo.diff(first.commit, handed.version.commit),
        }

    run.once("handover", "handover", {"commit": handed.version.commit}, handover)
    run.note(f"handed over: {handed.standing}: {handed.words}")


def _open_vault(run: Run, first: Version, handed: HandedOver) -> None:
    """Measures both versions on the vault split, each with its weights, one sample a task.

    Shares count only attempts that have an outcome; lost attempts are reported beside them. The
    first version's weights are those of training seed 0. It is skipped if it was never trained.
    """
    if not run.plan.vault:
        run.note("no vault: this run has no measurement on tasks that it never used")
        return
    if _nothing_tried(run, first, handed):
        run.note("the vault stays shut: no idea was tried, so there is nothing to measure there")
        return
    run.phase("vault", "read once, at the end of the run")
    plan = run.plan
    sides = {"baseline": (first, None), "final": (handed.version, handed.trained)}
    jobs = {
        version.commit: Job(run.repo.tree(version.commit), 0, plan.steps, "vault", plan.vault)
        for version, _ in sides.values()
    }
    if not run.lab.trained(jobs[first.commit]):
        del sides["baseline"]
    reads = len(runs_that_read_vault(run.ledger) | {run.id})
    for which, (version, trained) in sides.items():
        labels = {"which": which, "vault_reads_in_workspace": reads}
        score = partial(_score, run, version, jobs[version.commit], labels, trained)
        run.once(f"vault/{which}", "vault", {"commit": version.commit}, score)
    vault_results(run, first, handed.version)


def _nothing_tried(run: Run, first: Version, handed: HandedOver) -> bool:
    """Returns True if ideas were asked for, none became a candidate, and nothing was trained."""
    if handed.version.commit != first.commit or (handed.trained and handed.trained.steps):
        return False
    was_asked = bool(run.ledger.steps(run.id, kind="proposal"))
    return was_asked and not run.ledger.steps(run.id, kind="candidate")


def _seal(run: Run, commit: str) -> None:
    """Writes a git note on the commit: the weights, the vault's outcome and the journal's head."""
    handed = _outcome(run, "handover")
    sides = {which: _outcome(run, f"vault/{which}") for which in ("baseline", "final")}
    vault = {which: outcome["clean_success"] for which, outcome in sides.items() if outcome}
    measured = {which: outcome for which, outcome in sides.items() if outcome}
    note = run.extensions.notes.handover_note(run.id, handed, measured)
    record = {"run": run.id, "policy": handed["policy"], "vault": vault}
    last = [key for key in run.ledger.order() if key.startswith(f"{run.id}/")][-1]
    own_text = recorded_in(note, record, run.ledger.head(last))
    parts = note_parts(run.repo.notes(commit) or "")
    other_texts = [part for part, outcome in parts if outcome.get("run") != run.id]
    text = "\n\n".join([*other_texts, own_text])
    run.repo.note(commit, text, when=run.date(run.config.generations, 990))


def _outcome(run: Run, name: str) -> JSON:
    step = run.ledger.step(f"{run.id}/{name}")
    return step.fields if step and step.is_done else None


def _score(run: Run, version: Version, job: Job, labels: JSON, policy: Trained | None) -> JSON:
    trained = policy or run.lab.train(job.tree, seed=0, steps=job.steps)
    evaluation = run.lab.evaluate(job.tree, trained, split="vault", limit=job.limit)
    lost = sum(row_of(rollout).success is None for rollout in run.lab.rollouts(evaluation.shard))
    outcomes = evaluation.planned - lost
    if lost:
        labels = {**labels, "lost": lost}
        run.note(
            f"vault, {labels['which']}: {lost} of {evaluation.planned} attempts lost, in no share"
        )
    interval = wilson(evaluation.clean, outcomes)
    return {
        **labels,
        "version": version.id,
        "commit": version.commit,
        "policy": trained.policy,
        "checkpoint": trained.path,
        "seed": trained.seed,
        "steps": trained.steps,
        "split": "vault",
        "n": outcomes,
        "success": evaluation.solved / outcomes if outcomes else None,
        "clean_success": evaluation.clean / outcomes if outcomes else None,
        "ci": [interval.low, interval.high],
    }
