"""`RecordedLab`: a lab that measures nothing and reads what was measured.

When a lab would train or evaluate, this one opens what is stored under that name and identifies it
by content, both weights and rows. Each row has to be the planned one: its task, attempt and seed, a
harness whose files behave like those of the given commit, and weights of that training. So another
candidate's rows, or another checkpoint's, do not pass as a measurement, whoever wrote the ledger.
Not all rows of a training are stored: its recipe has to allow the recorded number of attempts.

Not covered: whether these weights would do the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from meta_agent.core.errors import IntegrityError, MetaAgentError
from meta_agent.core.harness import recipe_of
from meta_agent.core.history import HarnessRepo
from meta_agent.core.lab._rows import counted, shard_reference
from meta_agent.core.lab.arms import behaviour_hash
from meta_agent.core.lab.live import Lab
from meta_agent.core.lab.training import kept_folder
from meta_agent.core.lab.units import EvalUnit, TrainUnit
from meta_agent.core.ledger import RetracedLedger
from meta_agent.core.protocols import JSON, HarnessTree, PlannedRollout, Rollout, Split
from meta_agent.core.rollouts import ShardRef


class RecordedLab(Lab):
    """A lab that returns stored results instead of training and evaluating.

    Its methods raise IntegrityError if a stored rollout or checkpoint is not that of the job.
    """

    ledger: RetracedLedger

    def __init__(
        self, repo: HarnessRepo, identity_of: Callable[[Path], str], *settings: Any, **more: Any
    ) -> None:
        """`identity_of` names the weights in a folder by their content, or raises."""
        super().__init__(*settings, **more)
        self._identity_of = identity_of
        self._behaviour = cache(lambda commit: _behaviour_of(repo, commit))
        self._base: str | None = None

    def _train(self, unit: TrainUnit, tree: HarnessTree) -> JSON:
        outcome = self._recorded_outcome(f"train/{unit.name}")
        if "refused" in outcome:
            return outcome
        folder = self.settings.checkpoints / self.settings.run / unit.name
        shard, behaviour = self._shard(f"train-{unit.name}"), behaviour_hash(tree)
        for row in self.store.iter(shard):
            self._require(row, self._identity(unit.name, "train"), behaviour)
        return {
            **outcome,
            **self._opened(outcome, folder),
            "seed": unit.seed,
            "steps": unit.before + unit.steps,
            "train_steps": unit.steps,
            "rollouts": _possible(outcome["rollouts"], unit, tree),
            "shard": shard_reference(shard),
            "kept": [
                self._opened(checkpoint, kept_folder(folder) / Path(checkpoint["path"]).name)
                for checkpoint in outcome.get("kept", ())
            ],
        }

    def _evaluate(self, unit: EvalUnit, tree: HarnessTree) -> JSON:
        outcome = self._recorded_outcome(f"eval/{unit.name}")
        if "refused" in outcome:
            return outcome
        plan = self.apparatus.plan(unit.seed, unit.split, unit.limit, unit.samples, unit.part)
        shard, behaviour = self._shard(f"eval-{unit.name}"), behaviour_hash(tree)
        rows = list(self.store.iter(shard, tokens=True))
        if len(rows) != len(plan):
            raise IntegrityError(
                f"{shard.name} has {len(rows)} attempts, but {len(plan)} were planned; restore "
                "the workspace from a copy"
            )
        for row, planned in zip(rows, plan, strict=True):
            acted = {"policy": self._policy(unit, row)}
            identity = self._identity(unit.name, unit.split) | _attempt(planned) | acted
            self._require(row, identity, behaviour)
        served = {name: outcome[name] for name in ("served",) if name in outcome}
        return {**counted(shard, plan, rows, unit.seed), **served}

    def _opened(self, outcome: Mapping[str, JSON], folder: Path) -> dict[str, JSON]:
        """Returns the outcome with the weights as they are, even if the workspace has moved."""
        policy, stored = self._identity_of(folder), str(outcome["path"])
        same_place = Path(stored).parts[-3:] == folder.parts[-3:]
        return {**outcome, "policy": policy, "path": stored if same_place else str(folder)}

    def _recorded_outcome(self, name: str) -> Mapping[str, JSON]:
        step = self.ledger.recorded(f"{self.settings.run}/{name}")
        return step.fields if step and step.is_done else {}

    def _shard(self, name: str) -> ShardRef:
        shard = self.store.find(f"{self.settings.run}/{name}")
        if shard is None:
            raise IntegrityError(
                f"no rollouts {name} are stored; restore the workspace from a copy"
            )
        return shard

    def _identity(self, name: str, split: Split) -> dict[str, JSON]:
        stamp = {"run": self.settings.run, "version": name, "split": split}
        return {**stamp, "evaluator_hash": self.domain.evaluator_hash}

    def _policy(self, unit: EvalUnit, row: Rollout) -> str:
        """Returns the expected name of the policy: the training's, or that of the fixed base."""
        if unit.steps:
            return unit.policy
        self._base = self._base or row.policy
        return self._base

    def _require(self, row: Rollout, expected: Mapping[str, JSON], behaviour: str) -> None:
        about = f"{row.version}: attempt {row.sample_idx} at {row.task_key}"
        for name, value in expected.items():
            if (actual := getattr(row, name)) != value:
                raise IntegrityError(
                    f"{about} has the {name} {actual}, not {value}; restore the workspace from a "
                    "copy"
                )
        if self._behaviour(row.harness_commit) != behaviour:
            raise IntegrityError(
                f"{about} was made with the files of {row.harness_commit[:12]}, which differ from "
                "those of the version to be verified; restore the workspace from a copy"
            )


def _possible(recorded: int, unit: TrainUnit, tree: HarnessTree) -> int:
    """Returns the recorded number of a training's attempts, or the nearest that its recipe allows.

    Only a recipe that replaces dropped groups leaves a choice.
    """
    recipe = recipe_of(tree)
    steps = unit.steps - (0 if unit.before else recipe.sft_steps)
    batches = 0 if unit.imitates else -(-steps // recipe.num_iterations)
    least, most = batches * recipe.rows_per_step, batches * recipe.most_rows_per_step
    return min(max(recorded, least), most)


def _attempt(planned: PlannedRollout) -> dict[str, JSON]:
    task = planned.task
    return {
        "domain": task.domain,
        "task_key": task.key,
        "task_hash": task.content_hash,
        "sample_idx": planned.sample_idx,
        "seed": planned.seed,
        "group_id": planned.group_id,
    }


def _behaviour_of(repo: HarnessRepo, commit: str) -> str:
    try:
        return behaviour_hash(repo.tree(commit))
    except (MetaAgentError, ValueError, KeyError) as error:
        return f"{commit}: {error}"
