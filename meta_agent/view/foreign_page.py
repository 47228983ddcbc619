"""`report --rollouts F --html OUT`: the health of rollouts of any origin, as one page.

Each number stands beside a sentence that says what it is, each warning beside the rollouts behind
it and what to do next. A single rollout is no ground for a warning.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from meta_agent.evidence import ForeignReport

# By the beginning of a metric's name: what it is, and what to do where it is bad.
MEANINGS: Final[tuple[tuple[str, str, str], ...]] = (
    ("success", "Share of attempts that solved their task.", "Read failed attempts first."),
    ("clean", "Solved, and without flagged conduct.", "Read the flagged attempts."),
    ("dead_group", "Groups whose rewards are all equal: they teach nothing.",
     "Mix the difficulty of tasks, or give partial rewards."),
    ("reward", "How rewards spread, and whether they follow what they should.",
     "Compare the best and the worst attempt of one task."),
    ("flag", "Conduct that the environment saw and that does not count as honest work.",
     "Close the leak before comparing anything."),
    ("leak", "Answers that the agent could read.", "Close the leak before comparing anything."),
    ("tool", "How tools were called, and how often that failed.",
     "Read failed calls: schema, arguments, messages."),
    ("turn", "Calls of the model in an attempt.", "Look whether attempts end for want of turns."),
    ("stop", "How attempts ended.", "Raise the limit that ends most, or shorten the work."),
    ("trunc", "Attempts that were cut.", "Raise the limit that cuts them."),
    ("empty", "Attempts in which nothing was said or handed in.", "Look at the prompt's end."),
    ("duplicates", "Attempts that repeat another word for word.", "Raise the temperature."),
    ("looping", "Attempts that end in the same words over and over.",
     "Look at the stop tokens and the length limit."),
    ("chars", "How much the model wrote, in characters.", "Compare solved and failed attempts."),
    ("suspect", "Tool calls that look like a way around the task.", "Read those attempts."),
    ("group", "Attempts of a group.", "Groups of one cannot be compared."),
    ("entropy", "How sure the policy is of its tokens.", "A collapse shows before scores do."),
)  # fmt: skip
_PLAIN: Final = ("A figure over the rollouts that hold what it needs.", "Compare it between runs.")
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}table{border-collapse:collapse;width:100%}td,th{text-align:left;"
    "padding:.25rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}.CRITICAL{color:#a00}"
    ".WARN{color:#850}td.n{text-align:right;font-variant-numeric:tabular-nums}small{color:#666}"
)


def meaning_of(metric: str) -> tuple[str, str]:
    """What a metric is, and what to do next."""
    name = metric.rpartition(".")[2] if "." in metric and "suspect" not in metric else metric
    found = (row[1:] for row in MEANINGS if name.startswith(row[0]) or row[0] in name)
    return next(found, _PLAIN)


def foreign_page(found: ForeignReport, read: Sequence[str]) -> str:
    """The page. `read`: what became of the rows of the files."""
    evidence = found.evidence
    parts = [
        f"<h1>{found.n} rollouts of {found.tasks} tasks</h1>",
        _list(read),
        _alerts(found),
        *(
            _layer(name, values)
            for name, values in (
                ("Score", evidence.score),
                ("Signal", evidence.signal),
                ("Behaviour", evidence.behaviour),
                ("Shape", found.shape),
            )
        ),
        "<h2>Not in this data</h2>" + _list(found.missing) if found.missing else "",
    ]
    body = "\n".join(part for part in parts if part)
    head = f"<meta charset='utf-8'><title>Rollouts</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{body}</body></html>\n"


def _alerts(found: ForeignReport) -> str:
    if not found.evidence.alerts:
        return "<p>No warnings.</p>"
    rows = []
    for alert in sorted(found.evidence.alerts, key=lambda one: one.level != "CRITICAL"):
        what, then = meaning_of(alert.metric)
        behind = ", ".join(getattr(alert, "rollouts", ()) or ())
        rows.append(
            f"<tr><td class='{_text(alert.level)}'>{_text(alert.level)}</td>"
            f"<td>{_text(alert.message)}<br><small>{_text(alert.metric)}: {_text(what)}"
            f"{' Rollouts: ' + _text(behind) if behind else ''}</small></td>"
            f"<td>{_text(then)}</td></tr>"
        )
    head = "<tr><th></th><th>What</th><th>Next</th></tr>"
    return f"<h2>Warnings</h2><table>{head}{''.join(rows)}</table>"


def _layer(name: str, values: Mapping[str, float]) -> str:
    if not values:
        return ""
    rows = "".join(
        f"<tr><td>{_text(metric)}</td><td class='n'>{value:.4g}</td>"
        f"<td>{_text(meaning_of(metric)[0])}</td></tr>"
        for metric, value in values.items()
    )
    return f"<h2>{name}</h2><table>{rows}</table>"


def _list(lines: Iterable[str]) -> str:
    rows = "".join(f"<li>{_text(line)}</li>" for line in lines if line.strip())
    return f"<ul>{rows}</ul>" if rows else ""


def _text(value: object) -> str:
    return html.escape(str(value))


def write_foreign_page(found: ForeignReport, read: Sequence[str], out: Path) -> None:
    """Writes the page."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(foreign_page(found, read), encoding="utf-8")
