"""Experiments of authors: an edit is rolled out or trained for a few steps, with evidence.

An edit runs only in sandboxes, after the checks that every candidate must pass, and only on search
and train tasks. Every attempt counts against the search's share. The attempts of a generation are
declared before its first experiment. Each experiment is one step of the journal, so it is never
made twice, whichever author asks.

Not covered: proof. There is one training seed, few steps, and tasks that ideas are chosen on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.gate import Finding, effect, pair
from meta_agent.core.harness import parse_contract
from meta_agent.core.lab.live import Evaluated, Job, Trained
from meta_agent.core.lab.static import changed_paths, static_check
from meta_agent.core.lab.training import of_steps
from meta_agent.core.lab.units import EXEMPLAR_STEPS
from meta_agent.core.loop.budget import attempts_a_step, grant_of, one_cell
from meta_agent.core.loop.records import Collected, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.collect import evidence_of
from meta_agent.core.loop.verbs.test import broken_contract, factor_veto
from meta_agent.core.proposals import EditTrial, Grant, Rehearsal
from meta_agent.core.protocols import FACTORS, JSON, Factor, HarnessTree, Rollout

STEPS: Final = 10
"""Steps of a short training. By then it shows whether a repair helps or harms."""
TASKS: Final = 128
"""Most search tasks that a short training is measured on."""
_SHOWN_CHARS: Final = 4_000
_EDIT: Final = Version("the edit", "uncommitted")


@dataclass(slots=True)
class Experiments:
    """Tries edits of the harness out for the proposers of one generation, before they propose."""

    run: Run
    collected: Collected
    generation: int
    _alone: threading.Lock = field(default_factory=threading.Lock)
    """Runs one experiment at a time. Each runs its two sides in parallel."""

    def lend(self, sharing: int = 1) -> Grant:
        """Grants an author one of `sharing` equal parts of the attempts for experiments.

        The grant is of 0 attempts with a frozen policy, or if the strategy has none to give.
        """
        run, tree = self.run, self.collected.tree
        unused, most = grant_of(run, tree, self.generation)
        if not most:
            return Grant()
        job, cell = self._job(None), one_cell(run.plan, tree)
        return Grant(unused // sharing, most, self._steps, self._due(job), self._price(job), cell)

    def quote(self, tree: HarnessTree, trial: EditTrial | None) -> int:
        """Returns how many attempts an experiment with the edited harness `tree` takes.

        Without a `trial` it is a training of a few steps. Raises CandidateError if the edit fails a
        check, or if a trial cannot show what it does.
        """
        findings = checked(self.run, self.collected, tree, pair=True)
        if vetoes := [finding for finding in findings if finding.severity == "veto"]:
            message = "\n".join(f"{veto.code}: {veto.message}" for veto in vetoes)
            raise CandidateError(message, reason="unfit")
        if trial is None:
            return self._price(self._job(tree))
        touched = touched_factors(self.collected.tree, tree)
        acts = {factor for factor in touched if factor not in ("data", "recipe")}
        if not acts:
            raise CandidateError(
                "curriculum and recipe act in training alone: an attempt shows nothing of them; "
                "train_edit measures them",
                reason="unfit",
            )
        return trial.tasks * (1 if trial.split == "search" else 2)

    def experiment(self, tree: HarnessTree, trial: EditTrial | None) -> Rehearsal:
        """Makes an experiment with the edited harness `tree`, once, and returns its report.

        Without a `trial` it is a training of a few steps. If it fails, the report says why.
        """
        how = f"{trial.policy}-{trial.split}-{trial.tasks}" if trial else f"train-{self._steps}"
        key = f"g{self.generation}/experiment/{tree.tree_hash}-{how}"

        def measure() -> JSON:
            try:
                lines = self._tried(tree, trial) if trial else self._trained(tree)
                return {"ok": True, "text": "\n".join(lines)}
            except (CandidateError, ConfigError) as error:
                return {"ok": False, "text": f"It cannot be measured: {str(error)[:1000]}"}

        with self._alone:
            intent = {"edit": tree.tree_hash, "how": how}
            report = self.run.once_with_trials(key, "experiment", intent, measure)
        return Rehearsal(report["ok"], report["text"])

    # --- an edit rolled out ----------------------------------------------------------------------

    def _tried(self, tree: HarnessTree, trial: EditTrial) -> Iterator[str]:
        lab, version = self.run.lab, self.collected
        policy = lab.untrained() if trial.policy == "base" else version.trained
        evaluation = lab.evaluate(tree, policy, split=trial.split, limit=trial.tasks)
        rollouts = lab.rollouts(evaluation.shard)
        before = evidence_of(
            self.run, version.version, version.tree, self._same(trial, policy, rollouts)
        )
        evidence = evidence_of(self.run, _EDIT, tree, rollouts, earlier=before)
        whose = "base" if trial.policy == "base" else "version's trained"
        yield f"The {whose} policy on {trial.tasks} {trial.split} tasks, one attempt each:"
        yield _counted("the edit", evaluation)
        was = sum(clean for _, _, clean in before.per_task.values())
        yield f"- the version, same tasks: {was} of {sum(n for n, *_ in before.per_task.values())}"
        yield from (
            "",
            "Every attempt in a line:",
            *map(self.run.extensions.files.story, rollouts),
            "",
        )
        cleanly = {key for key, (_, _, clean) in before.per_task.items() if clean}
        ranked = sorted(
            rollouts,
            key=lambda rollout: (rollout.clean == (rollout.task_key in cleanly), rollout.clean),
        )
        yield from (
            self.run.extensions.files.transcript(rollout)[:_SHOWN_CHARS] for rollout in ranked[:1]
        )
        yield from ("", "What moved, its change against the version's attempts in brackets:", "")
        yield self.run.extensions.evidence.render_text(evidence, moved=True)

    def _same(
        self, trial: EditTrial, policy: Trained, rollouts: Sequence[Rollout]
    ) -> list[Rollout]:
        """Returns the version's attempts at the same tasks, stored or made now."""
        lab, version = self.run.lab, self.collected
        evaluation = version.untrained if trial.policy == "base" else version.evaluated
        if trial.split == "train" or evaluation is None:
            evaluation = lab.evaluate(version.tree, policy, split=trial.split, limit=trial.tasks)
        keys = {rollout.task_key for rollout in rollouts}
        return [rollout for rollout in lab.rollouts(evaluation.shard) if rollout.task_key in keys]

    # --- an edit trained for a few steps ---------------------------------------------------------

    def _trained(self, tree: HarnessTree) -> Iterator[str]:
        lab = self.run.lab
        before, after = jobs = self._job(None), self._job(tree)
        lab.prepare(jobs)
        was, now = lab.measure(before), lab.measure(after)
        sides = (
            lab.arm_of("", job.tree, {0: evaluation})
            for job, evaluation in ((before, was), (after, now))
        )
        gain = effect(pair(*map(lab.rows, sides)), alpha=0.05)
        yield (
            f"{after.steps} steps from the base policy on either side, training seed 0; then one "
            f"attempt at each of {after.limit} search tasks:"
        )
        yield _counted("the edit", now)
        yield _counted("the version", was)
        yield (
            f"- gain {100 * gain.delta:+.1f} points, over tasks [{100 * gain.ci_low:+.1f}, "
            f"{100 * gain.ci_high:+.1f}]; another training seed may differ by more"
        )
        yield from self._learned(tree, lab.train(tree, seed=0, steps=after.steps))

    def _learned(self, tree: HarnessTree, trained: Trained) -> Iterator[str]:
        """Yields the evidence of the first and the last groups of the edit's training."""
        rollouts = self.run.lab.rollouts(trained.shard) if trained.shard else []
        for first in (True, False) if rollouts else ():
            groups = of_steps(rollouts, first=first, count=EXEMPLAR_STEPS)
            metrics = None if first else trained.metrics
            yield from ("", f"## The {'first' if first else 'last'} groups of its training", "")
            yield self.run.extensions.evidence.render_text(
                evidence_of(self.run, _EDIT, tree, groups, metrics=metrics)
            )

    @property
    def _steps(self) -> int:
        return min(STEPS, self.run.plan.steps)

    def _job(self, tree: HarnessTree | None) -> Job:
        """Returns the job of a short training, of an edit or of the version."""
        limit = min(TASKS, self.run.plan.search)
        return Job(tree or self.collected.tree, 0, self._steps, "search", limit)

    def _price(self, job: Job) -> int:
        return job.steps * attempts_a_step(job.tree) + job.limit

    def _due(self, job: Job) -> int:
        """Returns the attempts that a job still needs; 0 if it is recorded."""
        lab = self.run.lab
        if lab.measured(job):
            return 0
        return job.limit if lab.trained(job) else self._price(job)


def checked(
    run: Run, collected: Collected, tree: HarnessTree, *, pair: bool = False
) -> list[Finding]:
    """Returns the findings on an edit: of static checks and, without a veto, of calls of its code.

    With `pair`, an edit may touch two factors, because one repair may hide the effect of another.
    """
    contract = parse_contract(collected.tree)
    touched = touched_factors(collected.tree, tree)
    label: tuple[Factor, ...] = tuple(factor for factor in FACTORS if factor in touched)
    both = label if pair and len(label) == 2 else ()
    findings = list(static_check(collected.tree, tree, contract, factors=both))
    findings += [factor_veto(run, factor) for factor in label if factor not in run.factors]
    if any(finding.severity == "veto" for finding in findings):
        return findings
    return findings + broken_contract(run, collected, tree)


def touched_factors(before: HarnessTree, after: HarnessTree) -> set[Factor]:
    """Returns the factors whose files an edit changes, by the `harness.toml` before the edit."""
    contract = parse_contract(before)
    changed = changed_paths(before, after)
    return {factor for path in changed for factor in contract.factors_matching(path)}


def _counted(name: str, evaluation: Evaluated) -> str:
    clean = f"{evaluation.clean} of {evaluation.planned} clean ({evaluation.clean_success:.1%})"
    return f"- {name}: {clean}, {evaluation.solved} solved"
