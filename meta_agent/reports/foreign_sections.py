"""`report --rollouts`: the health of rollouts of any origin, for the terminal and as a page.

Each number stands beside a sentence on what it is, each warning beside the attempts behind it and
what to do next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from meta_agent.core.evidence import Alert
from meta_agent.readers.evidence import metric_of
from meta_agent.readers.foreign import ForeignReport
from meta_agent.reports.evidence_sections import metrics_table
from meta_agent.reports.sections import (
    Block,
    Cell,
    Facts,
    Fold,
    Folds,
    Interval,
    Intervals,
    Message,
    Page,
    Section,
    Words,
    present,
)

WARNINGS: Final = "warnings"
"""The anchor of the section whose rows a terminal opens."""
_POLICIES: Final = 5
_COLOURS: Final = {"CRITICAL": "INVALID", "WARN": "REJECT"}
_NO_WARNING: Final = "None: nothing here is beyond its limit, or there is too little to say so."
_BARS: Final = "Bars are 95 % intervals with tasks as the units: attempts at one task are alike."


def foreign_page(report: ForeignReport, lines: Sequence[str], arguments: str) -> Page:
    """Returns the page of a health report on rollouts of any origin.

    `lines` says how many rows were read or skipped. Suggested commands repeat `arguments`, those of
    the report's command line.
    """
    alerts = [_alert(report, alert, arguments) for alert in report.ranked]
    if alerts:
        alerts[0] = alerts[0]._replace(opened=True)
    shares = Intervals("Share solved", list(_shares(report)), caption=_BARS)
    sections = present(
        Section([Facts(list(_solved(report))), shares]),
        Section([Folds(alerts) if alerts else Words(_NO_WARNING)], "Warnings", WARNINGS),
        Section([metrics_table(report.layers, report.over)], "Numbers", "numbers"),
        Section([Words(line) for line in report.missing], "Not in this data", "missing"),
    )
    headline = f"{report.n:,} rollouts of {report.tasks:,} tasks {_policies(report)}"
    command = f"meta-agent report {arguments} --json"
    footer = Words("Made by meta-agent. The same numbers:", command=command)
    intro = [line for line in lines if line.strip()]
    return Page("rollouts", headline, intro, sections, footer)


def _policies(report: ForeignReport) -> str:
    names = sorted(report.policies, key=lambda name: -report.policies[name])
    if names == ["unknown"]:
        return "(the data does not name the policy)"
    return f"by {', '.join(names[:_POLICIES])}{', ...' * (len(names) > _POLICIES)}"


def _solved(report: ForeignReport) -> Iterator[tuple[str, str]]:
    """Yields the success of all attempts, or of each benchmark, since those do not add up."""
    if report.benchmarks:
        words = f"{len(report.benchmarks)} benchmarks, whose shares do not add up to one"
        yield "success", words
    if "success" in report.evidence.score:
        for name, score in (report.benchmarks or {"success": report.evidence.score}).items():
            yield name, _success(score)
    else:
        yield "success", f"not in this data ({_how_to_judge(report)})"


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


def _shares(report: ForeignReport) -> Iterator[Interval]:
    scores = report.benchmarks or {"all": report.evidence.score}
    for name, score in scores.items():
        if "success" in score:
            middle, low, high = (100 * score[f"success{end}"] for end in ("", "_low", "_high"))
            text = f"{middle:.1f} % [{low:.1f}, {high:.1f}]"
            yield Interval(name, middle, low, high, "version", text)


def _alert(report: ForeignReport, alert: Alert, arguments: str) -> Fold:
    meaning = metric_of(alert.metric)
    rows: list[tuple[str, Cell]] = [("what it is", meaning.says)]
    if meaning.then:
        command = meaning.command.replace("{asked}", arguments)
        rows.append(("next", Words(meaning.then, command=command)))
    blocks: list[Block] = [Facts(rows)]
    for attempt in report.behind.get(alert.metric, ()):
        place = " · ".join(part for part in (attempt.place, attempt.summary) if part)
        blocks.append(Message(f"{attempt.name} {place}", "\n".join(attempt.lines)))
    level = Words(alert.level, kind=_COLOURS[alert.level])
    return Fold((level, Words(alert.metric, "strong"), alert.message), blocks)
