"""The measuring apparatus of a run: trains and evaluates harness versions, each exactly once.

A measurement is keyed by what decides it: the harness's files (diagnostics aside, which only
watch), the base policy, the training seed, the steps, the split. So two arms share what they have
in common, a merge commit whose files equal its candidate's reuses the candidate's runs, and a
killed run redoes only what was in flight. Both arms of a comparison see the same tasks, samples and
seeds; random numbers are keyed by them (common random numbers).

Each job has a policy and a sandbox of its own; a child has a fixed thread count, so how many run
at a time changes the wall clock and nothing else. A frozen policy is not trained (`steps` 0), and
each evaluation keeps as many rollouts under way as its server is allowed. Tasks and samples of
tasks are bought in blocks, each its own step, so a second look reuses the rows of the first, and
every candidate those of the baseline.

A harness that cannot be measured (its code raises, its recipe is refused, its sandbox dies twice)
is a result as well: it is recorded like any other, and raised as `CandidateError` whenever the
measurement is asked for. Machines that fail get one more try; failing again, they stop the run.
So do rollouts that were lost on the way: they are made once more, and of what others are compared
to (`require`) at most a twentieth, or one, may be missing then.

Not covered: what the numbers mean (`gate`), and which arms to run (`core.loop`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Final

from meta_agent.core.errors import CandidateError, Interrupted
from meta_agent.core.gate import Arm, task_order
from meta_agent.core.lab.arms import ArmRef, behaviour_hash, load_arm, load_shard, reward_hash
from meta_agent.core.lab.executor import Executor, LocalExecutor
from meta_agent.core.lab.fair import or_refusal
from meta_agent.core.lab.inspector import Inspector
from meta_agent.core.lab.measured import Evaluated, Job, LabSettings, Part, Trained
from meta_agent.core.lab.training import Policies
from meta_agent.core.lab.units import (
    ONE_SAMPLE,
    Apparatus,
    EvalUnit,
    Outputs,
    TrainUnit,
    pack_of,
    tasks_of,
)
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Kind, Train
from meta_agent.core.protocols import (
    JSON,
    Domain,
    HarnessTree,
    PlannedRollout,
    Rollout,
    SandboxOpener,
    Split,
    Task,
)
from meta_agent.core.rollouts import RolloutStore

__all__ = ["ArmRef", "Evaluated", "Job", "Lab", "LabSettings", "Trained", "load_arm", "load_shard"]

TURNS: Final = 8
"""About how often versions that are compared take turns, where blocks do not become too small."""
SMALLEST_TURN: Final = 8


class Lab:
    """Trains and evaluates through the ledger."""

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
    ) -> None:
        self.settings = settings
        self.ledger = ledger
        self.store = store
        self.domain = domain
        self.inspector = Inspector(store, domain)
        self._on_step = on_step
        self._stopping = stopping
        self._labels: dict[str, str] = {}
        self._required: set[str] = set()
        self.open_sandbox = open_sandbox
        self._apparatus = Apparatus(settings, domain, policies, open_sandbox)
        self.session = self._apparatus.session
        self._executor = executor or LocalExecutor(self._apparatus, settings.workers, stopping)

    # --- what callers ask for ------------------------------------------------------------------

    def label(self, tree: HarnessTree, name: str) -> None:
        """What people call this harness in progress reports; the first name stays."""
        self._labels.setdefault(behaviour_hash(tree), name)

    def require(self, tree: HarnessTree) -> None:
        """Others are compared to this harness: losing too much of it stops the run, resumable."""
        self._required.add(behaviour_hash(tree))

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Runs the jobs, as many at a time as there are workers. The first failure is raised.

        Not that of a harness, though: whoever asks for its measurement gets that.
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
        """One version measured over these training seeds."""
        jobs = (Job(tree, seed, steps, split, limit) for seed in seeds)
        return self.arm_of(name, tree, {job.seed: self.measure(job) for job in jobs})

    def sampled_arm(
        self,
        name: str,
        tree: HarnessTree,
        *,
        samples: Sequence[range],
        split: Split,
        limit: int,
    ) -> ArmRef:
        """One version on the base policy as it is, with these attempts at each task."""
        base = self.train(tree, seed=0, steps=0)
        evaluations = [
            self.evaluate(tree, base, split=split, limit=limit, samples=some) for some in samples
        ]
        return _arm_of_blocks(name, tree, evaluations)

    def side_by_side(
        self,
        trees: Mapping[str, HarnessTree],
        *,
        samples: int,
        extra: int,
        split: Split,
        limit: int,
        order: str,
    ) -> list[ArmRef]:
        """The same of several versions, their attempts made by turns, at `extra` tasks one more.

        A policy behind a server may change while it is asked: then it changes for all of them.
        """
        evaluations: dict[str, list[Evaluated]] = {name: [] for name in trees}
        for at, (some, part) in enumerate(self._turns(samples, extra, split, limit, order)):
            for name in list(trees)[:: -1 if at % 2 else 1]:
                base = self.train(trees[name], seed=0, steps=0)
                evaluations[name].append(
                    self.evaluate(
                        trees[name], base, split=split, limit=limit, samples=some, part=part
                    )
                )
        return [_arm_of_blocks(name, tree, evaluations[name]) for name, tree in trees.items()]

    def _turns(
        self, samples: int, extra: int, split: Split, limit: int, order: str
    ) -> Iterator[tuple[range, Part]]:
        """Passes over the tasks in blocks that are not small, the last one over some of them."""
        tasks = min(limit, len(self.domain.tasks(split)))
        size = max(SMALLEST_TURN, -(-(tasks * samples + extra) // TURNS))
        for sample, most in enumerate([*[tasks] * samples, extra]):
            for start in range(0, most, size):
                stop = min(most, start + size)
                yield range(sample, sample + 1), Part(order, range(start, stop))

    def arm_of(self, name: str, tree: HarnessTree, measured: Mapping[int, Evaluated]) -> ArmRef:
        """An arm from evaluations by training seed."""
        planned = max(evaluation.planned for evaluation in measured.values())
        shards = {seed: evaluation.shard for seed, evaluation in measured.items()}
        return ArmRef(name, planned, reward_hash(tree), shards)

    def rows(self, ref: ArmRef) -> Arm:
        """The outcome rows that an arm refers to."""
        return load_arm(self.store, ref)

    def trained(self, job: Job) -> bool:
        """Whether the training of a job is recorded: asking for its measurement costs little."""
        name = _train_name(job.tree, job.seed, job.steps)
        step = self.ledger.step(f"{self.settings.run}/train/{name}")
        return job.steps == 0 or (step is not None and step.is_done)

    def measured(self, job: Job) -> bool:
        """Whether all of a job is recorded: asking for it costs nothing."""
        if not self.trained(job):
            return False
        trained = self.train(job.tree, seed=job.seed, steps=job.steps)
        name = self._eval_name(job.tree, trained, job.split, job.limit, ONE_SAMPLE, None)
        step = self.ledger.step(f"{self.settings.run}/eval/{name}")
        return step is not None and step.is_done

    def unsampled(self, tree: HarnessTree, *, split: Split, limit: int) -> int:
        """How many attempts one at each task, untrained, would have to make: 0 if recorded."""
        base = self.train(tree, seed=0, steps=0)
        name = self._eval_name(tree, base, split, limit, ONE_SAMPLE, None)
        step = self.ledger.step(f"{self.settings.run}/eval/{name}")
        return 0 if step and step.is_done else len(self._tasks(split, limit, None))

    def order_of(self, split: Split, limit: int, salt: str) -> list[str]:
        """The keys of a split's tasks in the order in which parts of it are bought."""
        return task_order((task.key for task in self.domain.tasks(split)[:limit]), salt)

    def measure(self, job: Job) -> Evaluated:
        """Trains (where `steps` > 0), then evaluates."""
        trained = self.train(job.tree, seed=job.seed, steps=job.steps)
        return self.evaluate(job.tree, trained, split=job.split, limit=job.limit)

    def rollouts(self, shard: JSON) -> list[Rollout]:
        """The rollouts of a stored shard, which must be the very one that was recorded."""
        return load_shard(self.store, shard)

    def behind(self, shard: JSON) -> Trained | None:
        """The training whose policy made a recorded evaluation; None where none is recorded."""
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
        """The base policy as it is."""
        return Trained(self.settings.base_policy, self.settings.base_policy, seed, 0, None, [])

    def train(
        self,
        tree: HarnessTree,
        *,
        seed: int,
        steps: int,
        keep_every: int = 0,
        onto: Trained | None = None,
    ) -> Trained:
        """Trains a policy under a harness for `steps` optimiser steps: the base, or `onto`.

        With `keep_every`, checkpoints on the way are kept, too (`Trained.on_the_way`). Training
        that goes on from `onto` has a fresh optimiser and a fresh curriculum history.
        """
        if steps == 0:
            return onto or self.untrained(seed)
        start = onto or self.untrained(seed)
        name = _train_name(tree, seed, steps) + (f"-k{keep_every}" if keep_every else "")
        name += f"-on-{_short(start.policy)}" if onto else ""
        outcome = self._once(
            f"train/{name}",
            "train",
            {"behaviour": behaviour_hash(tree), "seed": seed, "steps": steps},
            lambda: self._train(name, tree, seed, steps, keep_every, start),
        )
        return Trained.from_json(outcome)

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
        """Rolls a policy out under a harness on the first `limit` tasks of a split.

        `samples` says which attempts at each task, `part` which of those tasks (None: all), `again`
        names a repetition, which is to give the same rows.
        """
        name = self._eval_name(tree, trained, split, limit, samples, part) + again
        outcome = self._once(
            f"eval/{name}",
            "eval",
            {"policy": trained.policy, "split": split, "limit": limit},
            lambda: self._evaluate(name, tree, trained, split, limit, samples, part),
        )
        return Evaluated(**outcome)

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
        """Ends what carries the measurements out."""
        self._executor.close()

    # --- inside --------------------------------------------------------------------------------

    def _run(self, job: Job) -> None:
        with suppress(CandidateError):
            self.measure(job)

    def _once(
        self, name: str, kind: Kind, intent: Mapping[str, object], work: Callable[[], JSON]
    ) -> JSON:
        """`Ledger.once`, where a harness that fails is an outcome; a drain takes effect here."""
        if self._stopping():
            raise Interrupted
        key = f"{self.settings.run}/{name}"
        outcome = self.ledger.once(key, kind, intent, lambda: or_refusal(work))
        if refused := outcome.get("refused"):
            raise CandidateError(refused["message"], reason=refused["reason"])
        return outcome

    def _train(
        self, name: str, tree: HarnessTree, seed: int, steps: int, keep_every: int, start: Trained
    ) -> JSON:
        pack, series = _pack_hash(tree), f"{self._label_of(tree)} seed {seed}, {steps} steps"
        unit = TrainUnit(name, pack, seed, steps, keep_every, start.path, start.policy, start.steps)
        outputs = self._outputs
        outcome = self._executor.run(
            unit, tree, outputs, lambda step, row: self._on_step(series, step, row)
        )
        checkpoints = [_placed(checkpoint, outputs.checkpoints) for checkpoint in outcome["kept"]]
        return {**_placed(outcome, outputs.checkpoints), "kept": checkpoints}

    def _evaluate(
        self,
        name: str,
        tree: HarnessTree,
        trained: Trained,
        split: Split,
        limit: int,
        samples: range = ONE_SAMPLE,
        part: Part | None = None,
    ) -> JSON:
        required = self._label_of(tree) if behaviour_hash(tree) in self._required else ""
        unit = EvalUnit(
            name=name,
            harness=_pack_hash(tree),
            seed=trained.seed,
            split=split,
            limit=limit,
            samples=samples,
            part=part,
            path=trained.path,
            policy=trained.policy,
            steps=trained.steps,
            required=required,
        )
        return self._executor.run(unit, tree, self._outputs, lambda *_: None)

    @property
    def _outputs(self) -> Outputs:
        return Outputs(self.settings.checkpoints / self.settings.run, self.store)

    def _plan(
        self, trained: Trained, split: Split, limit: int, samples: range, part: Part | None
    ) -> list[PlannedRollout]:
        return self._apparatus.plan(trained.seed, split, limit, samples, part)

    def _tasks(self, split: Split, limit: int, part: Part | None) -> Sequence[Task]:
        return tasks_of(self.domain, split, limit, part)

    def _label_of(self, tree: HarnessTree) -> str:
        return self._labels.get(behaviour_hash(tree), tree.commit[:10])


def _arm_of_blocks(name: str, tree: HarnessTree, evaluations: Sequence[Evaluated]) -> ArmRef:
    planned = sum(evaluation.planned for evaluation in evaluations)
    return ArmRef(
        name, planned, reward_hash(tree), {0: [evaluation.shard for evaluation in evaluations]}
    )


def _pack_hash(tree: HarnessTree) -> str:
    return hashlib.sha256(pack_of(tree)).hexdigest()


def _placed(outcome: JSON, checkpoints: Path) -> JSON:
    """With the whole path of weights, which an outcome names relative to the run's checkpoints."""
    return {**outcome, "path": str(checkpoints / outcome["path"])}


def _short(policy: str) -> str:
    return hashlib.sha256(policy.encode()).hexdigest()[:12]


def _train_name(tree: HarnessTree, seed: int, steps: int) -> str:
    return f"{behaviour_hash(tree)[:12]}-s{seed}-n{steps}"
