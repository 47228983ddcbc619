"""The report on foreign rollouts as plain text."""

from __future__ import annotations

from collections.abc import Mapping

from meta_agent.evidence.foreign import ForeignReport

_SHOWN_POLICIES = 5
_HIDDEN = ("n_", "success_low", "success_high", "clean_success_low", "clean_success_high")


def render_foreign(report: ForeignReport) -> str:
    """One page: what there is, alerts, the layers, and what is not in the data."""
    parts = [_head(report), _alerts(report)]
    score = {k: v for k, v in report.evidence.score.items() if not k.startswith(_HIDDEN)}
    score = {} if report.benchmarks else score  # shares of several sets mixed say nothing
    parts += [_layer("score", score), _layer("signal", report.evidence.signal)]
    parts += [_layer("behaviour", report.evidence.behaviour), _layer("shape", report.shape)]
    parts.append([f"note: {line}" for line in report.missing])
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _head(report: ForeignReport) -> list[str]:
    names = sorted(report.policies, key=lambda name: -report.policies[name])
    more = ", ..." if len(names) > _SHOWN_POLICIES else ""
    by = ", ".join(names[:_SHOWN_POLICIES]) + more
    by = f"by {by}" if names != ["unknown"] else "(the data does not name the policy)"
    lines = [f"{report.n} rollouts of {report.tasks} tasks {by}"]
    score = report.evidence.score
    if report.benchmarks:
        lines.append(f"{len(report.benchmarks)} benchmarks, whose shares do not add up to one:")
        lines += [f"  {name}: {_success(own)}" for name, own in report.benchmarks.items()]
    elif "success" in score:
        lines.append(f"success {_success(score)}")
    else:
        where = "--solved-at says which rewards mean success"
        if not report.known["rewards"]:
            where = (
                "a SWE-bench harness report is read beside it: --rollouts FILE --rollouts REPORT"
            )
        lines.append(f"success: not in this data ({where})")
    return lines


def _success(score: Mapping[str, float]) -> str:
    """The interval takes tasks as the units, not attempts."""
    low, high = score["success_low"], score["success_high"]
    known = int(score["n"] - score["n_infra_error"] - score["n_verifier_error"])
    return (
        f"{score['success']:.1%} [{low:.1%}, {high:.1%}] of {score['n']:.0f} attempts at "
        f"{score['tasks']:.0f} tasks; {score['success_known']:.1%} of the {known} whose outcome is "
        "known"
    )


def _alerts(report: ForeignReport) -> list[str]:
    ranked = sorted(report.evidence.alerts, key=lambda alert: alert.level != "CRITICAL")
    return [f"{a.level:8} {a.metric}: {a.message}" for a in ranked] or ["no alerts"]


def _layer(name: str, metrics: Mapping[str, float]) -> list[str]:
    if not metrics:
        return []
    width = max(map(len, metrics))
    return [name, *(f"  {key:{width}}  {_number(value)}" for key, value in metrics.items())]


def _number(value: float) -> str:
    value += 0.0  # no -0
    return f"{value:.0f}" if value == int(value) and abs(value) >= 1 else f"{value:.4g}"
