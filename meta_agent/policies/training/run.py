"""The training loop on the host, which answers the trainer's rollout events.

A rollout event is the trainer's request for rollouts. Each event becomes tasks (the harness's
curriculum), rollouts (the runner, under the weights of that moment), rewards and group weights (the
harness), and token rows that go back to the trainer.
Promises: everything that is random is keyed by (seed, step, task, sample), so a run can be
repeated; both arms of a comparison walk the same shuffled task list. The curriculum is asked at
every event, with the tries and true outcomes so far; the first `groups_per_step` keys are trained
on, and it starts over if there are fewer. It is asked again for prompts that replace groups which
the filter drops, if the recipe has a `refill_factor`. A rollout that infrastructure spoiled has no
reward and leaves its group's baseline; one whose agent raised is scored like any other.
A killed training resumes from its last seal, which is its saved state (`seals`), if it makes seals.
A training that has to stop makes its last seal at once. Complete rollouts that were made ahead
(`overlap`) are sealed. Unfinished ones are dropped and repeated on resume, under their own weights
if those still exist, else under newer ones.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from meta_agent.core.errors import CandidateError, Interrupted
from meta_agent.core.harness import CommandSession, Teaches
from meta_agent.core.lab.training import (
    RollsOut,
    TrainResult,
    kept_folder,
    require_begun,
    settings_of,
)
from meta_agent.core.protocols import JSON, Checkpoint, Domain, PlannedRollout, Rollout, Task
from meta_agent.core.slices import listed
from meta_agent.policies.training._wire import (
    Advantages,
    RolloutEvent,
    Row,
    StepMetrics,
    TrainJob,
    published_folder,
    warm_folder,
)
from meta_agent.policies.training.checkpoint import open_checkpoint
from meta_agent.policies.training.events.groups import (
    Batch,
    History,
    group_facts,
    host_values,
    in_groups,
    is_spoiled,
    with_outcomes,
)
from meta_agent.policies.training.events.overlap import Begun, Overlap, Publisher
from meta_agent.policies.training.events.planned import plan_of, training_tasks
from meta_agent.policies.training.policy import PolicyChild
from meta_agent.policies.training.seals import Sealed, Seals
from meta_agent.policies.training.warmup import warmed_up

_log = logging.getLogger(__name__)
MIN_EXACT = 0.95
"""The smallest share of sampled tokens that rows must hold to be trained on."""


def never() -> bool:
    """Returns False: the default of `stopping`, by which a training is never asked to stop."""
    return False


def train_policy(
    child: PolicyChild,
    runner: RollsOut,
    session: Teaches,
    domain: Domain,
    recipe: Any,
    *,
    seed: int,
    steps: int,
    base_policy: str | Path,
    out_dir: Path,
    keep_steps: int = 0,
    keep_every: int = 0,
    seal_every: int = 0,
    min_exact: float = 0.0,
    warmup: Sequence[Rollout] = (),
    history: History = MappingProxyType({}),
    on_metrics: Callable[[dict[str, JSON]], None] | None = None,
    stopping: Callable[[], bool] = never,
    publisher: Publisher | None = None,
) -> TrainResult:
    """Trains `base_policy` for `steps` optimiser steps and writes the checkpoint to `out_dir`.

    It resumes from the saved state (seal) of an earlier, killed call of the same training. It
    removes the seals of any other training.

    Args:
        child: the policy child; left with the trained policy loaded.
        runner: makes rollouts through `child`, or through what `publisher` publishes to.
        session: the harness that decides rewards, groups and tasks.
        recipe: the harness's training settings, as an object or as a mapping.
        keep_steps: how many of the first and of the last rollout events keep their rollouts.
        keep_every: steps between intermediate checkpoints, kept beside `out_dir`; 0: none.
        seal_every: steps between seals from which a killed training resumes; 0: none.
        min_exact: the least share of the sampled tokens to train on, else CandidateError is raised.
        warmup: rollouts that the recipe's first `sft_steps` steps imitate; empty: only GRPO steps.
        history: tries and solutions of tasks before this training, for the curriculum.
        on_metrics: gets the metrics of each step as they are measured.
        stopping: once it returns True, a training with seals finishes its step, drops unfinished
            rollouts, makes a seal and raises Interrupted.
        publisher: hands weights to the runner's gateway if that is not `child`. Then the settings
            of `child` say whether rollouts are made ahead.
    """
    settings = settings_of(recipe)
    heeded = stopping if seal_every else never
    warm_steps = int(settings.get("sft_steps", 0)) if warmup else 0
    if warm_steps:
        steps -= warm_steps
        job = TrainJob(settings, warm_steps, seed, warm_folder(out_dir))
        base_policy = warmed_up(child, base_policy, job, warmup, steps, heeded)
    base = child.load(base_policy)
    job = TrainJob(settings, steps, seed, Path(out_dir), keep_every, seal_every)
    held = dataclasses.asdict(child.settings)
    facts = {"base": base, "recipe": settings, "steps": steps, "seed": seed, "settings": held}
    facts |= {"history": with_outcomes(history, ())}
    seals = Seals(job, facts)
    sealed = seals.newest()
    job = dataclasses.replace(job, after=sealed.step if sealed else 0)
    _make_way(job)
    each = int(settings.get("num_iterations", 1))
    overlap = Overlap(publisher, child.settings.max_staleness, each, steps)
    loop = _Loop(
        runner, session, domain, settings, seed, keep_steps, on_metrics, min_exact, heeded, overlap,
        history,
    )  # fmt: skip
    session.start_filter()
    if sealed is not None:
        _log.warning("training continues after step %d of %d", sealed.step, steps)
        loop.restore(sealed)

    lies_at = job.after  # the step whose seal lies there

    def seal(step: int, requested: bool) -> None:
        nonlocal lies_at
        due = job.seals_at(step)
        if step and step != lies_at and (due or requested):
            if not due:
                child.seal()
            seals.write(step, *loop.state())
            lies_at = step

    def provide(event: RolloutEvent) -> list[Row]:
        try:
            return loop.provide(event, partial(seal, event.step))
        except Interrupted as error:
            raise Interrupted(
                f"training stopped as requested; it is saved as of step {event.step} of {steps}"
            ) from error

    try:
        checkpoint = child.train(job, provide, loop.on_metrics, loop.on_advantages)
    except CandidateError:
        seals.clear()  # nobody trains it again
        shutil.rmtree(warm_folder(job.output), ignore_errors=True)
        raise
    finally:
        overlap.end()
    seals.clear()
    for folder in (published_folder(job.output), warm_folder(job.output)):
        shutil.rmtree(folder, ignore_errors=True)
    checkpoints = tuple(_kept_checkpoints(job, warm_steps))
    return TrainResult(
        checkpoint, loop.metrics, loop.remembered(), loop.rollouts_made, checkpoints, loop.history
    )


def _make_way(job: TrainJob) -> None:
    """Removes the files of a killed call that this call will write again."""
    if not job.after:
        shutil.rmtree(published_folder(job.output), ignore_errors=True)
    checkpoints = kept_folder(job.output)
    for path in checkpoints.iterdir() if checkpoints.is_dir() else ():
        if not (path.name.isdecimal() and 0 < int(path.name) <= job.after):
            shutil.rmtree(path, ignore_errors=True)


def _kept_checkpoints(job: TrainJob, before: int) -> Iterator[Checkpoint]:
    """Yields the checkpoints of earlier steps, each read again and whole.

    Their steps count the `before` steps of the warm-up too.
    """
    for steps in range(job.keep_every, job.steps, job.keep_every) if job.keep_every else ():
        checkpoint = open_checkpoint(job.kept_at(steps), alone=True)
        yield Checkpoint(checkpoint.path, checkpoint.policy, before + steps, job.seed)


class _Loop:
    """Answers rollout events and collects what the run will report."""

    _STATE = (*("history", "_in_rows", "_lost", "_filter_state"), *("metrics", "rollouts_made"))

    def __init__(
        self,
        runner: RollsOut,
        session: Teaches,
        domain: Domain,
        settings: Mapping[str, JSON],
        seed: int,
        keep_steps: int,
        on_metrics: Callable[[dict[str, JSON]], None] | None,
        min_exact: float = 0.0,
        stopping: Callable[[], bool] = never,
        overlap: Overlap | None = None,
        history: History = MappingProxyType({}),
    ) -> None:
        self._runner, self._session = runner, session
        self._overlap = overlap or Overlap()
        self._begun: Begun | None = None  # ahead of their event, or gathered
        self._batch: Batch | None = None  # of the event that is answered
        self._dropped_of: int | None = None  # the version of what was under way at a stop
        self._settings, self._seed = settings, seed
        self._tasks = training_tasks(domain, seed)
        self._listed = listed(domain, self._tasks.values())
        self.history = with_outcomes(history, ())
        self._first: list[list[Rollout]] = []
        self._last: deque[list[Rollout]] = deque(maxlen=keep_steps)
        self._keep = keep_steps
        self._latest: list[Rollout] = []
        self._host_values: dict[str, float] = {}
        self._report = on_metrics
        self._min_exact, self._stopping = min_exact, stopping
        self._in_rows = self._lost = 0  # sampled tokens so far
        self._filter_state: JSON = None
        self.metrics: list[dict[str, JSON]] = []
        self.rollouts_made = 0

    def provide(
        self, event: RolloutEvent, seal: Callable[[bool], None] = lambda requested: None
    ) -> list[Row]:
        """Makes the rollouts that the trainer asks for, and returns them as rows to train on.

        `seal` is called at moments when the states of loop and child agree. Its argument says
        whether the user asked for a stop.
        """
        if self._begun is None:
            seal(False)
        try:
            self._gather(event)
            self._heed()  # then they are sealed, and not made again
        except Interrupted:
            seal(True)
            raise
        finally:
            seal(False)
        return self._hand_over(event)

    def _gather(self, event: RolloutEvent) -> None:
        """Waits for an event's rollouts, which began with the event before or begin now."""
        if self._batch is not None:
            return
        self._heed()
        begun = self._begun or self._begin(event)
        batch = begun.result()
        self._require_exact(batch.rollouts)
        self._begun, self._batch = begun, batch

    def _hand_over(self, event: RolloutEvent) -> list[Row]:
        begun, batch = self._begun, self._batch
        assert begun is not None and batch is not None
        self._begun = self._batch = self._dropped_of = None
        ages = self._overlap.ages(batch.rollouts, begun.version, event)
        trained = batch.trained(event.groups, event.group_size)
        self._remember(batch, event)
        self._latest = [rollout for group, _ in trained for rollout in group]
        self._host_values |= ages.metrics
        rows = [
            Row(None, weight=weight)
            if ages.stale(rollout)
            else Row(_reward(rollout), rollout.tokens, weight)
            for group, weight in trained
            for rollout in group
        ]
        self._begin_ahead(event)
        return rows

    def _begin(self, event: RolloutEvent) -> Begun:
        """Starts the event's rollouts under the current weights, or those of dropped rollouts."""
        version = self._overlap.serve(event.step, instead=self._dropped_of)
        self._overlap.require_young(version, event)
        return Begun(version, self._work(event, version))

    def _begin_ahead(self, event: RolloutEvent) -> None:
        later = self._overlap.next_after(event)
        if later is None:
            return
        version = self._overlap.serve(event.step)
        if self._overlap.young(version, later):
            self._begun = Begun(version, self._overlap.begin(self._work(later, version)))

    def _work(self, event: RolloutEvent, version: int) -> Callable[[], Batch]:
        """Returns a function that makes an event's rollouts; asks the harness for tasks at once."""
        return partial(self._make, event, version, self._choose(event.groups, self.history))

    def _make(self, event: RolloutEvent, version: int, tasks: list[Task]) -> Batch:
        """Makes an event's rollouts. Further prompts replace groups that the filter drops."""
        most = int(event.groups * self._settings.get("refill_factor", 1))
        rollouts: list[Rollout] = []
        weights: list[float] = []
        while True:
            plan = plan_of(tasks, event, self._seed)[len(rollouts) :]
            rollouts += (added := self._roll_out(plan, rollouts))
            stale = self._overlap.ages(added, version, event).stale
            fresh = [
                [member for member in group if not stale(member)]
                for group in in_groups(added, event.group_size)
            ]
            weights += self._weigh(fresh)
            lacking = event.groups - sum(weight > 0 for weight in weights)
            lacking = min(lacking, most - len(tasks))
            if lacking <= 0:
                return Batch(rollouts, weights, self._session.filter_state())
            history = with_outcomes(self.history, rollouts)
            tasks = [*tasks, *self._choose(lacking, history, tasks)]

    def _roll_out(
        self, plan: Sequence[PlannedRollout], earlier: Sequence[Rollout]
    ) -> list[Rollout]:
        """Makes and scores planned rollouts of an event, after the `earlier` ones of it."""
        rollouts = self._runner.run(
            plan,
            temperature=self._settings.get("temperature", 1.0),
            top_p=self._settings.get("top_p", 1.0),
            stopping=self._stopped,
        )
        self._heed()  # a signal to the whole job may have spoiled them
        self._overlap.require_heard([*earlier, *rollouts])
        require_begun([*earlier, *rollouts])
        self._score(rollouts)
        return rollouts

    def on_metrics(self, measured: StepMetrics) -> None:
        """Records and reports a step's metrics, with the shares of how its rollouts ended."""
        row: dict[str, JSON] = {"step": measured.step, **measured.values, **self._host_values}
        share = self._share_in_rows()
        # Recorded replies quote lines of the metrics, so a share that is always 1 adds no column.
        if share < 1 or isinstance(self._session, CommandSession):
            row["tokens_in_rows"] = share
        self._host_values = {}
        self.metrics.append(row)
        if self._report is not None:
            self._report(row)

    def on_advantages(self, advantages: Advantages) -> None:
        """Writes the advantages into the rollouts' records."""
        for rollout, value in zip(self._latest, advantages.values, strict=True):
            rollout.advantage = value

    def state(self) -> tuple[dict[str, JSON], list[Rollout]]:
        """Returns the loop's state as JSON, and the rollouts that it holds, to be sealed."""
        state = {name: getattr(self, name) for name in self._STATE}
        state["events"] = [len(event) for event in (*self._first, *self._last)]
        state["versions"] = self._overlap.versions
        state["begun"] = self._begun.version if self._begun else self._dropped_of
        state["batch"] = self._batch.to_json() if self._batch else None
        return state, [*self.remembered(), *(self._batch.rollouts if self._batch else ())]

    def restore(self, sealed: Sealed) -> None:
        """Restores on a fresh loop what `state` returned before it was sealed."""
        rollouts = iter(sealed.rollouts)
        events = [list(islice(rollouts, count)) for count in sealed.state["events"]]
        for name in self._STATE:
            setattr(self, name, sealed.state.get(name))  # older seals have no state of a filter
        self._session.start_filter(self._filter_state)
        self._first = events[: self._keep]
        self._last.extend(events[self._keep :])
        self._overlap.versions.update(sealed.state["versions"])
        begun = sealed.state["begun"]
        if facts := sealed.state.get("batch"):  # older seals do not say how they were weighted
            self._batch = batch = Batch(list(rollouts), **facts)
            self._begun = Begun(begun, lambda: batch)
        else:
            self._dropped_of = begun
        if self._report is not None:
            for row in self.metrics:
                self._report(row)

    def remembered(self) -> list[Rollout]:
        """Returns the rollouts of the first and the last rollout events, oldest first."""
        return [rollout for event in (*self._first, *self._last) for rollout in event]

    def _stopped(self) -> bool:
        return self._overlap.ended or self._stopping()

    def _heed(self) -> None:
        if self._stopped():
            raise Interrupted

    def _choose(self, count: int, history: History, used: Sequence[Task] = ()) -> list[Task]:
        """Returns the curriculum's next tasks: those not `used` in this event, if there are any."""
        keys = self._session.order(self._listed, history)
        taken = {task.key for task in used}
        keys = [key for key in keys if key not in taken] or keys
        return [self._tasks[keys[index % len(keys)]] for index in range(count)]

    def _require_exact(self, rollouts: Sequence[Rollout]) -> None:
        """Raises CandidateError if too small a share of the sampled tokens is trained on."""
        rows = [rollout.tokens for rollout in rollouts if rollout.tokens is not None]
        self._in_rows += sum(sum(row.mask) for row in rows)
        self._lost += sum(row.lost for row in rows)
        share = self._share_in_rows()
        if share < self._min_exact:
            raise CandidateError(
                f"only {share:.1%} of the sampled tokens can be trained on, and at least "
                f"{self._min_exact:.0%} must be: the scaffold changes earlier messages",
                reason="inexact_rows",
                hint="let each call begin with the messages of the call before and its reply",
            )

    def _share_in_rows(self) -> float:
        """Returns the share of the sampled tokens so far that is trained on."""
        sampled = self._in_rows + self._lost
        return self._in_rows / sampled if sampled else 1.0

    def _score(self, rollouts: Sequence[Rollout]) -> None:
        scored = [rollout for rollout in rollouts if not is_spoiled(rollout)]
        for rollout, rewards in zip(scored, self._session.reward(scored), strict=True):
            rollout.rewards, rollout.weights = rewards, dict(self._session.weights)

    def _remember(self, batch: Batch, event: RolloutEvent) -> None:
        rollouts, planned = batch.rollouts, event.groups * event.group_size
        if len(self._first) < self._keep:
            self._first.append(rollouts)
        else:
            self._last.append(rollouts)
        self.rollouts_made += len(rollouts)
        self._host_values = host_values(rollouts)
        if "refill_factor" in self._settings:
            self._host_values["refilled_ratio"] = len(rollouts) / planned - 1
        self.history = with_outcomes(self.history, rollouts)
        self._filter_state = batch.filter_state

    def _weigh(self, groups: Sequence[Sequence[Rollout]]) -> list[float]:
        """Returns the weights of the harness's filter; a group without scores has weight 1."""
        scored = [[rollout for rollout in group if not is_spoiled(rollout)] for group in groups]
        described = [group_facts(group) for group in scored if group]
        weights = iter(self._session.keep(described) if described else [])
        return [next(weights) if group else 1.0 for group in scored]


def _reward(rollout: Rollout) -> float | None:
    return None if is_spoiled(rollout) else rollout.total_reward
