"""Compares two rewards over the same stored rollouts, and summarises the difference.

*Alignment* is the main number. In a group, of all pairs of a clean and an unclean rollout, it is
the share that the reward orders rightly minus the share that it orders wrongly (Goodman and
Kruskal's difference; a tie counts as neither). Groups are weighted as the filter weights them. A
group without such a pair adds only its weight, so dropping it concentrates the signal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import compress
from typing import Final, Literal, NamedTuple

from meta_agent.core.evidence import Mean
from meta_agent.core.protocols import JSON
from meta_agent.core.replay._lines import Slim
from meta_agent.core.replay._ranks import Ranks
from meta_agent.core.replay._side import DEAD_STD, Seen, Side, share, std
from meta_agent.core.replay.probes import ProbeResult

ALIGNMENT_MOVE: Final = 0.02
VIOLATION_MOVE: Final = 0.01
PROBE_BEATEN: Final = 0.25
"""The share of bad attempts that outscore clean ones by some trick from which it is reported."""
LIMIT_OF_VALIDITY: Final = (
    "A replay orders behaviour that was seen; it cannot predict what a policy trained on the "
    "change will do. The attempts are those of the policy that made them: under another reward a "
    "policy moves elsewhere, so this is counterfactual for the scoring, not for the behaviour."
)
_DISTINCT_VALUES: Final = 1000

Reading = Literal["improves", "harms", "neutral"]


@dataclass(slots=True)
class GroupRow:
    """One group of rollouts: total rewards before and after a change, and the true outcomes."""

    task_key: str
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    truth: Seen = field(default_factory=lambda: Seen([], []))

    def add(self, before: float, after: float, record: Slim) -> None:
        self.before.append(before)
        self.after.append(after)
        self.truth.outcomes.append(record.outcome)
        self.truth.clean.append(record.clean)

    def view(self, rewards: Sequence[float]) -> dict[str, JSON]:
        """Returns the group as a harness's filter receives it, with `rewards` as totals."""
        return {
            "task_key": self.task_key,
            "rewards": list(rewards),
            "outcomes": self.truth.outcomes,
        }


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The comparison of two harnesses over the same stored rollouts.

    `before` and `after` hold the figures of each harness by name.
    """

    rollouts: int
    skipped: int  # ended by an error: training would not have scored them
    groups: int
    before: Mapping[str, float | None]
    after: Mapping[str, float | None]
    revived: int  # dead groups that come to life
    revived_mixed: int  # of these, groups in which the truth differs
    killed: int
    rank_changes: float  # share of within-group pairs whose order changed
    kendall: float | None  # tau-b over within-group pairs; None where either side is all ties
    spearman: float | None  # mean of the groups' rank correlations
    constant_offset: float | None  # set where all totals moved by the same amount
    constant_components: tuple[str, ...]  # of the candidate: at least 99 % one value
    reading: Reading
    reasons: tuple[str, ...]
    probes: tuple[ProbeResult, ...] = ()
    limit: str = LIMIT_OF_VALIDITY

    @property
    def hackable(self) -> tuple[ProbeResult, ...]:
        """Returns the tricks by which bad attempts outscore clean ones far oftener than before."""
        return tuple(
            result
            for result in self.probes
            if result.after - result.before >= PROBE_BEATEN and result.tried > 1
        )

    def brief(self) -> dict[str, JSON]:
        """Returns the report as JSON, without the tricks by which bad attempts outscore none."""
        beating_results = [
            result.to_json() for result in self.probes if result.beats_before or result.beats_after
        ]
        return {**self.to_json(), "probes": beating_results, "probes_tried": len(self.probes)}

    def to_json(self) -> dict[str, JSON]:
        lists = {"reasons": list(self.reasons), "constant_components": [*self.constant_components]}
        return {**asdict(self), **lists, "probes": [result.to_json() for result in self.probes]}


class Scores(NamedTuple):
    """The rewards of some rollouts under one harness: totals, and components by name (`parts`).

    `clean` says which of the rollouts were solved without flags.
    """

    totals: Sequence[float]
    clean: Sequence[bool]
    parts: Sequence[Mapping[str, float]]
    weights: Mapping[str, float]

    @property
    def penalised(self) -> int:
        """Returns how many clean rollouts get a negative reward from at least one component."""
        return sum(map(self._penalises, compress(self.parts, self.clean)))

    def _penalises(self, part: Mapping[str, float]) -> bool:
        weight = self.weights.get
        return any(value * weight(name, 1.0) < -1e-9 for name, value in part.items())


@dataclass(slots=True)
class Comparison:
    """Accumulates the comparison of two reward functions on rollouts, in constant memory."""

    before: Side = field(default_factory=Side)
    after: Side = field(default_factory=Side)
    moved: Mean = field(default_factory=Mean)
    components: dict[str, Counter[float]] = field(default_factory=dict)
    rollouts: int = 0
    skipped: int = 0
    groups: int = 0
    revived: int = 0
    revived_mixed: int = 0
    killed: int = 0
    ranks: Ranks = field(default_factory=Ranks)

    def add_chunk(self, before: Scores, after: Scores) -> None:
        """Adds the rewards of some rollouts by both harnesses, in the same order."""
        self.rollouts += len(before.clean)
        for side, scores in ((self.before, before), (self.after, after)):
            side.truth.add(scores.totals, scores.clean)
            side.good_penalised += scores.penalised
        for old, new in zip(before.totals, after.totals, strict=True):
            self.moved.add(new - old)
        for name in sorted({name for row in after.parts for name in row}):
            values = self.components.setdefault(name, Counter())
            if len(values) < _DISTINCT_VALUES:
                values.update(row[name] for row in after.parts if name in row)

    def add_group(self, group: GroupRow, weight_before: float, weight_after: float) -> None:
        """Adds one group of rollouts, with the weights that the two harnesses' filters give it."""
        self.groups += 1
        self.before.add(group.before, group.truth, weight_before)
        self.after.add(group.after, group.truth, weight_after)
        was, now = std(group.before) < DEAD_STD, std(group.after) < DEAD_STD
        self.revived += was and not now
        self.revived_mixed += was and not now and len(set(group.truth.clean)) == 2
        self.killed += now and not was
        self.ranks.add(group.before, group.after)

    def report(self, probes: tuple[ProbeResult, ...] = ()) -> ReplayReport:
        """Returns the report on all rollouts and groups that were added so far."""
        reading, reasons = self._read()
        return ReplayReport(
            rollouts=self.rollouts,
            skipped=self.skipped,
            groups=self.groups,
            before=self.before.to_json(self.groups),
            after=self.after.to_json(self.groups),
            revived=self.revived,
            revived_mixed=self.revived_mixed,
            killed=self.killed,
            rank_changes=self.ranks.changes,
            kendall=self.ranks.kendall,
            spearman=self.ranks.spearman,
            constant_offset=self._offset(),
            constant_components=self._constant(),
            reading=reading,
            reasons=(*reasons, *_sentences_about(probes)),
            probes=probes,
        )

    def _offset(self) -> float | None:
        same = self.rollouts > 1 and self.moved.std < 1e-9 * max(1.0, abs(self.moved.mean))
        return self.moved.mean if same and abs(self.moved.mean) > 1e-9 else None

    def _constant(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, values in sorted(self.components.items())
            if max(values.values()) >= 0.99 * self.rollouts
        )

    def _read(self) -> tuple[Reading, tuple[str, ...]]:
        if not self.groups:
            return "neutral", ("no group of two or more: a replay has nothing to compare",)
        gain = self.after.alignment - self.before.alignment
        wrong = self._violations(self.after) - self._violations(self.before)
        aligned = f"{self.before.alignment:.3f} -> {self.after.alignment:.3f}"
        reasons = (
            f"alignment with clean success {aligned}",
            f"ordering violations {self._violations(self.before):.1%} -> "
            f"{self._violations(self.after):.1%}",
            f"dead groups {self.before.dead} -> {self.after.dead} of {self.groups}",
        )
        if gain <= -ALIGNMENT_MOVE or wrong >= VIOLATION_MOVE:
            return "harms", reasons
        return ("improves" if gain >= ALIGNMENT_MOVE else "neutral"), reasons

    @staticmethod
    def _violations(side: Side) -> float:
        return share(side.violations, side.pairs)


def _sentences_about(probes: Sequence[ProbeResult]) -> tuple[str, ...]:
    beaten = [result for result in probes if result.after >= PROBE_BEATEN and result.tried > 1]
    return tuple(
        f"bad attempts beat clean ones: {result.name} {result.beats_after} of {result.tried}"
        f" (before {result.beats_before})"
        for result in beaten
    )
