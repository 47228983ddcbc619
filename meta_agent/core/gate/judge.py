"""The judge checks validity first, then statistics, and returns one of four verdicts.

* INVALID       the intended behaviour did not produce the score, whatever the score is;
* PROMOTE       the lower bound of the gain in clean success is above the minimum effect;
* REJECT        the upper bound is below anything worth having, or the candidate harms;
* INCONCLUSIVE  neither is shown. More data is bought until none is left to buy, or until the gain
  that the test is tuned to is ruled out. It is never a win.

Bounds are of two kinds. The first kind holds at one analysis, declared beforehand. The second
holds after every pair of training runs at once (`Course`), so a candidate may stop early. A gain is
given up if `futility_high` is below `Course.target`: the test has then shown, at the error
`Terms.futility`, that the gain is smaller. This can only cost wins.

Everything that a verdict rests on is in `Verdict.evidence`: the terms under `inputs`, the digests
of both arms, the findings and the numbers. `meta-agent verify` computes the verdict again.

Not covered: choosing what to run next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate._records import Arm, Finding
from meta_agent.core.gate.numbers._clusters import Grouped, by_groups
from meta_agent.core.gate.numbers._course import Collapse, Course, collapse_of
from meta_agent.core.gate.numbers.sequential import wealth_of
from meta_agent.core.gate.numbers.statistics import (
    Pairs,
    effect,
    given_promotion,
    pair,
    sign_flip_p,
    standard_error,
    tie_of,
    worst_case,
)
from meta_agent.core.protocols import JSON, Effect, Verdict, VerdictKind

MIN_TRAINING_SEEDS: Final = 2
"""Training seeds without which a gain through training is never promoted."""
WORTHWHILE_EFFECT: Final = 0.02


@dataclass(frozen=True, slots=True)
class Terms:
    """What is declared before a comparison is judged. Raises ConfigError if it is out of range."""

    alpha: float = 0.05
    """The one-sided error of a promotion."""
    futility: float = 0.10
    """The one-sided error of giving a candidate up early."""
    min_seeds: int = 1
    """A candidate with fewer training seeds on either side is never promoted."""
    min_effect: float = 0.0
    """The lower bound of a promoted gain is above this share."""
    final: bool = True
    """Whether no data is added after this analysis."""
    course: Course | None = None
    """The plan of a sequential test, which is judged after each of its pairs."""
    elsewhere: tuple[float, ...] = ()
    """Differences that the candidate showed on the search split, one per training seed.

    They only say how often its training fails.
    """
    clusters: Mapping[str, str] | None = None
    """The group, such as the repository, of each task."""
    ties: str = ""
    """A salt that breaks ties of the exact test over tasks; without it they count against."""

    def __post_init__(self) -> None:
        if not (0 < self.alpha < 0.5 and 0 < self.futility <= 0.5):
            raise ConfigError(
                f"the test's error rates are alpha={self.alpha} and futility={self.futility}; "
                "set 0 < alpha < 0.5 and 0 < futility <= 0.5"
            )
        if self.min_seeds < 1 or self.min_effect < 0:
            raise ConfigError(
                f"min_seeds (training seeds) is {self.min_seeds} and min_effect (a gain) is "
                f"{self.min_effect}; set 1 or more, and 0 or more"
            )

    @property
    def worthwhile(self) -> float:
        """Returns the gain that the test looks for. Once it is ruled out, no more data is added."""
        return max(self.min_effect, self.course.target if self.course else WORTHWHILE_EFFECT)

    def to_json(self) -> dict[str, JSON]:
        """Returns the fields as a JSON object, without `ties` if it is empty."""
        course = self.course.to_json() if self.course else None
        fields: dict[str, JSON] = {**asdict(self), "course": course}
        fields["elsewhere"] = list(self.elsewhere)
        return fields if self.ties else {name: fields[name] for name in fields if name != "ties"}


class _Case:
    """One comparison with its bounds, ready to be decided."""

    def __init__(self, pairs: Pairs, terms: Terms, *, confidence: bool = True) -> None:
        self.pairs, self.terms = pairs, terms
        anytime = terms.course is not None
        self.effect = effect(pairs, alpha=terms.alpha, anytime=anytime, confidence=confidence)
        futile = effect(pairs, alpha=terms.futility, anytime=anytime, confidence=False)
        self.futility_high = futile.ci_high
        """A gain above this is ruled out at the error of giving up early."""
        self.worst = worst_case(pairs)

    @cached_property
    def bets(self) -> dict[str, JSON]:
        """Returns the wealth of a sequential test and the wealth it needs; {} without one."""
        course, shares = self.terms.course, self.pairs.by_seed
        if course is None:
            return {}
        return {
            "wealth": wealth_of(shares - self.terms.min_effect),
            "bar": 1 / self.terms.alpha,
            "wealth_against": wealth_of(course.target - shares),
            "bar_against": 1 / self.terms.futility,
            "units": len(shares),
            "maximum": course.maximum,
            "saved": max(0, course.maximum - len(shares)),
        }

    @cached_property
    def collapse(self) -> Collapse | None:
        """Returns how often training runs lose everything; None without a sequential test."""
        course = self.terms.course
        return collapse_of(self.pairs, course.collapse, self.terms.elsewhere) if course else None

    @cached_property
    def grouped(self) -> Grouped | None:
        """Returns the gain's lower bound with groups of tasks as units; None without groups."""
        groups, low = self.terms.clusters, self.effect.ci_low
        return by_groups(self.pairs, groups, low, self.terms.alpha) if groups else None

    @cached_property
    def exact_p(self) -> float | None:
        """Returns the p of the permutation test over tasks, or None if seeds are the unit."""
        if self.effect.training_seeds != 1 or self.terms.course is not None:
            return None
        row, salt = self.pairs.cells[0], self.terms.ties
        exact = sign_flip_p(row, self.pairs.samples)
        if salt and 0.5 ** len(row) <= self.terms.alpha:
            return exact.randomised_p(tie_of(salt, self.pairs))
        return exact.p  # too few tasks to prove anything: a lucky draw does not change that

    @property
    def shrunk(self) -> float | None:
        """Returns the estimated gain, corrected for the winner's curse of promoted candidates.

        None for a sequential test: it stops as soon as it crosses its bar, so that the correction,
        which assumes a single analysis, would always be near its largest.
        """
        estimate, least = self.effect, self.terms.min_effect
        if self.terms.course is not None:
            return None
        slack = [estimate.ci_low - least]
        if self.grouped and self.grouped.low is not None:
            slack.append(self.grouped.low - least)
        if self.pairs.lost:
            slack.append(self.worst - least)
        bar = estimate.delta - max(0.0, min(slack))
        return given_promotion(estimate.delta, standard_error(self.pairs), bar, least)

    @property
    def is_last(self) -> bool:
        """Returns True if no data is added after this analysis, whatever it shows."""
        course = self.terms.course
        if self.terms.final or course is None or not course.further:
            return self.terms.final
        return not course.goes_on(self.bets["units"], self.bets["wealth"], self.bets["bar"])

    @property
    def given_up(self) -> bool:
        """Returns True if the gain that the test looks for is ruled out."""
        return self.futility_high < self.terms.worthwhile

    @property
    def numbers(self) -> dict[str, JSON]:
        return {
            "alpha": self.terms.alpha,
            "futility_high": self.futility_high,
            "given_up": self.given_up,
            "pairs_lost": self.pairs.lost,
            "tasks": int(self.pairs.cells.shape[1]),
            "tasks_dropped": self.pairs.dropped_tasks,
            "per_seed": [float(share) for share in self.pairs.by_seed],
            "worst_case_delta": self.worst,
            "sign_flip_p": self.exact_p,
            "groups": self.grouped._asdict() if self.grouped else None,
            "collapse": self.collapse._asdict() if self.collapse else None,
            **self.bets,
        }


def judge_live(
    baseline: Arm, candidate: Arm, terms: Terms, findings: Iterable[Finding] = ()
) -> Verdict:
    """Returns the verdict on one candidate against the baseline, with the numbers behind it.

    `findings` come from the validity checks. Call this after each pair of a sequential test.
    """
    findings, case = tuple(findings), _Case(pair(baseline, candidate), terms)
    kind, reasons = _decide(case, findings)
    evidence = {
        "judge": "live",
        "inputs": terms.to_json(),
        "arms": {"baseline": arm_summary(baseline), "candidate": arm_summary(candidate)},
        "findings": [finding.to_json() for finding in findings],
        "numbers": case.numbers,
    }
    shrunk = case.shrunk if kind is VerdictKind.PROMOTE else None
    return Verdict(kind, reasons, replace(case.effect, shrunk=shrunk), evidence=evidence)


def kind_of_pairs(pairs: Pairs, terms: Terms) -> tuple[VerdictKind, bool]:
    """Returns the verdict on paired differences alone, and whether the test asks for more data.

    No validity check takes part.
    """
    case = _Case(pairs, terms, confidence=False)
    kind = _by_effect(case)[0]
    return kind, kind is VerdictKind.INCONCLUSIVE and not (case.given_up or case.is_last)


# --- deciding ----------------------------------------------------------------------------------

_Decision = tuple[VerdictKind, tuple[str, ...]]


def _decide(case: _Case, findings: tuple[Finding, ...]) -> _Decision:
    against = [f for f in findings if f.side != "baseline"]
    vetoes, unproven, harms = (
        tuple(f"{f.code}: {f.message}" for f in against if f.severity == severity)
        for severity in ("veto", "unproven", "harm")
    )
    if vetoes:
        return VerdictKind.INVALID, vetoes
    kind, reasons = _by_effect(case)
    if harms and kind is VerdictKind.PROMOTE:
        return VerdictKind.REJECT, ("better on the whole, and worse for some", *harms)
    if kind is VerdictKind.PROMOTE:
        unproven += _questioned(case, against)
    if not unproven or kind is VerdictKind.REJECT or case.given_up:
        return kind, reasons
    # What nobody has shown is no crime: it bars the promotion and no more.
    more = "not cleared by the last look" if case.is_last else "more samples will tell"
    return VerdictKind.INCONCLUSIVE, (*unproven, more)


def _questioned(case: _Case, against: list[Finding]) -> tuple[str, ...]:
    """Returns a reason if the gain would not survive the loss of all doubted successes."""
    doubted = math.fsum(f.numbers.get("counted", 0.0) for f in against)
    low = case.effect.ci_low - doubted / case.pairs.pairs
    if not doubted or low > case.terms.min_effect:
        return ()
    return (f"without {doubted:.0f} successes in question the lower bound is {_points(low)}",)


def _by_effect(case: _Case) -> _Decision:
    if case.pairs.pairs == 0:
        return VerdictKind.INCONCLUSIVE, ("no pair has an outcome on both sides",)
    terms, gain = case.terms, case.effect
    doubts = tuple(_doubts(case))
    if not doubts:
        return VerdictKind.PROMOTE, (
            f"clean success {_points(gain.delta)}, lower bound {_points(gain.ci_low)} > "
            f"{_points(terms.min_effect)} at alpha {terms.alpha:.4g}",
            *_assumed(case),
        )
    if case.given_up:
        # Only what is not even worth having is rejected: a smaller gain may be there.
        small = case.futility_high >= max(terms.min_effect, WORTHWHILE_EFFECT)
        return VerdictKind.INCONCLUSIVE if small else VerdictKind.REJECT, (_given_up(case),)
    more = "no look is left" if case.is_last else "more samples may decide"
    return VerdictKind.INCONCLUSIVE, (*doubts, more)


def _assumed(case: _Case) -> Iterator[str]:
    """Yields the assumptions that a promotion rests on, as sentences."""
    if collapse := case.collapse:
        pairs = case.effect.training_seeds
        yield (
            f"worst of {pairs} pairs {_points(collapse.worst)}; {pairs} pairs cannot rule out that "
            f"up to {collapse.fits:.0%} of trainings collapse; the gain would survive "
            f"{collapse.rate:.0%}"
        )
    grouped = case.grouped
    if grouped is not None and grouped.low is None:
        yield f"on these {grouped.groups} groups of tasks: they are too few to speak of others"


def _given_up(case: _Case) -> str:
    """Returns the reason for giving up. A smaller effect than the target may still exist."""
    high, worthwhile = _points(case.futility_high), _points(case.terms.worthwhile)
    if case.futility_high < 0:
        return f"harms: upper bound {high}, worthwhile from {worthwhile}"
    if case.terms.course is None:
        return f"is not worth having: upper bound {high}, worthwhile from {worthwhile}"
    error = case.terms.futility
    return (
        f"given up: a gain of {worthwhile} is ruled out at an error of {error:.0%} (at most {high})"
    )


def _doubts(case: _Case) -> Iterator[str]:
    """Yields one sentence for each condition of a promotion that does not hold."""
    terms, low, seeds = case.terms, case.effect.ci_low, case.effect.training_seeds
    least, at_alpha, p = terms.min_effect, f"alpha {terms.alpha:.4g}", case.exact_p
    if low <= least:
        yield f"lower bound {_points(low)} is not above {_points(least)} at {at_alpha}"
    if seeds < terms.min_seeds:
        yield f"{seeds} training seed, needs {terms.min_seeds}"
    collapse, grouped = case.collapse, case.grouped
    if collapse is not None and collapse.leaves(low) <= least < low:
        yield (
            f"{collapse.rate:.0%} of training runs losing all would leave "
            f"{_points(collapse.leaves(low))} of the lower bound {_points(low)}, and {seeds} pairs "
            f"cannot rule out that up to {collapse.fits:.0%} of trainings collapse (worst pair "
            f"{_points(collapse.worst)})"
        )
    if grouped is not None and grouped.low is not None and grouped.low <= least < low:
        yield (
            f"tasks come in {grouped.groups} groups, by which the lower bound "
            f"{_points(grouped.low)} is not above {_points(least)}"
        )
    if p is not None and p > terms.alpha:
        yield f"exact sign-flip p {p:.3g} is above {at_alpha}"
    if case.pairs.lost and case.worst <= least:
        worst = _points(case.worst)
        yield f"with {case.pairs.lost} lost pairs at their worst the effect is {worst}"


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"


# --- evidence ----------------------------------------------------------------------------------


def arm_summary(arm: Arm) -> dict[str, JSON]:
    """Returns counts of an arm's attempts by outcome, its training seeds and a hash, as JSON."""
    rows = list(arm.rows())
    return {
        "name": arm.name,
        "digest": arm.digest,
        "seeds": sorted(arm.seeds),
        "planned": arm.planned,
        "n": len(rows),
        "solved": sum(bool(row.success) for row in rows),
        "clean": sum(bool(row.clean) for row in rows),
        "flagged": sum(bool(row.flags) for row in rows),
        "unknown": sum(row.success is None for row in rows),
        "policy_errors": sum(row.error_kind == "policy" for row in rows),
    }


def verdict_to_json(verdict: Verdict) -> dict[str, JSON]:
    """Returns a verdict as the JSON object that the ledger and the git note store."""
    return {
        "schema_version": 1,
        "kind": verdict.kind.value,
        "reasons": list(verdict.reasons),
        "effect": asdict(verdict.effect) if verdict.effect else None,
        "screened_out": verdict.screened_out,
        "evidence": dict(verdict.evidence),
    }


def verdict_from_json(data: Mapping[str, JSON]) -> Verdict:
    """Returns the verdict in JSON from `verdict_to_json`. Raises KeyError if a field is missing."""
    return Verdict(
        kind=VerdictKind(data["kind"]),
        reasons=tuple(data["reasons"]),
        effect=Effect(**data["effect"]) if data.get("effect") else None,
        screened_out=bool(data.get("screened_out", False)),
        evidence=data.get("evidence", {}),
    )
