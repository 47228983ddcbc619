"""The end of a run: what is handed over is named, and the vault is read once."""

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
    """Records what is handed over, measures it and the first version on the vault, and ends."""
    _name(run, handed)
    _open_vault(run, first, handed)
    _seal(run, handed.version.commit)
    run.finish()


def _name(run: Run, handed: HandedOver) -> None:
    """The harness, the weights, and what is known of them, in a sentence."""
    trained = handed.trained

    def told() -> JSON:
        return {
            "version": handed.version.id,
            "commit": handed.version.commit,
            "standing": handed.standing,
            "words": handed.words,
            "policy": trained.policy if trained else run.lab.untrained().policy,
            "checkpoint": trained.path if trained and trained.steps else None,
            "steps": trained.steps if trained else 0,
        }

    run.once("handover", "handover", {"commit": handed.version.commit}, told)
    run.note(f"handed over: {handed.standing}: {handed.words}")


def _open_vault(run: Run, first: Version, handed: HandedOver) -> None:
    """Measures both versions on the vault split, each with its weights, one sample a task.

    Shares are of the attempts that have an outcome; what machines lost is counted beside them. The
    first version's weights are those of training seed 0; where nobody trained it, it is left out.
    """
    if not run.plan.vault:
        run.note("no vault: nothing was confirmed on tasks that this run had never looked at")
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
        told = {"which": which, "vault_reads_in_workspace": reads}
        score = partial(_score, run, version, jobs[version.commit], told, trained)
        run.once(f"vault/{which}", "vault", {"commit": version.commit}, score)
    vault_results(run, first, handed.version)


def _seal(run: Run, commit: str) -> None:
    """A note on what is handed over: which weights, what the vault said, the journal's head."""
    handed = _outcome(run, "handover")
    sides = {which: _outcome(run, f"vault/{which}") for which in ("baseline", "final")}
    vault = {which: told["clean_success"] for which, told in sides.items() if told}
    measured = {which: told for which, told in sides.items() if told}
    note = run.extensions.notes.handover_note(run.id, handed, measured)
    record = {"run": run.id, "policy": handed["policy"], "vault": vault}
    last = [key for key in run.ledger.order() if key.startswith(f"{run.id}/")][-1]
    mine = recorded_in(note, record, run.ledger.head(last))
    others = note_parts(run.repo.notes(commit) or "")
    kept = [text for text, told in others if told.get("run") != run.id]
    run.repo.note(commit, "\n\n".join([*kept, mine]), when=run.date(run.config.generations, 990))


def _outcome(run: Run, name: str) -> JSON:
    step = run.ledger.step(f"{run.id}/{name}")
    return step.fields if step and step.is_done else None


def _score(run: Run, version: Version, job: Job, told: JSON, policy: Trained | None) -> JSON:
    trained = policy or run.lab.train(job.tree, seed=0, steps=job.steps)
    seen = run.lab.evaluate(job.tree, trained, split="vault", limit=job.limit)
    lost = sum(row_of(one).success is None for one in run.lab.rollouts(seen.shard))
    known = seen.planned - lost
    if lost:
        told = {**told, "lost": lost}
        run.note(f"vault, {told['which']}: {lost} of {seen.planned} attempts lost, in no share")
    interval = wilson(seen.clean, known)
    return {
        **told,
        "version": version.id,
        "commit": version.commit,
        "policy": trained.policy,
        "checkpoint": trained.path,
        "seed": trained.seed,
        "steps": trained.steps,
        "split": "vault",
        "n": known,
        "success": seen.solved / known if known else None,
        "clean_success": seen.clean / known if known else None,
        "ci": [interval.low, interval.high],
    }
