"""The lab of a run: it trains and evaluates harness versions, each exactly once.

A measurement has a key of what determines it: the harness's files (without diagnostics, which only
watch), the base policy, the training seed, the steps, the split. So two arms (sides of comparisons)
share what they have in common. A merge commit with the same files as its candidate reuses the
candidate's measurements. A killed run repeats only what was in flight. Both arms of a comparison
get the same tasks, samples and seeds, and random numbers are keyed by them (common random numbers).

Each job has its own policy and sandbox. A child process has a fixed thread count, so the number of
jobs at a time changes only the wall-clock time. A frozen policy is not trained (`steps` 0), and
each evaluation runs as many rollouts at once as its server allows. Tasks and samples are measured
in blocks, each a step of the ledger. So a second look reuses the rows of the first, and every
candidate those of the baseline.

A harness may be impossible to measure: its code raises, its recipe is refused, or its sandbox dies
twice. This is a result too. It is recorded, and raised as `CandidateError` whenever the measurement
is asked for. Machines that fail get one more try; if they fail again, they stop the run. Lost
rollouts are made once more as well. Of a version that others are compared to (`require`), at most a
twentieth, or one, may be missing then.

Not covered: what the numbers mean (`gate`), and which arms to run (`core.loop`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from meta_agent.core.errors import CandidateError, IntegrityError, Interrupted
from meta_agent.core.gate import Arm, task_order
from meta_agent.core.harness.session import AskJudge
from meta_agent.core.lab.arms import ArmRef, behaviour_hash, load_arm, load_shard, reward_hash
from meta_agent.core.lab.fair import fairly, or_refusal
from meta_agent.core.lab.inspector import Inspector
from meta_agent.core.lab.measured import Budget, Evaluated, Job, LabSettings, Part, Trained
from meta_agent.core.lab.training import Policies
from meta_agent.core.lab.units import (
    ONE_SAMPLE,
    Apparatus,
    EvalUnit,
    Executor,
    LocalExecutor,
    Outputs,
    TrainUnit,
    pack_of,
    tasks_of,
)
from meta_agent.core.lab.warmup import clean_successes, read_rows, references, write_rows
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import StepKind, Train, Warmup
from meta_agent.core.protocols import JSON, Domain, HarnessTree, Rollout, SandboxOpener, Split
from meta_agent.core.rollouts import RolloutStore, Stamp

__all__ = ["ArmRef", "Evaluated", "Job", "Lab", "LabSettings", "Trained", "load_arm", "load_shard"]

TURNS: Final = 8
"""About how many blocks alternate between compared versions, if blocks stay large enough."""
SMALLEST_TURN: Final = 8


class Lab:
    """Trains and evaluates harness versions. Each result is recorded in the ledger and reused."""

    def __init__(
        self,
        settings: LabSettings,
        *,
        ledger: Ledger,
        store: RolloutStore,
        domain: Domain,
        on_step: Callable[[str, int, Mapping[str, float]], None],
        stopping: Callable[[], bool],
        policies: Policies,
        open_sandbox: SandboxOpener,
        executor: Executor | None = None,
        ask_judge: AskJudge | None = None,
    ) -> None:
        self.settings = settings
        self.ledger = ledger
        self.store = store
        self.domain = domain
        self.inspector = Inspector(store, domain, imitated=self.imitated)
        self.budget = Budget()
        self._on_step = on_step
        self._stopping = stopping
        self._labels: dict[str, str] = {}
        self._required: set[str] = set()
        self.open_sandbox = open_sandbox
        self.apparatus = Apparatus(settings, domain, policies, open_sandbox, ask_judge)
        self.session = self.apparatus.session
        self._executor = executor or LocalExecutor(self.apparatus, settings.workers, stopping)

    # --- what callers ask for ------------------------------------------------------------------

    def label(self, tree: HarnessTree, name: str) -> None:
        """Sets the name of a harness in progress reports, unless it has a name already."""
        self._labels.setdefault(behaviour_hash(tree), name)

    def require(self, tree: HarnessTree) -> None:
        """Marks a harness that others are compared to: if it loses many rollouts, the run stops."""
        self._required.add(behaviour_hash(tree))

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Runs trainings and evaluations, as many at a time as there are workers.

        Raises the first failure of machines. A failure of a harness is raised by `measure`, later.
        """
        with ThreadPoolExecutor(self._executor.width) as pool:
            futures: list[Future[object]] = [pool.submit(self._run, job) for job in jobs]
            done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
            for future in waiting:
                future.cancel()
        for future in done:
            future.result()

    def arm(
        self,
        name: str,
        tree: HarnessTree,
        *,
        seeds: Iterable[int],
        steps: int,
        split: Split,
        limit: int,
    ) -> ArmRef:
        """Trains a version with each seed, evaluates it, and returns an arm (side of a comparison).

        `steps` are optimiser steps, and `limit` is the number of tasks of the split. Raises
        CandidateError if the harness fails.
        """
        jobs = (Job(tree, seed, steps, split, limit) for seed in seeds)
        return self.arm_of(name, tree, {job.seed: self.measure(job) for job in jobs})

    def side_by_side(
        self,
        trees: Mapping[str, HarnessTree],
        *,
        samples: int,
        extra: int,
        split: Split,
        limit: int,
        order: str,
        guard: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> list[ArmRef]:
        """Evaluates several harness versions with the untrained policy, in alternating blocks.

        Returns an arm (side of a comparison) for each. Each version gets `samples` attempts at each
        of `limit` tasks, in the order of the salt `order`, and one more at `extra` tasks. Raises
        CandidateError if a harness fails. `guard` of its name may turn that into another error.
        """
        evaluations: dict[str, list[Evaluated]] = {name: [] for name in trees}
        for at, (some, part) in enumerate(self._turns(samples, extra, split, limit, order)):
            for name in list(trees)[:: -1 if at % 2 else 1]:
                with guard(name):
                    base = self.train(trees[name], seed=0, steps=0)
                    evaluation = self.evaluate(
                        trees[name], base, split=split, limit=limit, samples=some, part=part
                    )
                evaluations[name].append(evaluation)
        arms = []
        for name, tree in trees.items():
            planned = sum(evaluation.planned for evaluation in evaluations[name])
            shards = [evaluation.shard for evaluation in evaluations[name]]
            arms.append(ArmRef(name, planned, reward_hash(tree), {0: shards}))
        return arms

    def _turns(
        self, samples: int, extra: int, split: Split, limit: int, order: str
    ) -> Iterator[tuple[range, Part]]:
        """Yields blocks of attempts: passes over all tasks, then one over `extra` of them."""
        tasks = min(limit, len(self.domain.tasks(split)))
        size = max(SMALLEST_TURN, -(-(tasks * samples + extra) // TURNS))
        for sample, most in enumerate([*[tasks] * samples, extra]):
            for start in range(0, most, size):
                stop = min(most, start + size)
                yield range(sample, sample + 1), Part(order, range(start, stop))

    def arm_of(self, name: str, tree: HarnessTree, measured: Mapping[int, Evaluated]) -> ArmRef:
        """Returns the arm `name` (a side of a comparison), from evaluations by training seed."""
        planned = max(evaluation.planned for evaluation in measured.values())
        shards = {seed: evaluation.shard for seed, evaluation in measured.items()}
        return ArmRef(name, planned, reward_hash(tree), shards)

    def rows(self, ref: ArmRef) -> Arm:
        """Returns the outcome rows (one per attempt) of an arm, one side of a comparison."""
        return load_arm(self.store, ref)

    def trained(self, job: Job) -> bool:
        """Returns True if a job's training is counted or not needed, so it costs nothing more."""
        name = _train_name(job.tree, job.seed, job.steps, onto=job.onto)
        return job.steps == 0 or f"{self.settings.run}/train/{name}" in self.budget

    def measured(self, job: Job) -> bool:
        """Returns True if a job's training and evaluation are counted, so it costs nothing more."""
        return self.trained(job) and self._is_counted(
            job.tree, self._trained_by(job), job.split, job.limit
        )

    def unsampled(self, tree: HarnessTree, *, split: Split, limit: int) -> int:
        """Returns how many attempts an evaluation of the untrained policy costs; 0 if counted."""
        is_counted = self._is_counted(tree, self.untrained(), split, limit)
        return 0 if is_counted else len(tasks_of(self.domain, split, limit, None))

    def _is_counted(self, tree: HarnessTree, trained: Trained, split: Split, limit: int) -> bool:
        name = self._eval_name(tree, trained, split, limit, ONE_SAMPLE, None)
        return f"{self.settings.run}/eval/{name}" in self.budget

    def recount(self, keys: Iterable[str]) -> None:
        """Counts recorded measurements that a recorded step made, such as an author's trials."""
        for key in keys:
            step = self.ledger.step(key)
            if step is not None and step.is_done:
                self.budget.count(key, step.intent.get("split"), step.fields)

    def order_of(self, split: Split, limit: int, salt: str) -> list[str]:
        """Returns the keys of a split's first `limit` tasks, in an order that `salt` determines."""
        return task_order((task.key for task in self.domain.tasks(split)[:limit]), salt)

    def measure(self, job: Job) -> Evaluated:
        """Returns the evaluation of a job, after the training that the job may contain.

        Raises CandidateError if the harness fails.
        """
        return self.evaluate(job.tree, self._trained_by(job), split=job.split, limit=job.limit)

    def rollouts(self, shard: JSON, *, tokens: bool = False) -> list[Rollout]:
        """Returns the rollouts of a stored set. Raises IntegrityError if a file's hash differs."""
        return load_shard(self.store, shard, tokens=tokens)

    def behind(self, shard: JSON) -> Trained | None:
        """Returns the training whose policy made the rollouts `shard`; None for the base policy."""
        steps = self.ledger.steps(self.settings.run, kind="eval")
        intents = (s.intent for s in steps if s.is_done and s.fields.get("shard") == shard)
        policy = next((intent["policy"] for intent in intents), None)
        trained = self.ledger.steps(self.settings.run, kind="train")
        outcomes = (
            s.outcome_as(Train) for s in trained if s.is_done and s.fields.get("policy") == policy
        )
        outcome = next(outcomes, None)
        return Trained.from_json(outcome) if outcome else None

    # --- the two measurements ------------------------------------------------------------------

    def untrained(self, seed: int = 0) -> Trained:
        """Returns the base policy in the form of a training of 0 steps."""
        return Trained(self.settings.base_policy, self.settings.base_policy, seed, 0, None, [])

    def train(
        self,
        tree: HarnessTree,
        *,
        seed: int,
        steps: int,
        keep_every: int = 0,
        onto: Trained | None = None,
        imitates: bool = False,
    ) -> Trained:
        """Returns a policy trained under a harness for `steps` steps, from the base one or `onto`.

        With `keep_every`, a checkpoint is kept every so many steps. Training from `onto` begins
        with a fresh optimiser and the curriculum history of `onto`. If it `imitates`, it makes no
        attempts and learns the rows of `warmup`. Raises CandidateError if the harness fails.
        """
        if steps == 0:
            return onto or self.untrained(seed)
        start = onto or self.untrained(seed)
        name = _train_name(tree, seed, steps, keep_every, onto) + ("-imitates" * imitates)
        unit = TrainUnit(
            name, _pack_hash(tree), seed, steps, keep_every, start.path, start.policy, start.steps,
            self.warmup()["sha256"] if imitates or not onto else "", imitates, start.history,
        )  # fmt: skip
        outcome = self._once(
            f"train/{name}",
            "train",
            {"behaviour": behaviour_hash(tree), "seed": seed, "steps": steps},
            lambda: self._train(unit, tree),
        )
        return Trained.from_json(outcome)

    def warmup(self) -> Warmup:
        """Returns the record of what trainings imitate first (a warm-up), of 0 rows if nothing."""
        step = self.ledger.step(f"{self.settings.run}/warmup")
        return step.outcome_as(Warmup) if step and step.is_done else Warmup(rows=0, sha256="")

    def render_references(self, tree: HarnessTree) -> Warmup:
        """Records the references of training tasks, as replies under a harness, to imitate first.

        A reference counts if the harness hands it in and the grader accepts it. Returns the record,
        with 0 rows if there is none. A choice of rows that was made before stays.
        """
        if (earlier := self.warmup())["rows"]:
            return earlier

        def render() -> Warmup:
            with self.session(tree) as session:
                stamp = Stamp(self.settings.run, "references", tree.commit)
                rows = references(self.domain, session, stamp)
            return Warmup(rows=len(rows), sha256=write_rows(self.settings, rows) if rows else "")

        return fairly(lambda: self.ledger.once(f"{self.settings.run}/warmup", "warmup", {}, render))

    def imitated(self) -> frozenset[str]:
        """Returns the content hashes of all tasks whose attempts or references are imitated."""
        sha256 = self.warmup()["sha256"]
        rows = read_rows(self.settings, sha256) if sha256 else []
        return frozenset(row.task_hash for row in rows)

    def earlier_warmup(self) -> list[Rollout]:
        """Returns the rollouts that this workspace's newest warm-up imitates; [] without one."""
        steps = [step for step in self.ledger.steps(kind="warmup") if step.is_done]
        if not steps:
            return []
        settings = replace(self.settings, run=str(steps[-1].run))
        return read_rows(settings, steps[-1].outcome_as(Warmup)["sha256"])

    def choose_warmup(self, rollouts: Iterable[Rollout], *, replay: bool) -> Warmup:
        """Records the clean successes among rollouts, for trainings to imitate first (a warm-up).

        Returns the record, with 0 rows if none is clean. The first choice holds for the whole run,
        so that all versions imitate the same. With `replay`, attempts are played again and graded.
        """
        if (earlier := self.warmup())["rows"]:
            return earlier
        rows, left_out = clean_successes(self.domain, rollouts, replay=replay)
        if not rows:
            return Warmup(rows=0, sha256="", left_out=left_out)

        def write() -> Warmup:
            return Warmup(rows=len(rows), sha256=write_rows(self.settings, rows), left_out=left_out)

        return self.ledger.once(f"{self.settings.run}/warmup", "warmup", {}, write)

    def evaluate(
        self,
        tree: HarnessTree,
        trained: Trained,
        *,
        split: Split,
        limit: int,
        samples: range = ONE_SAMPLE,
        part: Part | None = None,
        again: str = "",
    ) -> Evaluated:
        """Returns how a policy does under a harness on the first `limit` tasks of a split.

        `samples` are the numbers of the attempts at each task, `part` selects tasks (None: all).
        A repetition named `again` is recorded apart. Raises CandidateError if the harness fails.
        """
        unit = EvalUnit(
            name=self._eval_name(tree, trained, split, limit, samples, part) + again,
            harness=_pack_hash(tree),
            seed=trained.seed,
            split=split,
            limit=limit,
            samples=samples,
            part=part,
            path=trained.path,
            policy=trained.policy,
            steps=trained.steps,
            required=self._label_of(tree) if behaviour_hash(tree) in self._required else "",
        )
        intent = {"policy": trained.policy, "split": split, "limit": limit}
        work = partial(self._evaluate, unit, tree)
        return Evaluated(**self._once(f"eval/{unit.name}", "eval", intent, work))

    def _eval_name(
        self,
        tree: HarnessTree,
        trained: Trained,
        split: Split,
        limit: int,
        samples: range,
        part: Part | None,
    ) -> str:
        policy = _short(trained.policy)
        block = "" if samples == ONE_SAMPLE else f"-k{samples.start}-{samples.stop}"
        block += "" if part is None else f"-t{part.at.start}-{part.at.stop}"
        return f"{behaviour_hash(tree)[:12]}-s{trained.seed}-{policy}-{split}-{limit}{block}"

    def close(self) -> None:
        """Ends the processes that execute measurements."""
        self._executor.close()

    # --- inside --------------------------------------------------------------------------------

    def _trained_by(self, job: Job) -> Trained:
        return self.train(job.tree, seed=job.seed, steps=job.steps, onto=job.onto)

    def _run(self, job: Job) -> None:
        with suppress(CandidateError):
            self.measure(job)

    def _once(
        self, name: str, kind: StepKind, intent: Mapping[str, object], work: Callable[[], JSON]
    ) -> JSON:
        """Calls `Ledger.once`, with a failure of the harness as an outcome.

        Raises it as CandidateError. Raises Interrupted if the run is asked to stop.
        """
        if self._stopping():
            raise Interrupted
        key = f"{self.settings.run}/{name}"
        outcome = self.ledger.once(key, kind, intent, lambda: or_refusal(work))
        self.budget.count(key, intent.get("split"), outcome)
        if refused := outcome.get("refused"):
            raise CandidateError(
                refused["message"], reason=refused["reason"], hint=refused.get("hint")
            )
        return outcome

    def _train(self, unit: TrainUnit, tree: HarnessTree) -> JSON:
        if unit.before and not Path(unit.path).is_dir():
            raise IntegrityError(
                f"the checkpoint {unit.path}, which the training {unit.name} continues, is missing",
                hint="restore that folder, or start a new run with another --workspace",
            )
        series = f"{self._label_of(tree)} seed {unit.seed}, {unit.steps} steps"
        outputs = self._outputs
        outcome = self._executor.run(
            unit, tree, outputs, lambda step, row: self._on_step(series, step, row)
        )
        checkpoints = [_placed(checkpoint, outputs.checkpoints) for checkpoint in outcome["kept"]]
        return {**_placed(outcome, outputs.checkpoints), "kept": checkpoints}

    def _evaluate(self, unit: EvalUnit, tree: HarnessTree) -> JSON:
        return self._executor.run(unit, tree, self._outputs, lambda *_: None)

    @property
    def _outputs(self) -> Outputs:
        return Outputs(self.settings.checkpoints / self.settings.run, self.store)

    def _label_of(self, tree: HarnessTree) -> str:
        return self._labels.get(behaviour_hash(tree), tree.commit[:10])


def _pack_hash(tree: HarnessTree) -> str:
    return hashlib.sha256(pack_of(tree)).hexdigest()


def _placed(outcome: JSON, checkpoints: Path) -> JSON:
    """Returns the outcome with an absolute path of its weights, which is stored relative."""
    return {**outcome, "path": str(checkpoints / outcome["path"])}


def _short(policy: str) -> str:
    return hashlib.sha256(policy.encode()).hexdigest()[:12]


def _train_name(
    tree: HarnessTree, seed: int, steps: int, keep_every: int = 0, onto: Trained | None = None
) -> str:
    name = f"{behaviour_hash(tree)[:12]}-s{seed}-n{steps}"
    name += f"-k{keep_every}" if keep_every else ""
    return f"{name}-on-{_short(onto.policy)}" if onto else name
