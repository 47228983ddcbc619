"""Checks whether a comparison of two stored arms is valid, for the loop and for `verify` alike.

An arm is one side of a comparison. What a verdict's validity rests on must be the same whoever
computes it. So the checks are called only here; `gate/validity/checks.py` lists them. Records
are streamed from their files, each file once however often its arm is compared.

The domain grades at most `regrade_at_most` stored attempts of an arm again, each answer once.

Not covered: findings from before anything was measured (static and contract checks).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.errors import InfrastructureError
from meta_agent.core.gate import Arm, Context, Finding, Labels, Side, find_all, near_overlap
from meta_agent.core.lab.arms import ArmRef, iter_shard, load_arm, parts_of
from meta_agent.core.lab.regrading import DRAWN, Grade, Records, merged, records_of, regraded
from meta_agent.core.parsing.strict import leaves
from meta_agent.core.protocols import JSON, SPLITS, Domain, Outcome, Task
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.slices import slices_of
from meta_agent.core.task_splits import Halves

Sides = tuple[Arm, Arm]


def findings_about(
    arms: Sides,
    records: tuple[Records, Records],
    context: Context = Context(),  # noqa: B008 - frozen
    *,
    grade: Grade | None = None,
    at_most: int = DRAWN,
) -> tuple[Finding, ...]:
    """Returns what every validity check finds in a comparison of (baseline, candidate).

    `arms` are the outcome rows and `records` the summaries of the rollouts. `grade` grades a stored
    attempt again: `at_most` so many of the candidate and, if it does not confirm them all, of the
    baseline.
    """
    after = regraded(records[1], grade, at_most)
    doubted = any(not attempt.confirmed for attempt in after)
    before = regraded(records[0], grade, at_most) if doubted else ()
    return find_all(
        Side(arms[0], records[0].looks, before), Side(arms[1], records[1].looks, after), context
    )


class Inspector:
    """Runs the validity detectors on stored arms. An arm is one side of a comparison."""

    def __init__(
        self,
        store: RolloutStore,
        domain: Domain,
        imitated: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """`imitated` returns the content hashes of the tasks that a warm-up imitates."""
        self._store, self._domain = store, domain
        self._imitated = imitated
        self._records: dict[str, Records] = {}
        self._again: dict[tuple[str, str], Outcome] = {}
        self._at_most = Capabilities.of(domain).regrade_at_most or DRAWN

    def between(
        self, refs: tuple[ArmRef, ArmRef], arms: Sides | None = None
    ) -> tuple[Finding, ...]:
        """Returns the validity findings about two stored arms (baseline, candidate).

        `arms` holds their outcome rows, if loaded already.
        """
        before, after = arms or (load_arm(self._store, ref) for ref in refs)
        return findings_about(
            (before, after),
            (self._records_of(refs[0]), self._records_of(refs[1])),
            Context(self._trained, self._overlap, self._labels),
            grade=self._grade,
            at_most=self._at_most,
        )

    def handed_over(
        self, refs: tuple[ArmRef, ArmRef], arms: Sides | None = None
    ) -> tuple[Finding, ...]:
        """Returns the findings of `between`, and vetoes on the candidate that `between` excuses.

        It excuses faults that the baseline has as well. `refs` and `arms` are as in `between`.
        """
        findings = self.between(refs, arms)
        codes = {finding.code for finding in findings if finding.side != "baseline"}
        vetoes = (veto for veto in self.within(refs[1]) if veto.severity == "veto")
        return (*findings, *(veto for veto in vetoes if veto.code not in codes))

    def within(self, ref: ArmRef) -> tuple[Finding, ...]:
        """Returns the validity findings about one arm (side of a comparison) by itself."""
        records = self._records_of(ref)
        again = regraded(records, self._grade, self._at_most)
        side = Side(load_arm(self._store, ref), records.looks, again)
        return find_all(None, side, Context(self._trained, self._overlap))

    def _records_of(self, ref: ArmRef) -> Records:
        parts = (part for seed in sorted(ref.shards) for part in parts_of(ref.shards[seed]))
        return merged([self._part(part) for part in parts])

    def _part(self, part: JSON) -> Records:
        if part["sha256"] not in self._records:
            self._records[part["sha256"]] = records_of(iter_shard(self._store, part), self._views)
        return self._records[part["sha256"]]

    def _grade(self, key: str, inputs: Mapping[str, JSON]) -> Outcome | None:
        """Grades a stored attempt again. Returns None if the machine failed, which says nothing."""
        submission = key, json.dumps(inputs, sort_keys=True, default=str)
        if submission not in self._again:
            try:
                self._again[submission] = self._domain.regrade(key, inputs)
            except InfrastructureError:
                return None
        return self._again[submission]

    @cached_property
    def _views(self) -> dict[str, str]:
        tasks = (task for split in SPLITS for task in self._domain.tasks(split))
        return {task.key: text_of(task) for task in tasks}

    @property
    def _trained(self) -> frozenset[str]:
        return self._train_tasks | self._imitated()

    @cached_property
    def _train_tasks(self) -> frozenset[str]:
        if isinstance(self._domain, Halves):
            return frozenset()  # nothing trains, so its train tasks are searched on
        return frozenset(task.content_hash for task in self._domain.tasks("train"))

    @cached_property
    def _labels(self) -> Labels:
        """Returns the labels of the confirm tasks. Arms on another split have no slices."""
        return dict(slices_of(self._domain, "confirm"))

    @cached_property
    def _overlap(self) -> list[Finding]:
        """Returns findings on texts that occur in training and evaluation tasks of the domain."""
        if isinstance(self._domain, Halves):
            return []
        tasks = [task for split in SPLITS if split != "train" for task in self._domain.tasks(split)]
        texts = {task.key: text_of(task) for task in tasks}
        return near_overlap(map(text_of, self._domain.tasks("train")), texts)


def text_of(task: Task) -> str:
    """Returns all text of a task that an agent reads, except the descriptions of its tools."""
    fields = {name: value for name, value in task.view.items() if name not in ("tools", "schemas")}
    return "\n".join(leaf for leaf in leaves(fields) if isinstance(leaf, str))
