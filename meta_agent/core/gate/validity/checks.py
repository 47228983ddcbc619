"""The table of all validity checks: did the intended behaviour produce this score?

Every comparison goes through the table, in this order (`find_all`), before any score is read. Each
check is a pure function from the two sides to typed findings, with the lines of evidence that they
rest on. A candidate is not blamed for what the version that it started from does.

Every check can change a verdict. Benchmarks count by the table what each check found and what it
reported by mistake. `codes` are those of the findings that a check makes; a code that ends in a dot
is a prefix.

Not covered: conduct that neither the environment flagged nor the record shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, get_args

from meta_agent.core.gate._records import Finding, Severity
from meta_agent.core.gate.validity import _measurement, _repeats, _reward
from meta_agent.core.gate.validity._conduct import answers, leaks, tampering
from meta_agent.core.gate.validity._shares import Context, Run, Side
from meta_agent.core.gate.validity._slices import harm


@dataclass(frozen=True, slots=True)
class Check:
    """A check for one kind of invalid score."""

    name: str
    codes: tuple[str, ...]
    looks_for: str
    run: Run

    def makes(self, code: str) -> bool:
        """Returns True if `code`, such as `artefact.clock`, is the code of one of its findings."""
        return any(
            code == prefix or (prefix[-1] == "." and code.startswith(prefix))
            for prefix in self.codes
        )


def find_all(before: Side | None, after: Side, context: Context = Context()) -> tuple[Finding, ...]:  # noqa: B008 - frozen
    """Returns the findings on the side `after` beside its baseline `before`, the gravest first.

    Without a baseline the side is checked alone.
    """
    findings = (finding for check in CHECKS for finding in check.run(before, after, context))
    gravest_first = get_args(Severity)
    return tuple(sorted(findings, key=lambda finding: gravest_first.index(finding.severity)))


def _of_either(*runs: Run) -> Run:
    """Returns a check of both sides. What it finds in the baseline counts against nobody."""

    def run(before: Side | None, after: Side, context: Context) -> Iterator[Finding]:
        for part in runs:
            for finding in part(None, before, context) if before else ():
                yield replace(finding, side="baseline" if finding.side == "candidate" else "both")
            yield from part(before, after, context)

    return run


CHECKS: Final[tuple[Check, ...]] = (
    Check(
        "evaluator mismatch",
        ("incomparable.evaluator",),
        "arms measured by two graders",
        _measurement.comparable,
    ),
    Check(
        "answer leakage",
        ("conduct.leak",),
        "solutions flagged as read from a leak",
        _of_either(leaks),
    ),
    Check(
        "tampering",
        ("conduct.tamper",),
        "attempts on tests, their runner or the report",
        _of_either(tampering),
    ),
    Check(
        "infrastructure failures",
        ("infra.unbalanced", "infra.void"),
        "outcomes that one arm lost, or too many",
        _of_either(_measurement.void, _measurement.unbalanced),
    ),
    Check(
        "denominator drift",
        ("denominator.mismatch", "incomparable.plan"),
        "planned attempts that are missing, or there twice",
        _of_either(_measurement.denominator, _measurement.same_plan),
    ),
    Check(
        "train/eval overlap",
        ("overlap.train_eval",),
        "evaluation tasks trained on",
        _measurement.trained_on,
    ),
    Check(
        "rewards that are no numbers",
        ("artefact.not_finite", "artefact.none_reward", "contract."),
        "NaN, infinite or missing rewards",
        _of_either(_reward.not_finite, _reward.missing),
    ),
    Check(
        "one-sided clock",
        ("artefact.clock",),
        "a baseline cut by the clock more often",
        _measurement.one_sided_cuts,
    ),
    Check(
        "shaped against true reward",
        ("divergence.inverted",),
        "a reward that puts unclean attempts first",
        _reward.inverted,
    ),
    Check(
        "always-equal objects",
        ("conduct.always_equal",),
        "submitted classes that equal everything",
        answers("always_equal"),
    ),
    Check(
        "copied answers",
        ("conduct.copied_answer",),
        "submitted lines that the record shows before the agent wrote them",
        answers("copied_answer"),
    ),
    Check(
        "forgery",
        ("conduct.forgery",),
        "submissions that end the process well or write the report",
        answers("forgery"),
    ),
    Check(
        "special-casing",
        ("conduct.special_case",),
        "submissions that know the shown examples by heart",
        answers("special_case"),
    ),
    Check(
        "flaky grader", ("grader.flaky",), "one submission graded both ways", _repeats.two_answers
    ),
    Check(
        "unrepeatable reward",
        ("reward.unrepeatable", "contract."),
        "one attempt rewarded in two ways",
        _repeats.unrepeatable,
    ),
    Check(
        "forged outcomes",
        ("grader.disagrees",),
        "stored outcomes that the sealed grader does not confirm",
        _repeats.disagreeing,
    ),
    Check(
        "near-duplicate tasks",
        ("overlap.near_duplicate",),
        "evaluation tasks whose text is in training tasks (`near_overlap`)",
        lambda before, after, context: context.overlap,
    ),
    Check("harmed tasks", ("slice.",), "groups of tasks that lose while the whole gains", harm),
)
