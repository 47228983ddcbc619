"""Experiments of those who propose: an edit rolled out or trained for a few steps, with evidence.

Promises: an edit runs in sandboxes alone, through the lab, after the checks that any candidate has
to pass; tasks are of the search and train splits. Every attempt is one of the run's, counted
against the search's share; a generation's are declared before its first. Each experiment is a step
of the journal, so one that was made is never made again, whoever asks.

Not covered: proof. One training seed, few steps, and tasks that ideas are chosen on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.gate import Finding, effect, pair
from meta_agent.core.harness import parse_contract
from meta_agent.core.lab.live import Evaluated, Job, Trained
from meta_agent.core.lab.static import changed_paths, static_check
from meta_agent.core.lab.training import of_steps
from meta_agent.core.lab.units import EXEMPLAR_STEPS
from meta_agent.core.loop.budget import attempts_a_step, for_experiments, left_for_experiments
from meta_agent.core.loop.records import Collected, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.collect import evidence_of
from meta_agent.core.loop.verbs.test import broken_contract, untrained
from meta_agent.core.proposals import EditTrial, Grant, Rehearsal
from meta_agent.core.protocols import FACTORS, JSON, Factor, HarnessTree, Rollout

STEPS: Final = 10
"""Of a short training: the sign of a repair shows by then."""
TASKS: Final = 128
"""Search tasks that a short training is measured on, at most."""
_SHOWN_CHARS: Final = 4_000
_EDIT: Final = Version("the edit", "uncommitted")


@dataclass(slots=True)
class Experiments:
    """What the authors of one generation may try on the version that they are shown."""

    run: Run
    collected: Collected
    generation: int
    _alone: threading.Lock = field(default_factory=threading.Lock)
    """One experiment at a time: the two sides of a short training run side by side."""

    def lend(self, who: str, sharing: int) -> Grant:
        """What is left now in equal parts; where nothing is trained a race screens edits anyway."""
        run, name = self.run, f"g{self.generation}/experiments"
        if run.plan.race or run.config.strategy != "full":
            return Grant()
        declared = for_experiments(run, self.collected.tree, name)

        def asked() -> JSON:
            left = left_for_experiments(run, declared)
            job = self._job(None)
            due = {"version": self._due(job), "edit": self._price(job)}
            cell = run.plan.steps * attempts_a_step(self.collected.tree) + run.plan.search
            return {"attempts": left // sharing, **due, "cell": cell}

        told = run.once(f"{name}/{who}", "budget", {"sharing": sharing}, asked)
        due = told["version"], told.get("edit", 0), told.get("cell", 0)
        return Grant(told["attempts"], declared["attempts"], self._steps, *due)

    def quote(self, tree: HarnessTree, trial: EditTrial | None) -> int:
        """The attempts of an experiment. CandidateError where its edit fails a check."""
        found = checked(self.run, self.collected, tree, pair=True)
        if vetoes := [one for one in found if one.severity == "veto"]:
            told = "\n".join(f"{veto.code}: {veto.message}" for veto in vetoes)
            raise CandidateError(told, reason="unfit")
        if trial is None:
            return self._price(self._job(tree))
        touched = touched_factors(self.collected.tree, tree)
        acts = {factor for factor in touched if factor not in ("data", "recipe")}
        if not acts:
            told = "curriculum and recipe act in training alone: an attempt shows nothing of them"
            raise CandidateError(f"{told}; train_edit measures them", reason="unfit")
        return trial.tasks * (1 if trial.split == "search" else 2)

    def experiment(self, tree: HarnessTree, trial: EditTrial | None) -> Rehearsal:
        """Its report, from the journal where it was made before."""
        how = f"{trial.policy}-{trial.split}-{trial.tasks}" if trial else f"train-{self._steps}"
        key = f"g{self.generation}/experiment/{tree.tree_hash}-{how}"

        def made() -> JSON:
            try:
                lines = self._tried(tree, trial) if trial else self._trained(tree)
                return {"ok": True, "text": "\n".join(lines)}
            except (CandidateError, ConfigError) as error:
                return {"ok": False, "text": f"It cannot be measured: {str(error)[:1000]}"}

        with self._alone:
            told = self.run.once(key, "experiment", {"edit": tree.tree_hash, "how": how}, made)
        return Rehearsal(told["ok"], told["text"])

    def sample(
        self, trees: Sequence[HarnessTree], tasks: int | None
    ) -> list[Mapping[str, bool] | None]:
        """What the base policy solves cleanly under each, by task; no check comes before."""
        with ThreadPoolExecutor(self.run.lab.settings.workers) as pool:
            return list(pool.map(lambda tree: self._sample(tree, tasks), trees))

    def _sample(self, tree: HarnessTree, tasks: int | None) -> dict[str, bool] | None:
        lab, limit = self.run.lab, tasks or self.run.plan.search
        try:
            seen = lab.evaluate(tree, lab.untrained(), split="search", limit=limit)
        except (CandidateError, ConfigError):
            return None
        return {one.task_key: one.clean for one in lab.rollouts(seen.shard)}

    # --- an edit rolled out ----------------------------------------------------------------------

    def _tried(self, tree: HarnessTree, trial: EditTrial) -> Iterator[str]:
        lab, version = self.run.lab, self.collected
        policy = lab.untrained() if trial.policy == "base" else version.trained
        seen = lab.evaluate(tree, policy, split=trial.split, limit=trial.tasks)
        mine = lab.rollouts(seen.shard)
        before = evidence_of(
            self.run, version.version, version.tree, self._same(trial, policy, mine)
        )
        evidence = evidence_of(self.run, _EDIT, tree, mine, earlier=before)
        whose = "base" if trial.policy == "base" else "version's trained"
        yield f"The {whose} policy on {trial.tasks} {trial.split} tasks, one attempt each:"
        yield _counted("the edit", seen)
        was = sum(clean for _, _, clean in before.per_task.values())
        yield f"- the version, same tasks: {was} of {sum(n for n, *_ in before.per_task.values())}"
        yield from ("", "Every attempt in a line:", *map(self.run.extensions.files.story, mine), "")
        cleanly = {key for key, (_, _, clean) in before.per_task.items() if clean}
        shown = sorted(mine, key=lambda one: (one.clean == (one.task_key in cleanly), one.clean))
        yield from (self.run.extensions.files.transcript(one)[:_SHOWN_CHARS] for one in shown[:1])
        yield from ("", "What moved, its change against the version's attempts in brackets:", "")
        yield self.run.extensions.evidence.render_text(evidence, moved=True)

    def _same(self, trial: EditTrial, policy: Trained, mine: Sequence[Rollout]) -> list[Rollout]:
        """The version's attempts at the same tasks: on the search split they are stored."""
        lab, version = self.run.lab, self.collected
        known = version.untrained if trial.policy == "base" else version.evaluated
        if trial.split == "train" or known is None:
            known = lab.evaluate(version.tree, policy, split=trial.split, limit=trial.tasks)
        keys = {one.task_key for one in mine}
        return [one for one in lab.rollouts(known.shard) if one.task_key in keys]

    # --- an edit trained for a few steps ---------------------------------------------------------

    def _trained(self, tree: HarnessTree) -> Iterator[str]:
        lab = self.run.lab
        before, after = jobs = self._job(None), self._job(tree)
        lab.prepare(jobs)
        was, now = lab.measure(before), lab.measure(after)
        sides = (lab.arm_of("", job.tree, {0: seen}) for job, seen in ((before, was), (after, now)))
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
        """The evidence of the first and of the last groups of the edit's training."""
        kept = self.run.lab.rollouts(trained.shard) if trained.shard else []
        for first in (True, False) if kept else ():
            groups = of_steps(kept, first=first, count=EXEMPLAR_STEPS)
            metrics = None if first else trained.metrics
            yield from ("", f"## The {'first' if first else 'last'} groups of its training", "")
            yield self.run.extensions.evidence.render_text(
                evidence_of(self.run, _EDIT, tree, groups, metrics=metrics)
            )

    @property
    def _steps(self) -> int:
        return min(STEPS, self.run.plan.steps)

    def _job(self, tree: HarnessTree | None) -> Job:
        """A short training with its measurement, of an edit or of the version."""
        limit = min(TASKS, self.run.plan.search)
        return Job(tree or self.collected.tree, 0, self._steps, "search", limit)

    def _price(self, job: Job) -> int:
        return job.steps * attempts_a_step(job.tree) + job.limit

    def _due(self, job: Job) -> int:
        """What a job still takes: nothing where it is recorded."""
        lab = self.run.lab
        if lab.measured(job):
            return 0
        return job.limit if lab.trained(job) else self._price(job)


def checked(
    run: Run, collected: Collected, tree: HarnessTree, *, pair: bool = False
) -> list[Finding]:
    """Static checks; where they pass, contract tests on rollouts that were really made.

    With `pair`, an edit may touch two factors that act: one repair may mask another.
    """
    contract = parse_contract(collected.tree)
    touched = touched_factors(collected.tree, tree)
    label: tuple[Factor, ...] = tuple(one for one in FACTORS if one in touched)
    both = label if pair and len(label) == 2 else ()
    found = list(static_check(collected.tree, tree, contract, factors=both))
    found += [untrained(run, one) for one in label if one not in run.factors]
    if any(finding.severity == "veto" for finding in found):
        return found
    return found + broken_contract(run, collected, tree)


def touched_factors(before: HarnessTree, after: HarnessTree) -> set[Factor]:
    """The factors whose files an edit changes, by the contract that stood before it."""
    contract = parse_contract(before)
    changed = changed_paths(before, after)
    return {factor for path in changed for factor in contract.factors_matching(path)}


def _counted(name: str, seen: Evaluated) -> str:
    share = seen.clean / seen.planned
    return f"- {name}: {seen.clean} of {seen.planned} clean ({share:.1%}), {seen.solved} solved"
