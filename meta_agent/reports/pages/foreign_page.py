"""`report --rollouts F --html OUT`: the health of rollouts of any origin, as one page.

Made of the parts of a run's page, and of what `evidence` says: each number beside a sentence on
what it is, each warning beside the attempts behind it and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from meta_agent.core.evidence import Alert
from meta_agent.readers.evidence import ForeignReport, meaning_of, next_command
from meta_agent.reports._format import number, percent, visible
from meta_agent.reports.pages._svg import Interval, interval_chart
from meta_agent.reports.pages.html import Card, rendered, write_page

_COLOURS: Final = {"CRITICAL": "INVALID", "WARN": "REJECT"}
_TEMPLATE: Final = """{{ head('rollouts') }}
<header><h1>{{ headline }}</h1>
{% for line in read %}<p class="dim">{{ line | visible }}</p>{% endfor %}
<nav><a href="#warnings">Warnings</a><a href="#numbers">Numbers</a>
{% if missing %}<a href="#missing">Not in this data</a>{% endif %}<a href="#next">Next</a></nav>
</header>
{{ cards_of(cards) }}
{% if solved %}<div class="scroll">{{ solved }}</div>
<p class="dim">Bars are 95 % intervals with tasks as the units: attempts at one task are alike.</p>
{% endif %}
<h2 id="warnings">Warnings</h2>
{% for one in alerts %}
<details{% if loop.first %} open{% endif %}><summary><span class="tag {{ one.css }}">{{
one.alert.level | visible }}</span><b>{{ one.alert.metric | visible }}</b> {{
one.alert.message | one_line }}</summary><div>
<table class="facts">
<tr><td>what it is</td><td>{{ one.meaning.what }}</td></tr>
{% if one.meaning.then %}<tr><td>next</td><td>{{ one.meaning.then }}<br><code>{{
one.command | visible }}</code></td></tr>{% endif %}</table>
{% for attempt in one.behind %}<h3>{{ attempt.name | visible }} <span class="dim">{{
attempt.place | visible }}{{ ' · ' if attempt.place and attempt.told }}{{ attempt.told | visible
}}</span></h3>
<div class="msg"><pre>{{ attempt.lines | join('\n') | visible }}</pre></div>{% endfor %}
</div></details>
{% else %}<p>None: nothing here is beyond its limit, or there is too little to say so.</p>
{% endfor %}

<h2 id="numbers">Numbers</h2>
{{ metrics_of(layers) }}
{% if missing %}<h2 id="missing">Not in this data</h2>
{% for line in missing %}<p>{{ line | visible }}</p>{% endfor %}{% endif %}

<h2 id="next">Next</h2>
<table class="facts">{% for what, command in next %}<tr><td>{{ what }}</td><td><code>{{
command | visible }}</code></td></tr>{% endfor %}</table>
<footer>Made by meta-agent. The same numbers: <code>meta-agent report {{ asked | visible }} --json
</code></footer>
</body></html>
"""


def foreign_page(found: ForeignReport, read: Sequence[str], asked: str) -> str:
    """The page. `read`: what became of the rows; `asked`: the arguments of the report."""
    return rendered(
        _TEMPLATE,
        headline=f"{found.n:,} rollouts of {found.tasks:,} tasks",
        read=[line for line in read if line.strip()],
        cards=list(_cards(found)),
        solved=_solved(found),
        alerts=[_alert(found, one, asked) for one in found.ranked],
        layers=found.layers,
        missing=found.missing,
        next=list(_next(found, asked)),
        asked=asked,
    )


def write_foreign_page(found: ForeignReport, read: Sequence[str], asked: str, out: Path) -> None:
    """Writes the page."""
    write_page(foreign_page(found, read, asked), out)


def _cards(found: ForeignReport) -> Iterator[Card]:
    score = found.evidence.score
    if found.benchmarks:
        yield Card("benchmarks", str(len(found.benchmarks)), "their shares do not add up to one")
    elif "success" in score:
        known = f"{percent(score['success_known'])} of those whose outcome is known"
        yield Card("solved", percent(score["success"]), known)
    else:
        yield Card("solved", "unknown", "no outcome in this data")
    each = f"{found.n / found.tasks:.3g} attempts a task" if found.tasks else ""
    yield Card("attempts", f"{found.n:,}", each)
    if "reward_mean" in found.evidence.signal:
        mean = number(found.evidence.signal["reward_mean"])
        yield Card("mean reward", mean, "of an attempt with a reward")
    levels = [alert.level for alert in found.evidence.alerts]
    critical = f"{levels.count('CRITICAL')} critical" if levels else "nothing beyond its limit"
    yield Card("warnings", str(len(levels)), critical)


def _solved(found: ForeignReport) -> Markup | None:
    scores = found.benchmarks or {"all": found.evidence.score}
    rows = []
    for name, score in scores.items():
        if "success" in score:
            middle, low, high = (100 * score[f"success{end}"] for end in ("", "_low", "_high"))
            text = f"{middle:.1f} % [{low:.1f}, {high:.1f}]"
            rows.append(Interval(visible(name), middle, low, high, "version", text))
    return interval_chart("Share solved", rows, unit=" %", zero=False) if rows else None


def _alert(found: ForeignReport, alert: Alert, asked: str) -> dict[str, Any]:
    return {
        "alert": alert,
        "css": _COLOURS[alert.level],
        "meaning": meaning_of(alert.metric),
        "command": next_command(alert.metric, asked),
        "behind": found.behind.get(alert.metric, ()),
    }


def _next(found: ForeignReport, asked: str) -> Iterator[tuple[str, str]]:
    if not found.known["outcome"] and found.known["rewards"] and "--solved-at" not in asked:
        yield "which rewards mean solved", f"meta-agent report {asked} --solved-at 1"
    yield "after a change, on new rollouts", f"meta-agent report {asked} --html after.html"
    yield (
        "let a harness be found",
        "meta-agent evolve --harness AGENT --tasks TASKS --policy PROVIDER/MODEL --dry-run",
    )
