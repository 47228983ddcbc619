"""Every validity detector in one table: what it looks for, what it reads, where it is asked.

For readers of reports and for benchmarks, which count per detector what it found and what it
called by mistake. `codes` are those of the findings it makes; one that ends in a dot is a prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Reads = Literal["rows", "rollouts", "texts"]
Asked = Literal["find_all", "inspect"]


@dataclass(frozen=True, slots=True)
class Detector:
    """One kind of invalid score, and the finding codes by which it is known."""

    name: str
    codes: tuple[str, ...]
    looks_for: str
    reads: Reads = "rows"
    asked: Asked = "find_all"

    def makes(self, code: str) -> bool:
        """Whether a finding of this code may be its work."""
        return any(code == own or (own[-1] == "." and code.startswith(own)) for own in self.codes)


DETECTORS: Final[tuple[Detector, ...]] = (
    Detector("answer leakage", ("conduct.leak",), "solutions flagged as read from a leak"),
    Detector(
        "copied answers",
        ("conduct.copied_answer",),
        "submitted lines that the record shows before the agent wrote them",
        "rollouts",
        "inspect",
    ),
    Detector("tampering", ("conduct.tamper",), "attempts on tests, their runner or the report"),
    Detector(
        "forgery",
        ("conduct.forgery", "conduct.suspect"),
        "submissions that end the process well or write the report",
        "rollouts",
        "inspect",
    ),
    Detector(
        "always-equal objects",
        ("conduct.always_equal", "conduct.suspect"),
        "submitted classes that equal everything",
        "rollouts",
        "inspect",
    ),
    Detector(
        "special-casing",
        ("conduct.special_case", "conduct.suspect"),
        "submissions that know the shown examples by heart",
        "rollouts",
        "inspect",
    ),
    Detector(
        "forged outcomes",
        ("grader.disagrees",),
        "stored outcomes that the sealed grader does not confirm",
        "rollouts",
        "inspect",
    ),
    Detector(
        "flaky grader",
        ("grader.flaky",),
        "one submission graded both ways",
        "rollouts",
        "inspect",
    ),
    Detector(
        "unrepeatable reward",
        ("reward.unrepeatable", "contract."),
        "one attempt rewarded in two ways",
        "rollouts",
        "inspect",
    ),
    Detector(
        "shaped against true reward",
        ("divergence.reward_up", "divergence.inverted"),
        "a reward that rises without clean success, or puts unclean attempts first",
    ),
    Detector("constant offset", ("reward.constant_offset",), "the same added to every reward"),
    Detector(
        "length gaming",
        ("reward.length_gaming",),
        "attempts that changed in length because length is paid",
        asked="inspect",
    ),
    Detector(
        "rewards that are no numbers",
        ("artefact.not_finite", "artefact.none_reward", "contract."),
        "NaN, infinite or missing rewards",
    ),
    Detector("truncation", ("artefact.truncation",), "attempts newly cut by a ceiling"),
    Detector("one-sided clock", ("artefact.clock",), "a baseline cut by the clock more often"),
    Detector(
        "broken format",
        ("artefact.unfinished", "artefact.unheard"),
        "attempts newly never handed in, replies newly not understood",
        "rollouts",
        "inspect",
    ),
    Detector(
        "infrastructure failures",
        ("infra.unbalanced", "infra.void"),
        "outcomes that one arm lost, or too many",
    ),
    Detector("train/eval overlap", ("overlap.train_eval",), "evaluation tasks trained on"),
    Detector(
        "near-duplicate tasks",
        ("overlap.near_duplicate",),
        "evaluation tasks whose text stands in training tasks",
        "texts",
        "inspect",
    ),
    Detector(
        "denominator drift",
        ("denominator.mismatch", "incomparable.plan"),
        "planned attempts that are missing, or there twice",
    ),
    Detector("evaluator mismatch", ("incomparable.evaluator",), "arms measured by two graders"),
)
