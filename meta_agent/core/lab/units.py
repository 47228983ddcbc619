"""Units of work: one training or one evaluation, as a function from JSON to JSON and files.

A unit and the run's settings determine the result. The unit holds the hash of the harness's pack
(its files as one file), the policy to start from, the seed and the tasks. The result is an outcome
(JSON, with paths relative to the run's checkpoints) and files, placed by `Outputs`: weights with a
manifest of hashes, and a shard of rollouts. So a unit can be executed in this process or on another
machine, and again after it was lost.

Not covered: how often units are executed, and what is recorded (`live`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from meta_agent.core.capabilities import Capabilities, PatientGateway
from meta_agent.core.errors import CandidateError, ConfigError, IntegrityError
from meta_agent.core.gate import task_order
from meta_agent.core.harness import HarnessSession, open_session
from meta_agent.core.harness.session import AskJudge
from meta_agent.core.lab._rows import (
    Again,
    accepted_recipe,
    counted,
    require_heard,
    require_measured,
    score,
    shard_reference,
    to_repeat,
)
from meta_agent.core.lab.measured import LabSettings, Part, Trained
from meta_agent.core.lab.training import TRAIN_STEP_SEC, Policies, TrainingRequest, require_begun
from meta_agent.core.lab.warmup import read_rows
from meta_agent.core.protocols import (
    JSON,
    Domain,
    Gateway,
    HarnessTree,
    PlannedRollout,
    Rollout,
    Sandbox,
    SandboxLimits,
    SandboxOpener,
    Split,
    Task,
)
from meta_agent.core.rollouts import GRACE_SEC, RolloutStore, Runner, Stamp
from meta_agent.core.task_splits import WithGenerated

EXEMPLAR_STEPS: Final = 3
"""The rollouts of so many of the first and last training steps are stored as evidence."""
SANDBOX_SEC: Final = 3600.0
"""How long a sandbox lives, in seconds, if nothing is trained in it."""
ONE_SAMPLE: Final = range(1)

Report = Callable[[int, Mapping[str, JSON]], None]
"""Receives the number of an optimiser step and its metrics."""


class TrainUnit(NamedTuple):
    """An order to train the policy at `path` for `steps` optimiser steps under one harness."""

    name: str
    harness: str  # sha256 of its pack
    seed: int
    steps: int
    keep_every: int
    path: str
    policy: str
    before: int  # steps that the policy at `path` was trained for
    warmup: str = ""  # sha256 of the run's rows for warm-ups; empty: it has none
    imitates: bool = False  # all its steps imitate the run's rows, and it makes no rollouts
    history: JSON = None  # tries and solutions of training tasks before it

    def to_json(self) -> JSON:
        return {"kind": "train", **self._asdict()}


class EvalUnit(NamedTuple):
    """An order to evaluate the policy at `path` on tasks of a split under one harness."""

    name: str
    harness: str  # sha256 of its pack
    seed: int
    split: Split
    limit: int
    samples: range
    part: Part | None
    path: str
    policy: str
    steps: int  # that the policy at `path` was trained for
    required: str  # how people call it, where losing too much of it stops the run

    def to_json(self) -> JSON:
        samples = [self.samples.start, self.samples.stop]
        part = self.part and [self.part.order, self.part.at.start, self.part.at.stop]
        return {"kind": "eval", **self._asdict(), "samples": samples, "part": part}


Unit = TrainUnit | EvalUnit


def unit_from_json(record: Mapping[str, JSON]) -> Unit:
    """Returns the training or evaluation that the JSON object `record` describes."""
    values = {name: value for name, value in record.items() if name != "kind"}
    if record["kind"] == "train":
        return TrainUnit(**values)
    part = values["part"] and Part(values["part"][0], range(*values["part"][1:]))
    return EvalUnit(**{**values, "samples": range(*values["samples"]), "part": part})


def pack_of(tree: HarnessTree) -> bytes:
    """Returns the files of a harness as one JSON document, whose SHA-256 names the harness."""
    files = {path: base64.b64encode(tree.files[path]).decode() for path in sorted(tree.files)}
    return json.dumps({"commit": tree.commit, "tree": tree.tree_hash, "files": files}).encode()


def tree_of(pack: bytes, sha256: str) -> HarnessTree:
    """Returns the harness packed in a JSON document. Raises IntegrityError if its hash differs."""
    if (actual := hashlib.sha256(pack).hexdigest()) != sha256:
        raise IntegrityError(
            f"the harness that was sent has sha256 {actual[:12]}, not {sha256[:12]}; it was "
            "damaged on the way, so run the same command again"
        )
    record = json.loads(pack)
    files = {path: base64.b64decode(text) for path, text in record["files"].items()}
    return HarnessTree(record["commit"], record["tree"], files)


class Outputs(NamedTuple):
    """Where the checkpoints and rollouts of a training or an evaluation are written."""

    checkpoints: Path
    store: RolloutStore


def tasks_of(domain: Domain, split: Split, limit: int, part: Part | None) -> Sequence[Task]:
    """Returns the first `limit` tasks of a split in order, or those of them that `part` selects."""
    tasks = domain.tasks(split)[:limit]
    if part is None:
        return tasks
    by_key = {task.key: task for task in tasks}
    order = task_order(by_key, part.order)
    return [by_key[order[at]] for at in part.at]


class Apparatus:
    """Holds the tasks, policies and sandboxes, and executes trainings and evaluations with them."""

    def __init__(
        self,
        settings: LabSettings,
        domain: Domain,
        policies: Policies,
        open_sandbox: SandboxOpener,
        ask_judge: AskJudge | None = None,
    ) -> None:
        self.settings, self.domain, self.policies = settings, domain, policies
        self.open_sandbox, self._ask_judge = open_sandbox, ask_judge

    def carry_out(
        self,
        unit: Unit,
        tree: HarnessTree,
        outputs: Outputs,
        report: Report,
        stopping: Callable[[], bool],
    ) -> JSON:
        """Executes a training or an evaluation of the harness `tree`, and returns its outcome.

        Any thread may call this. Once `stopping` returns True, a training that saves its state
        saves it and raises Interrupted. Raises CandidateError if the harness is at fault.
        """
        if isinstance(unit, TrainUnit):
            return self._train(unit, tree, outputs, report, stopping)
        return self._evaluate(unit, tree, outputs)

    def plan(
        self, seed: int, split: Split, limit: int, samples: range, part: Part | None
    ) -> list[PlannedRollout]:
        """Returns the planned attempts of an evaluation; `seed` is the policy's training seed."""
        drawn = self._seed(seed)
        return [
            PlannedRollout(task, sample, drawn, f"{split}/{task.key}")
            for sample in samples
            for task in tasks_of(self.domain, split, limit, part)
        ]

    @contextmanager
    def session(
        self, tree: HarnessTree, *, steps: int = 0, life_sec: float = SANDBOX_SEC
    ) -> Iterator[HarnessSession]:
        """Opens a harness in a sandbox that lives `life_sec` seconds, more with `steps` to train.

        If the agent is a command, each attempt gets another sandbox, with the command's image.
        """
        limits = SandboxLimits(deadline_sec=life_sec + steps * TRAIN_STEP_SEC)

        def opened(image: str | None) -> Sandbox:
            return self.open_sandbox(limits=limits, image=image)

        with open_session(tree, opened) as session:
            yield session

    # --- inside --------------------------------------------------------------------------------

    def _train(
        self,
        unit: TrainUnit,
        tree: HarnessTree,
        outputs: Outputs,
        report: Report,
        stopping: Callable[[], bool],
    ) -> JSON:
        folder = outputs.checkpoints / unit.name
        shutil.rmtree(folder, ignore_errors=True)
        with (
            self.policies.training(unit.path, folder) as trainer,
            self.session(
                tree,
                steps=unit.steps,
                life_sec=SANDBOX_SEC + unit.steps * self.domain.ceilings.wall_sec,
            ) as session,
        ):
            self._lend_judge(session)
            recipe = accepted_recipe(trainer, session)
            domain = self._training_domain(recipe)
            request = TrainingRequest(
                seed=self._seed(unit.seed),
                steps=unit.steps,
                output=folder,
                keep_steps=EXEMPLAR_STEPS,
                keep_every=unit.keep_every,
                seal_every=self.settings.checkpoint_every,
                min_exact=self.settings.min_exact,
                warmup=() if unit.imitates else self._warmup(unit, recipe),
                history=unit.history or {},
            )
            tell = partial(_tell, report)
            if unit.imitates:
                rows = read_rows(self.settings, unit.warmup)
                result = trainer.imitate(rows, recipe, request, on_metrics=tell, stopping=stopping)
            else:
                stamp = self._stamp(tree, unit.name)
                runner = self._runner(session, trainer.gateway, stamp, domain=domain)
                result = trainer.train(
                    runner, session, domain, recipe, request, on_metrics=tell, stopping=stopping
                )
        shard = outputs.store.write(f"{self.settings.run}/train-{unit.name}", result.rollouts)
        checkpoints = [
            {
                "steps": unit.before + checkpoint.steps,
                "policy": checkpoint.policy,
                "path": str(checkpoint.path.relative_to(outputs.checkpoints)),
            }
            for checkpoint in result.checkpoints
        ]
        return Trained(
            path=str(result.checkpoint.path.relative_to(outputs.checkpoints)),
            policy=result.checkpoint.policy,
            seed=unit.seed,
            steps=unit.before + unit.steps,
            shard=shard_reference(shard),
            metrics=result.metrics,
            train_steps=unit.steps,
            rollouts=result.rollouts_made,
            checkpoints=checkpoints,
            history=result.history,
        ).to_json()

    def _warmup(self, unit: TrainUnit, recipe: Mapping[str, JSON]) -> Sequence[Rollout]:
        """Returns the rows of a warm-up; none if the training goes on from an earlier one.

        Raises CandidateError if the recipe has a warm-up, and the run has no rows.
        """
        if unit.before or not (steps := recipe.get("sft_steps")):
            return ()
        if not unit.warmup:
            raise CandidateError(
                f"the recipe's sft_steps is {steps}, but the run has no clean success to imitate",
                reason="no_warmup_rows",
                hint="give solved attempts with --warmup FILE, or set sft_steps to 0",
            )
        return read_rows(self.settings, unit.warmup)

    def _training_domain(self, recipe: Mapping[str, JSON]) -> Domain:
        """Returns the domain, with the further training tasks that the recipe declares.

        Raises CandidateError if the domain cannot make them.
        """
        if not (declared := recipe.get("generate")):
            return self.domain
        try:
            return WithGenerated(self.domain, declared)
        except ConfigError as error:
            raise CandidateError(
                str(error), reason="no_generated_tasks", hint=error.hint
            ) from error

    def _lend_judge(self, session: HarnessSession) -> None:
        """Lets the reward ask its model. Raises CandidateError if the run has none."""
        session.ask_judge = self._ask_judge
        if session.has_judge and self._ask_judge is None:
            raise CandidateError(
                "the reward function has a judge(rollouts), but this run has no model for it",
                reason="no_judge",
                hint="name a model: --model reward=provider/model",
            )

    def _evaluate(self, unit: EvalUnit, tree: HarnessTree, outputs: Outputs) -> JSON:
        plan = self.plan(unit.seed, unit.split, unit.limit, unit.samples, unit.part)
        served: set[str] = set()
        rollouts = self._rolled_out(unit, tree, plan, served)
        if unit.required:
            require_measured(rollouts, f"{unit.required} on the {unit.split} split")
        shard = outputs.store.write(f"{self.settings.run}/eval-{unit.name}", rollouts)
        return {**counted(shard, plan, rollouts, unit.seed), "served": sorted(served)}

    def _rolled_out(
        self, unit: EvalUnit, tree: HarnessTree, plan: Sequence[PlannedRollout], served: set[str]
    ) -> list[Rollout]:
        """Returns the rollouts of a plan.

        Lost ones are made once more, with the same random numbers. `served` collects the names by
        which a server called the model.
        """
        rollouts = self._roll_out(unit, tree, plan, served)
        lost = to_repeat(rollouts, whole=self.policies.lock_step)
        again = [plan[at] for at in lost]
        redone = self._roll_out(unit, tree, again, served) if again else []
        for at, rollout in zip(lost, redone, strict=True):
            rollouts[at] = rollout
        require_heard(rollouts)
        require_begun(rollouts)
        return rollouts

    def _roll_out(
        self, unit: EvalUnit, tree: HarnessTree, plan: Sequence[PlannedRollout], served: set[str]
    ) -> list[Rollout]:
        sampling = self.domain.sampling
        # The sandbox first: a harness that does not load is no reason to end a child.
        with self.session(tree, life_sec=self._life_sec(len(plan))) as session:
            with self.policies.acting(unit.path, unit.name) as gateway:
                runner = self._runner(session, gateway, self._stamp(tree, unit.name), again=False)
                rollouts = runner.run(plan, temperature=sampling.temperature, top_p=sampling.top_p)
            score(session, rollouts)
            served |= getattr(gateway, "served", set())
        return rollouts

    def _runner(
        self,
        session: HarnessSession,
        gateway: Gateway,
        stamp: Stamp,
        *,
        again: bool = True,
        domain: Domain | None = None,
    ) -> Runner:
        """Returns a runner, for the run's domain unless `domain` is another.

        With engines of the run, it makes lost rollouts again at once.
        """
        at_once = self.settings.concurrency
        if isinstance(gateway, PatientGateway):
            at_once = min(Capabilities.of(self.domain).open_at_once or at_once, at_once)
        make = Again if again and isinstance(gateway, PatientGateway) else Runner
        return make(domain or self.domain, session, gateway, stamp, concurrency=at_once)

    def _life_sec(self, planned: int) -> float:
        """Returns the seconds that a sandbox must live if each rollout takes all its time."""
        if self.policies.lock_step:
            return SANDBOX_SEC
        rounds = -(-planned // self.settings.concurrency)
        return SANDBOX_SEC + rounds * (self.domain.ceilings.wall_sec + GRACE_SEC)

    def _seed(self, index: int) -> int:
        return self.settings.seed * 1000 + index

    def _stamp(self, tree: HarnessTree, version: str) -> Stamp:
        return Stamp(run=self.settings.run, version=version, harness_commit=tree.commit)


def _tell(report: Report, row: dict[str, JSON]) -> None:
    report(int(row["step"]), row)


# --- where units are executed --------------------------------------------------------------------


class Executor(Protocol):
    """Executes trainings and evaluations, at most `width` at a time. Any thread may call it."""

    width: int

    def run(self, unit: Unit, tree: HarnessTree, outputs: Outputs, report: Report) -> JSON:
        """Executes a training or an evaluation and returns its outcome. Its files are at `outputs`.

        Raises CandidateError if the harness is at fault.
        """
        ...

    def close(self) -> None: ...


class LocalExecutor:
    """Executes trainings and evaluations on this machine, in threads and child processes."""

    def __init__(
        self, apparatus: Apparatus, width: int, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self.width = width
        self._apparatus, self._stopping = apparatus, stopping

    def run(self, unit: Unit, tree: HarnessTree, outputs: Outputs, report: Report) -> JSON:
        return self._apparatus.carry_out(unit, tree, outputs, report, self._stopping)

    def close(self) -> None:
        self._apparatus.policies.close()
