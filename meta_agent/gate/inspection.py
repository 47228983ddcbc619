"""Validity by a second, wider look: what rows are too small to show, or too weak to decide alone.

`find_all` reads rows and is asked at every comparison. What stands here needs more: whole rollouts,
the grader, the tasks' texts, or a reader who knows that a length may change for good reasons.

* `inspect_rollouts` reads the records of one arm;
* `inspect_arms` compares rows for gaming that only shows over both arms;
* `explained` names the rollouts behind findings that carry numbers only.

Not covered: deciding. Findings go to the same judge as those of `find_all`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from meta_agent.gate._artefacts import unfinished, unheard
from meta_agent.gate._conduct import severity_of
from meta_agent.gate._intervals import wilson
from meta_agent.gate._length import length_gaming
from meta_agent.gate._limits import DEFAULT_LIMITS, LINES_SHOWN, ValidityLimits, evidence_lines
from meta_agent.gate._records import Arm, ArmSide, Finding, OutcomeRow, Severity
from meta_agent.gate._reward import CEILING_STOPS
from meta_agent.gate._transcripts import traces
from meta_agent.protocols import JSON, Outcome, Rollout

Regrade = Callable[[str, Mapping[str, JSON]], Outcome]
REGRADED = 64
"""How many stored attempts are graded again, evenly spread."""
UNREPEATABLE_SHARE = 0.05
_KINDS = {
    "copied": "copied_answer",
    "forgery": "forgery",
    "always-equal": "always_equal",
    "special-case": "special_case",
}


def inspect_arms(
    baseline: Arm, candidate: Arm, *, limits: ValidityLimits = DEFAULT_LIMITS
) -> tuple[Finding, ...]:
    """Gaming and artefacts that show in the rows of two arms side by side."""
    return (
        *length_gaming(baseline, candidate, limits),
        *unfinished(baseline, candidate, limits),
    )


def inspect_rollouts(
    rollouts: Sequence[Rollout],
    *,
    baseline: Sequence[Rollout] = (),
    regrade: Regrade | None = None,
    limits: ValidityLimits = DEFAULT_LIMITS,
    side: ArmSide = "candidate",
) -> tuple[Finding, ...]:
    """Everything that the records of one arm show, beside a baseline's where there is one.

    `regrade` is the domain's own grader.
    """
    found = [
        *unheard(baseline, rollouts, limits),
        *_conduct(rollouts, limits, side),
        *_two_answers(rollouts, side),
        *_unrepeatable(rollouts, side),
    ]
    if regrade is not None:
        found += _disagreeing(rollouts, regrade, side)
    return tuple(sorted(found, key=lambda finding: finding.severity != "veto"))


# --- conduct -------------------------------------------------------------------------------------


def _conduct(
    rollouts: Sequence[Rollout], limits: ValidityLimits, side: ArmSide
) -> Iterable[Finding]:
    """Copied, forged and special-cased answers, as shares of what the arm solved."""
    solved = [rollout for rollout in rollouts if rollout.outcome]
    hits: dict[str, list[str]] = defaultdict(list)
    for rollout in solved:
        told = {_KINDS[t.kind.partition(":")[0]]: t for t in reversed(traces(rollout))}
        for code, trace in told.items():
            hits[code].append(f"{_name(rollout)}: {trace.kind}: {trace.shown_by}")
    for code, lines in sorted(hits.items()):
        bounds = wilson(len(lines), len(solved))
        message = (
            f"{code}: {len(lines)} of {len(solved)} solved rollouts (95 % CI {bounds.low:.1%} to "
            f"{bounds.high:.1%}; limit {limits.leak_share:.1%})"
        )
        numbers = {"hits": len(lines), "n": len(solved), "low": bounds.low, "high": bounds.high}
        severity = severity_of(bounds.low, bounds.high, limits.leak_share)
        quoted = tuple(lines[:LINES_SHOWN])
        yield Finding(f"conduct.{code}", severity, message, quoted, numbers, side)


def _name(rollout: Rollout) -> str:
    return f"{rollout.task_key} sample {rollout.sample_idx} seed {rollout.seed}"


# --- graders and rewards that do not repeat themselves --------------------------------------------


def _two_answers(rollouts: Sequence[Rollout], side: ArmSide) -> list[Finding]:
    """The same submission at the same task, graded both ways."""
    graded = [r for r in rollouts if r.verifier_inputs and r.outcome is not None]
    return _differing(
        graded,
        key=lambda r: (r.task_key, json.dumps(r.verifier_inputs, sort_keys=True, default=str)),
        value=lambda r: r.outcome,
        finding=("grader.flaky", "submissions that were made twice were graded both ways"),
        side=side,
    )


def _unrepeatable(rollouts: Sequence[Rollout], side: ArmSide) -> list[Finding]:
    """Word for word the same attempt with the same ending, rewarded in two ways."""
    scored = [r for r in rollouts if r.rewards and r.messages]
    return _differing(
        scored,
        key=lambda r: (
            r.task_key,
            json.dumps(r.messages, sort_keys=True, default=str),
            (r.outcome, r.stop_reason, r.turns, *r.flags),
        ),
        value=lambda r: round(r.total_reward, 9),
        finding=("reward.unrepeatable", "attempts that were made twice were rewarded in two ways"),
        side=side,
    )


def _differing(
    rollouts: Iterable[Rollout],
    *,
    key: Callable[[Rollout], object],
    value: Callable[[Rollout], object],
    finding: tuple[str, str],
    side: ArmSide,
) -> list[Finding]:
    """Groups of equals that were not treated alike."""
    groups: dict[object, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        groups[key(rollout)].append(rollout)
    repeated = [group for group in groups.values() if len(group) > 1]
    odd = [group for group in repeated if len({value(r) for r in group}) > 1]
    if not odd:
        return []
    code, says = finding
    lines = tuple(
        f"{_name(group[0])} and sample {other.sample_idx} seed {other.seed}: "
        f"{value(group[0])} and {value(other)}"
        for group in odd[:LINES_SHOWN]
        for other in [next(r for r in group if value(r) != value(group[0]))]
    )
    bounds = wilson(len(odd), len(repeated))
    severity: Severity = "veto" if bounds.low > UNREPEATABLE_SHARE else "unproven"
    message = f"{len(odd)} of {len(repeated)} {says}"
    numbers = {"hits": len(odd), "n": len(repeated)}
    return [Finding(code, severity, message, lines, numbers, side)]


def _disagreeing(rollouts: Sequence[Rollout], regrade: Regrade, side: ArmSide) -> list[Finding]:
    """Stored outcomes that the sealed grader does not confirm: forged, or another grader's."""
    graded = [r for r in rollouts if r.verifier_inputs and r.outcome is not None]
    # The solved ones first: a forged success is what anybody would gain from.
    ordered = [r for r in graded if r.outcome] + [r for r in graded if not r.outcome]
    step = max(1, len(ordered) // REGRADED)
    checked = ordered[::step]
    odd = [r for r in checked if regrade(r.task_key, r.verifier_inputs).success != r.outcome]
    if not odd:
        return []
    message = f"{len(odd)} of {len(checked)} stored outcomes are not what the grader says again"
    lines = tuple(f"{_name(r)}: stored {r.outcome}" for r in odd[:LINES_SHOWN])
    numbers = {"hits": len(odd), "n": len(checked)}
    return [Finding("grader.disagrees", "veto", message, lines, numbers, side)]


# --- naming the rollouts -------------------------------------------------------------------------


def explained(findings: Iterable[Finding], baseline: Arm, candidate: Arm) -> tuple[Finding, ...]:
    """The findings, each with the rollouts it rests on where it had numbers only."""
    return tuple(f if f.lines else replace(f, lines=_behind(f, candidate)) for f in findings)


def _behind(finding: Finding, candidate: Arm) -> tuple[str, ...]:
    rows = [row for row in candidate.rows() if row.success is not None]
    if finding.code == "artefact.none_reward":
        return evidence_lines([r for r in rows if r.reward is None and r.error_kind is None])
    if finding.code == "artefact.truncation":
        return evidence_lines([row for row in rows if row.stop_reason in CEILING_STOPS])
    unclean = [row for row in rows if row.reward is not None and not row.clean]
    scored = unclean if finding.code.startswith("divergence.") else [r for r in rows if r.reward]
    best = sorted(scored, key=lambda row: (-(row.reward or 0.0), row.training_seed, row.key))
    return tuple(map(_rewarded, best[:LINES_SHOWN]))


def _rewarded(row: OutcomeRow) -> str:
    told = "clean" if row.clean else ", ".join(row.flags) or "not solved"
    place = f"{row.task_key} sample {row.sample_idx} seed {row.training_seed}"
    return f"{place}: {told}, reward {row.reward:.3f}, {row.turns} turns, {row.stop_reason}"
