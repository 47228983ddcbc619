"""The git notes on the commits of a candidate and of a claim: a verdict in `git log --notes`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from meta_agent.core.protocols import JSON, Candidate, Verdict
from meta_agent.reports._facts import attribution_figures
from meta_agent.reports._format import (
    measured_text,
    one_line,
    points,
    test_text,
    unit_text,
    visible,
)
from meta_agent.reports._parts import Measured


def verdict_note(candidate: Candidate, verdict: Verdict) -> str:
    """Returns a candidate's git note: verdict, reasons, prediction, measurement, verify command."""
    return "\n".join(_lines(candidate, verdict)) + "\n"


def claim_note(commit: str, members: Sequence[str], verdict: Verdict) -> str:
    """Returns the git note on a run's final test: what was tested, verdict and measurement."""
    inputs = verdict.evidence.get("inputs") or {}
    about = "this harness, over training seeds" if inputs.get("course") else "this version"
    head = f"Claim: {about}, of {', '.join(map(visible, members))} together"
    return "\n".join([head, *_verdict(verdict), "", *_measured(commit, verdict)]) + "\n"


def handover_note(run: str, handover: JSON, vault: Mapping[str, JSON]) -> str:
    """Returns a git note on what a run handed over, and its success on the vault split."""
    sides = {which: Measured.parse(vault[which]) for which in vault}
    shares = [
        f"{which} {measured_text(side)} of {side.n} tasks"
        + (f" ({side.training})" if side.training else "")
        for which, side in sides.items()
    ]
    return "\n".join(
        [
            f"Handed over by {run}: {handover['standing']}: {one_line(handover['words'], 400)}",
            f"weights    {visible(handover['policy'])}",
            f"vault      clean success: {'; '.join(shares) or 'not read'}",
        ]
    )


def attribution_note(candidate: str, attribution: Mapping[str, Any]) -> str:
    """Returns a git note on how much of a gain came from the harness, how much from the policy."""
    lines = [f"Attribution of {visible(candidate)}, clean success"]
    for name, value, compared in attribution_figures(attribution):
        lines.append(f"  {name:18} {value:28} {compared}")
    return "\n".join(lines) + "\n"


def _lines(candidate: Candidate, verdict: Verdict) -> Iterator[str]:
    yield from _verdict(verdict)
    forecast = candidate.hypothesis
    change = f"{forecast.direction} by {abs(forecast.expected_delta):.4g}"
    yield ""
    yield f"predicted  {visible(forecast.metric)} {change}"
    yield from _measured(candidate.commit, verdict)


def _verdict(verdict: Verdict) -> Iterator[str]:
    screened = " (screened out)" if verdict.screened_out else ""
    yield f"Verdict: {verdict.kind}{screened}"
    for reason in verdict.reasons:
        yield f"  because {one_line(reason, 400)}"


def _measured(commit: str, verdict: Verdict) -> Iterator[str]:
    if effect := verdict.effect:
        yield (
            f"measured   clean success {points(effect.delta)} points, interval at the run's alpha "
            f"[{points(effect.ci_low)}, {points(effect.ci_high)}]{effect.selected}"
        )
        if effect.selected:
            yield "selected   only what is estimated above a bar is promoted: too high on average"
        yield f"based on   {effect.pairs} pairs, {unit_text(effect.training_seeds)}"
        if test := test_text(verdict.evidence):
            yield f"test       {test}"
    else:
        yield "measured   no live comparison"
    yield ""
    yield f"meta-agent verify {commit[:12]}"
