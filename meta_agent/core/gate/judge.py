"""The judge checks validity first, then statistics, and returns one of four verdicts.

* INVALID       the intended behaviour did not produce the score, whatever the score is;
* PROMOTE       the lower bound of the gain in clean success is above the minimum effect;
* REJECT        the upper bound is below anything worth having, or the candidate harms;
* INCONCLUSIVE  neither is shown. More samples are bought until the last look, or until the gain
  that the test is tuned to is ruled out. It is never a win.

Bounds are of two kinds. The first kind holds at a look, which is a moment declared beforehand. The
second holds after every pair of training runs at once (`Course`), so a candidate may stop early.

Everything that a verdict rests on is in `Verdict.evidence`: the settings under `inputs`, the
digests of both arms, the findings and the numbers. `meta_agent.core.lab.verify` recomputes the
verdict from there.

Not covered: choosing what to run next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate._records import Arm, Finding
from meta_agent.core.gate.numbers._clusters import Grouped, by_groups
from meta_agent.core.gate.numbers._course import (
    Bounds,
    Collapse,
    Course,
    Terms,
    bounds_at_look,
    bounds_under_way,
    collapse_of,
)
from meta_agent.core.gate.numbers.statistics import (
    ErrorBudget,
    Pairs,
    given_promotion,
    pair,
    sign_flip_p,
    standard_error,
    tie_of,
    worst_case,
)
from meta_agent.core.protocols import JSON, Effect, Verdict, VerdictKind

MIN_TRAINING_SEEDS = 2
"""Training seeds without which a gain through training is never promoted."""
WORTHWHILE_EFFECT = 0.02


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The settings that were declared before the look."""

    min_seeds: int
    budget: ErrorBudget
    look: int
    final_look: bool
    min_effect: float
    worthwhile_effect: float
    course: Course | None
    elsewhere: tuple[float, ...] = ()
    clusters: Mapping[str, str] | None = None
    ties: str = ""

    def __post_init__(self) -> None:
        if self.min_seeds < 1:
            raise ConfigError(f"min_seeds (training seeds) is {self.min_seeds}; set 1 or more")
        if self.min_effect < 0:
            raise ConfigError(f"min_effect (a gain) is {self.min_effect}; set 0 or more")

    def to_json(self) -> dict[str, JSON]:
        fields = {
            **asdict(self),
            "budget": self.budget.to_json(),
            "course": self.course.to_json() if self.course else None,
            "elsewhere": list(self.elsewhere),
        }
        return fields if self.ties else {name: fields[name] for name in fields if name != "ties"}

    @property
    def worthwhile(self) -> float:
        """Returns the gain that the test looks for. Once it is ruled out, no more data is added."""
        target = self.course.target if self.course else self.worthwhile_effect
        return max(self.min_effect, target)


class _Case(NamedTuple):
    """One look at one candidate, ready to be decided."""

    inputs: _Inputs
    pairs: Pairs
    bounds: Bounds

    @property
    def effect(self) -> Effect:
        return self.bounds.effect

    @property
    def futility_high(self) -> float:
        return self.bounds.futility_high

    @property
    def alpha(self) -> float:
        return self.inputs.budget.at(self.inputs.look)

    @property
    def worthwhile(self) -> float:
        return self.inputs.worthwhile

    @property
    def collapse(self) -> Collapse | None:
        """Returns how often training runs lose everything; None without a sequential test."""
        course = self.inputs.course
        if course is None:
            return None
        return collapse_of(self.pairs, course.collapse, self.inputs.elsewhere)

    @property
    def grouped(self) -> Grouped | None:
        """Returns the gain's lower bound with groups of tasks as units; None without groups."""
        if not self.inputs.clusters:
            return None
        return by_groups(self.pairs, self.inputs.clusters, self.effect.ci_low, self.alpha)

    @property
    def shrunk(self) -> float | None:
        """Returns the estimated gain, corrected for the winner's curse of promoted candidates.

        None for a sequential test: it stops as soon as it crosses its bar, so that the correction,
        which assumes a single look, would always be near its largest.
        """
        estimate, least = self.effect, self.inputs.min_effect
        if self.inputs.course is not None:
            return None
        slack = [estimate.ci_low - least]
        if self.grouped and self.grouped.low is not None:
            slack.append(self.grouped.low - least)
        if self.pairs.lost:
            slack.append(worst_case(self.pairs) - least)
        bar = estimate.delta - max(0.0, min(slack))
        return given_promotion(estimate.delta, standard_error(self.pairs), bar, least)

    @property
    def is_last(self) -> bool:
        """Returns True if no data is added after this analysis, whatever it shows."""
        course, numbers = self.inputs.course, self.bounds.numbers
        if self.inputs.final_look or course is None or not course.further:
            return self.inputs.final_look
        return not course.goes_on(numbers["units"], numbers["wealth"], numbers["bar"])

    @property
    def given_up(self) -> bool:
        """Returns True if the gain that the test looks for is ruled out."""
        return self.futility_high < self.worthwhile


def judge_live(
    baseline_arm: Arm,
    candidate_arm: Arm,
    *,
    min_seeds: int,
    budget: ErrorBudget,
    look: int,
    final_look: bool,
    min_effect: float = 0.0,
    findings: Iterable[Finding] = (),
    course: Course | None = None,
    elsewhere: Sequence[float] = (),
    clusters: Mapping[str, str] | None = None,
    ties: str = "",
) -> Verdict:
    """Returns the verdict on one candidate against the baseline, with the numbers behind it.

    `look` numbers the interim analysis, from 0; after a `final_look` no data is added. A candidate
    with fewer than `min_seeds` training seeds on either side is never promoted. `findings` come
    from the validity checks. `course` is a sequential test: call this after each of its pairs.

    `elsewhere` holds differences that the candidate showed on the search split, one per training
    seed; they only say how often its training fails. `clusters` maps tasks to groups, such as
    repositories. `ties` is a salt that breaks ties of the exact test over tasks; without it ties
    count against the candidate. Raises ConfigError if a setting is out of range.
    """
    inputs = _Inputs(
        min_seeds, budget, look, final_look, min_effect, WORTHWHILE_EFFECT, course,
        tuple(elsewhere), clusters or None, ties,
    )  # fmt: skip
    all_findings = tuple(findings)
    case = _case(inputs, pair(baseline_arm, candidate_arm))
    kind, reasons = _decide(case, all_findings)
    evidence = {
        "judge": "live",
        "inputs": inputs.to_json(),
        "arms": {"baseline": arm_summary(baseline_arm), "candidate": arm_summary(candidate_arm)},
        "findings": [finding.to_json() for finding in all_findings],
        "numbers": _numbers(case),
    }
    promoted = kind is VerdictKind.PROMOTE
    reported = replace(case.effect, shrunk=case.shrunk) if promoted else case.effect
    return Verdict(kind, reasons, reported, evidence=evidence)


def kind_of_pairs(
    pairs: Pairs,
    *,
    min_seeds: int,
    budget: ErrorBudget,
    look: int,
    final_look: bool,
    min_effect: float = 0.0,
    course: Course | None = None,
    clusters: Mapping[str, str] | None = None,
    ties: str = "",
) -> tuple[VerdictKind, bool]:
    """Returns the verdict on paired differences alone, and whether the test asks for more data.

    No validity check takes part. `look` numbers the interim analysis, from 0; after a `final_look`
    no data is added. `course` is a sequential test, `clusters` maps tasks to groups, and `ties` is
    a salt that breaks ties of the exact test over tasks.
    """
    inputs = _Inputs(
        min_seeds, budget, look, final_look, min_effect, WORTHWHILE_EFFECT, course,
        clusters=clusters, ties=ties,
    )  # fmt: skip
    case = _case(inputs, pairs, confidence=False)
    kind = _by_effect(case)[0]
    goes_on = kind is VerdictKind.INCONCLUSIVE and not (case.given_up or case.is_last)
    return kind, goes_on


def _case(inputs: _Inputs, pairs: Pairs, *, confidence: bool = True) -> _Case:
    alpha, futility = inputs.budget.at(inputs.look), inputs.budget.futility
    if inputs.course is None:
        bounds = bounds_at_look(pairs, alpha, futility, confidence=confidence)
        return _Case(inputs, pairs, bounds)
    terms = Terms(inputs.course, alpha, futility, inputs.min_effect)
    return _Case(inputs, pairs, bounds_under_way(pairs, terms))


# --- deciding ----------------------------------------------------------------------------------

_Decision = tuple[VerdictKind, tuple[str, ...]]


def _decide(case: _Case, findings: tuple[Finding, ...]) -> _Decision:
    against = [f for f in findings if f.side != "baseline"]
    if vetoes := tuple(f"{f.code}: {f.message}" for f in against if f.severity == "veto"):
        return VerdictKind.INVALID, vetoes
    unproven = tuple(f"{f.code}: {f.message}" for f in against if f.severity == "unproven")
    kind, reasons = _by_effect(case)
    harms = tuple(f"{f.code}: {f.message}" for f in against if f.severity == "harm")
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
    if not doubted or low > case.inputs.min_effect:
        return ()
    return (f"without {doubted:.0f} successes in question the lower bound is {_points(low)}",)


def _by_effect(case: _Case) -> _Decision:
    if case.pairs.pairs == 0:
        return VerdictKind.INCONCLUSIVE, ("no pair has an outcome on both sides",)
    doubts = _doubts(case)
    if not doubts:
        return VerdictKind.PROMOTE, (
            f"clean success {_points(case.effect.delta)}, lower bound "
            f"{_points(case.effect.ci_low)} > {_points(case.inputs.min_effect)} "
            f"at alpha {case.alpha:.4g}",
            *_terms_of(case),
        )
    if case.given_up:
        # Only what is not even worth having is rejected: a smaller gain may be there.
        least = max(case.inputs.min_effect, case.inputs.worthwhile_effect)
        small = case.futility_high >= least
        return VerdictKind.INCONCLUSIVE if small else VerdictKind.REJECT, (_given_up(case),)
    more = "no look is left" if case.is_last else "more samples may decide"
    return VerdictKind.INCONCLUSIVE, (*doubts, more)


def _terms_of(case: _Case) -> Iterator[str]:
    """Yields the assumptions that a promotion rests on, as sentences."""
    if case.collapse is not None:
        yield _assumed(case, case.collapse)
    grouped = case.grouped
    if grouped is not None and grouped.low is None:
        yield f"on these {grouped.groups} groups of tasks: they are too few to speak of others"


def _assumed(case: _Case, collapse: Collapse) -> str:
    """Returns the sentence on what so few training seeds cannot show."""
    pairs = case.effect.training_seeds
    return (
        f"worst of {pairs} pairs {_points(collapse.worst)}; {pairs} pairs cannot rule out that up "
        f"to {collapse.fits:.0%} of trainings collapse; the gain would survive {collapse.rate:.0%}"
    )


def _given_up(case: _Case) -> str:
    """Returns the reason for giving up. A smaller effect than the target may still exist."""
    high, worthwhile = _points(case.futility_high), _points(case.worthwhile)
    if case.futility_high < 0:
        return f"harms: upper bound {high}, worthwhile from {worthwhile}"
    if case.inputs.course is None:
        return f"is not worth having: upper bound {high}, worthwhile from {worthwhile}"
    error = case.inputs.budget.futility
    return (
        f"given up: a gain of {worthwhile} is ruled out at an error of {error:.0%} (at most {high})"
    )


def _doubts(case: _Case) -> tuple[str, ...]:
    """Returns one sentence for each condition of a promotion that does not hold."""
    doubts, seeds = [], case.effect.training_seeds
    if case.effect.ci_low <= case.inputs.min_effect:
        low, need = _points(case.effect.ci_low), _points(case.inputs.min_effect)
        doubts.append(f"lower bound {low} is not above {need} at alpha {case.alpha:.4g}")
    if seeds < case.inputs.min_seeds:
        doubts.append(f"{seeds} training seed, needs {case.inputs.min_seeds}")
    doubts += [*_collapse_doubts(case), *_group_doubts(case)]
    p = _exact_p(case)
    if p is not None and p > case.alpha:
        doubts.append(f"exact sign-flip p {p:.3g} is above alpha {case.alpha:.4g}")
    worst = worst_case(case.pairs)
    if case.pairs.lost and worst <= case.inputs.min_effect:
        doubts.append(
            f"with {case.pairs.lost} lost pairs at their worst the effect is {_points(worst)}"
        )
    return tuple(doubts)


def _collapse_doubts(case: _Case) -> tuple[str, ...]:
    """Returns a doubt if training runs that lose everything could take the gain back."""
    collapse, low = case.collapse, case.effect.ci_low
    if collapse is None or low <= case.inputs.min_effect:
        return ()
    remaining = collapse.leaves(low)
    if remaining > case.inputs.min_effect:
        return ()
    return (
        f"{collapse.rate:.0%} of training runs losing all would leave {_points(remaining)} of the "
        f"lower bound {_points(low)}, and {case.effect.training_seeds} pairs cannot rule out that "
        f"up to {collapse.fits:.0%} of trainings collapse (worst pair {_points(collapse.worst)})",
    )


def _group_doubts(case: _Case) -> tuple[str, ...]:
    grouped, need = case.grouped, case.inputs.min_effect
    if grouped is None or grouped.low is None or not case.effect.ci_low > need >= grouped.low:
        return ()
    return (
        f"tasks come in {grouped.groups} groups, by which the lower bound "
        f"{_points(grouped.low)} is not above {_points(need)}",
    )


def _exact_p(case: _Case) -> float | None:
    """Returns the p of the permutation test over tasks, or None if seeds are the unit."""
    if case.effect.training_seeds != 1 or case.inputs.course is not None:
        return None
    row = case.pairs.cells[0]
    exact, salt = sign_flip_p(row, case.pairs.samples), case.inputs.ties
    if salt and 0.5 ** len(row) <= case.alpha:
        return exact.randomised_p(tie_of(salt, case.pairs))
    return exact.p  # too few tasks to prove anything: a lucky draw does not change that


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"


# --- evidence ----------------------------------------------------------------------------------


def _numbers(case: _Case) -> dict[str, JSON]:
    return {
        "alpha": case.alpha,
        "futility_high": case.futility_high,
        "given_up": case.given_up,
        "pairs_lost": case.pairs.lost,
        "tasks": int(case.pairs.cells.shape[1]),
        "tasks_dropped": case.pairs.dropped_tasks,
        "per_seed": [float(row.mean()) for row in case.pairs.cells if row.size],
        "worst_case_delta": worst_case(case.pairs),
        "sign_flip_p": _exact_p(case),
        "groups": case.grouped._asdict() if case.grouped else None,
        "collapse": case.collapse._asdict() if case.collapse else None,
        **case.bounds.numbers,
    }


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
