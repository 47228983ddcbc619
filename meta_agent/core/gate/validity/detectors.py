"""The table of all validity detectors: what each looks for, its codes, and its function.

Every comparison goes through the table, in this order. Benchmarks count by it what each detector
found and what it reported by mistake. `codes` are those of the findings that a detector makes; a
code that ends in a dot is a prefix. A detector without a function relies on another's function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from meta_agent.core.gate._records import Arm, ArmSide, Finding
from meta_agent.core.gate.validity._answers import conduct
from meta_agent.core.gate.validity._artefacts import not_finite, unfinished, unheard
from meta_agent.core.gate.validity._conduct import LEAK_PREFIXES, TAMPER_PREFIXES, flagged
from meta_agent.core.gate.validity._length import length_gaming
from meta_agent.core.gate.validity._limits import ValidityLimits
from meta_agent.core.gate.validity._looks import Seen, to_regrade
from meta_agent.core.gate.validity._measurement import (
    comparable,
    denominator,
    overlap,
    unbalanced_infra,
    void_infra,
)
from meta_agent.core.gate.validity._repeats import Regrade, disagreeing, two_answers, unrepeatable
from meta_agent.core.gate.validity._reward import (
    artefacts,
    constant_offset,
    divergence,
    one_sided_cuts,
)


class ArmInput(NamedTuple):
    """The input of a check of one arm (side of a comparison). `beside` is its baseline, or None."""

    arm: Arm
    limits: ValidityLimits
    side: ArmSide
    beside: Arm | None
    train_hashes: Collection[str]


class RecordsInput(NamedTuple):
    """The input of a check of rollout records: summaries of one side and of its baseline.

    `regrade` grades a stored attempt again, for at most `regrade_at_most` attempts.
    """

    records: Seen
    baseline: Seen
    limits: ValidityLimits
    side: ArmSide
    regrade: Regrade | None
    regrade_at_most: int


Arms = Callable[[Arm, Arm, ValidityLimits], Iterable[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """A check for one kind of invalid score: the codes of its findings, and its functions."""

    name: str
    codes: tuple[str, ...]
    looks_for: str
    first: Arms | None = None
    """Checks rows of both arms before all others: whether they can be compared."""
    in_arm: Callable[[ArmInput], Iterable[Finding]] | None = None
    """Checks the rows of one arm. It is called for both arms."""
    between: Arms | None = None
    """Checks the rows of both arms together."""
    wider: Arms | None = None
    """Checks the rows of both arms for signs that may also have good reasons."""
    in_looks: Callable[[RecordsInput], Iterable[Finding]] | None = None
    """Checks the summaries of one arm's records: digests and counts, never their text."""

    def makes(self, code: str) -> bool:
        """Returns True if `code`, such as `artefact.clock`, is the code of one of its findings."""
        return any(
            code == prefix or (prefix[-1] == "." and code.startswith(prefix))
            for prefix in self.codes
        )


def _flagged(of: ArmInput, code: str, prefixes: tuple[str, ...]) -> list[Finding]:
    limit = of.limits.tamper_share if code == "tamper" else of.limits.leak_share
    return flagged(code, prefixes, limit, of.arm, of.beside, of.side)


def _graded_otherwise(of: RecordsInput) -> list[Finding]:
    if of.regrade is None:
        return []
    stored, before = (
        to_regrade(records, of.regrade_at_most) for records in (of.records, of.baseline)
    )
    return disagreeing(stored, before, of.regrade, of.side)


DETECTORS: Final[tuple[Detector, ...]] = (
    Detector(
        name="evaluator mismatch",
        codes=("incomparable.evaluator",),
        looks_for="arms measured by two graders",
        first=lambda before, after, _: comparable(before, after),
    ),
    Detector(
        name="answer leakage",
        codes=("conduct.leak",),
        looks_for="solutions flagged as read from a leak",
        in_arm=lambda of: _flagged(of, "leak", LEAK_PREFIXES),
    ),
    Detector(
        name="tampering",
        codes=("conduct.tamper",),
        looks_for="attempts on tests, their runner or the report",
        in_arm=lambda of: _flagged(of, "tamper", TAMPER_PREFIXES),
    ),
    Detector(
        name="length gaming",
        codes=("reward.length_gaming",),
        looks_for="attempts that changed in length because length is paid",
        wider=length_gaming,
    ),
    Detector(
        name="broken format",
        codes=("artefact.unfinished", "artefact.unheard"),
        looks_for="attempts newly never submitted, replies newly not understood",
        wider=unfinished,
        in_looks=lambda of: unheard(of.baseline.looks, of.records.looks, of.limits),
    ),
    Detector(
        name="copied answers",
        codes=("conduct.copied_answer",),
        looks_for="submitted lines that the record shows before the agent wrote them",
        in_looks=lambda of: conduct(of.records.looks, of.baseline.looks, of.limits, of.side),
    ),
    Detector(
        name="forgery",
        codes=("conduct.forgery",),
        looks_for="submissions that end the process well or write the report",
    ),
    Detector(
        name="always-equal objects",
        codes=("conduct.always_equal",),
        looks_for="submitted classes that equal everything",
    ),
    Detector(
        name="special-casing",
        codes=("conduct.special_case",),
        looks_for="submissions that know the shown examples by heart",
    ),
    Detector(
        name="flaky grader",
        codes=("grader.flaky",),
        looks_for="one submission graded both ways",
        in_looks=lambda of: two_answers(of.records.looks, of.baseline.looks, of.side),
    ),
    Detector(
        name="unrepeatable reward",
        codes=("reward.unrepeatable", "contract."),
        looks_for="one attempt rewarded in two ways",
        in_looks=lambda of: unrepeatable(of.records.looks, of.baseline.looks, of.side),
    ),
    Detector(
        name="forged outcomes",
        codes=("grader.disagrees",),
        looks_for="stored outcomes that the sealed grader does not confirm",
        in_looks=_graded_otherwise,
    ),
    Detector(
        name="infrastructure failures",
        codes=("infra.unbalanced", "infra.void"),
        looks_for="outcomes that one arm lost, or too many",
        in_arm=lambda of: void_infra(of.arm, of.limits, of.side),
        between=unbalanced_infra,
    ),
    Detector(
        name="denominator drift",
        codes=("denominator.mismatch", "incomparable.plan"),
        looks_for="planned attempts that are missing, or there twice",
        in_arm=lambda of: denominator(of.arm),
    ),
    Detector(
        name="train/eval overlap",
        codes=("overlap.train_eval",),
        looks_for="evaluation tasks trained on",
        in_arm=lambda of: overlap(of.arm, of.train_hashes),
    ),
    Detector(
        name="rewards that are no numbers",
        codes=("artefact.not_finite", "artefact.none_reward", "contract."),
        looks_for="NaN, infinite or missing rewards",
        in_arm=lambda of: not_finite(of.arm, of.side, of.beside),
    ),
    Detector(
        name="truncation",
        codes=("artefact.truncation",),
        looks_for="attempts newly cut by a ceiling",
        between=artefacts,
    ),
    Detector(
        name="one-sided clock",
        codes=("artefact.clock",),
        looks_for="a baseline cut by the clock more often",
        between=one_sided_cuts,
    ),
    Detector(
        name="shaped against true reward",
        codes=("divergence.reward_up", "divergence.inverted"),
        looks_for="a reward that rises without clean success, or puts unclean attempts first",
        between=divergence,
    ),
    Detector(
        name="constant offset",
        codes=("reward.constant_offset",),
        looks_for="the same added to every reward",
        between=lambda before, after, _: constant_offset(before, after),
    ),
    Detector(
        name="near-duplicate tasks",
        codes=("overlap.near_duplicate",),
        looks_for="evaluation tasks whose text is in training tasks (`near_overlap`)",
    ),
)
