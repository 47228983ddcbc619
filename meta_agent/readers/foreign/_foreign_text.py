"""The report on foreign rollouts as plain text."""

from __future__ import annotations

from collections.abc import Mapping

from meta_agent.core.evidence import Alert
from meta_agent.readers.evidence._meanings import meaning_of
from meta_agent.readers.foreign.reading import ForeignReport

_SHOWN_POLICIES = 5


def render_foreign(report: ForeignReport, arguments: str = "--rollouts FILE") -> str:
    """Returns one page: what there is, alerts, the layers, and what is not in the data.

    `arguments` are those of the report's command line. Suggested commands repeat them.
    """
    parts = [_head(report), _alerts(report, arguments)]
    parts += [_layer(name, metrics, report.over) for name, metrics in report.layers.items()]
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
        lines += [
            f"  {name}: {_success(benchmark_score)}"
            for name, benchmark_score in report.benchmarks.items()
        ]
    elif "success" in score:
        lines.append(f"success {_success(score)}")
    else:
        lines.append(f"success: not in this data ({_how_to_judge(report)})")
    return lines


def _how_to_judge(report: ForeignReport) -> str:
    """Returns where the outcomes of such data can come from."""
    if report.present["rewards"]:
        return "--solved-at says which rewards mean success"
    if set(report.formats) == {"inspect"}:
        return "the log holds no scores: inspect score LOG adds them"
    if "empty_patch" in report.shape:
        return "a SWE-bench harness report is read beside it: --rollouts FILE --rollouts REPORT"
    return "nor are rewards; --map FIELD=reward reads them from rows of any form"


def _success(score: Mapping[str, float]) -> str:
    """Returns success with its interval, whose units are tasks and not attempts."""
    low, high = score["success_low"], score["success_high"]
    n_judged = int(score["n"] - score["n_infra_error"] - score["n_verifier_error"])
    return (
        f"{score['success']:.1%} [{low:.1%}, {high:.1%}] of {score['n']:.0f} attempts at "
        f"{score['tasks']:.0f} tasks; {score['success_known']:.1%} of the {n_judged} whose "
        "outcome is known"
    )


def _alerts(report: ForeignReport, arguments: str) -> list[str]:
    lines, printed = list[str](), set[str]()
    for alert in report.ranked:
        lines += _alert(report, alert, arguments, printed)
    return lines or ["no alerts"]


def _alert(report: ForeignReport, alert: Alert, arguments: str, printed: set[str]) -> list[str]:
    """Returns the lines of one alert. First lines of attempts in `printed` stand above already."""
    meaning = meaning_of(alert.metric)
    lines = [f"{alert.level:8} {alert.metric}: {alert.message}", f"  what: {meaning.what}"]
    for attempt in report.behind.get(alert.metric, ()):
        lines.append(
            f"  see   {' '.join(filter(None, (attempt.name, attempt.place, attempt.summary)))}"
        )
        lines += [f"        {line}" for line in attempt.lines if attempt.name not in printed]
        printed.add(attempt.name)
    if meaning.then:
        lines += [f"  next: {meaning.then}", f"        {next_command(alert.metric, arguments)}"]
    return lines


def next_command(metric: str, arguments: str) -> str:
    """Returns the command of the next step as typed, or nothing."""
    return meaning_of(metric).command.replace("{asked}", arguments)


def _layer(name: str, metrics: Mapping[str, float], over: Mapping[str, str]) -> list[str]:
    width = max(map(len, metrics))
    return [name, *(_row(f"{name}.{key}", value, width, over) for key, value in metrics.items())]


def _row(metric: str, value: float, width: int, over: Mapping[str, str]) -> str:
    name, basis = metric.partition(".")[2], f" (of {over[metric]})" if metric in over else ""
    row = f"  {name:{width}}  {_number(value):8}  {meaning_of(metric).what}{basis}"
    return row.rstrip()


def _number(value: float) -> str:
    value += 0.0  # no -0
    return f"{value:.0f}" if value == int(value) and abs(value) >= 1 else f"{value:.4g}"
