"""The health of each version on paper: a few metrics side by side, or all of them.

A generation has some two hundred metrics. What is read first is the score, how much signal training
had, how attempts ended, whatever raised an alert, and what the harness's own diagnostics measured;
the rest is printed on request, and is in `--json` and on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from meta_agent.reports._format import one_line, value_text, visible
from meta_agent.reports._parts import EvidenceView
from meta_agent.reports.terminal._tables import listed

_HEADLINES: Final = (
    "score.n",
    "score.success",
    "score.clean_success",
    "score.infra_share",
    "signal.reward_mean",
    "signal.reward_corr_clean",
    "signal.dead_group_ratio",
    "signal.train.entropy.last",
    "behaviour.turns_mean",
    "behaviour.tool_failure_rate",
    "behaviour.truncation",
    "behaviour.flagged",
)
_OWN: Final = "measured"  # the layer of the harness's diagnostics


def compared(evidence: Sequence[EvidenceView]) -> RenderableType:
    """One table, a column for each version; then the alerts, and how to see the rest."""
    known = [_flat(one) for one in evidence]
    alerts = [(one.version, alert) for one in evidence for alert in one.alerts]
    shown_by = [line for one in evidence for alert in one.alerts for line in one.behind(alert)]
    names = dict.fromkeys(name for metrics in known for name in metrics)
    shown = [name for name in names if name in _HEADLINES or name.startswith(f"{_OWN}.")]
    shown += [n for n in names if n not in shown and any(_is_about(a, n) for _, a in alerts)]
    versions = (visible(f"{one.version} (g{one.generation})") for one in evidence)
    rows = ([Text(name), *(_value(metrics.get(name)) for metrics in known)] for name in shown)
    table = listed(("metric", *versions), rows, cut=True)
    told = [f"alert  {version}: {alert.get('message', '')}" for version, alert in alerts]
    told += [f"  see {line}" for line in shown_by]
    rest = f"metrics not shown: {len(names) - len(shown)} (--all, --json or --html)"
    return Group(table, *(Text(visible(t), style="yellow") for t in told), Text(rest, style="dim"))


def whole(evidence: EvidenceView) -> RenderableType:
    """Every metric of one version, with the alert it raised."""
    table = listed(("layer", "metric", "value", "alert"), cut=True)
    table.title = f"generation {evidence.generation}, version {visible(evidence.version)}"
    table.title_justify = "left"
    for layer, metrics in evidence.layers.items():
        for name, value in metrics.items():
            raised = [a for a in evidence.alerts if _is_about(a, f"{layer}.{name}")]
            told = "; ".join(one_line(alert.get("message", "")) for alert in raised)
            table.add_row(visible(layer), visible(name), _value(value), Text(told, style="yellow"))
    return table


def _flat(evidence: EvidenceView) -> dict[str, Any]:
    return {
        visible(f"{layer}.{name}"): value
        for layer, metrics in evidence.layers.items()
        for name, value in metrics.items()
    }


def _is_about(alert: Mapping[str, Any], name: str) -> bool:
    return str(alert.get("metric")) in (name, name.partition(".")[2])


def _value(value: Any) -> Text:
    return Text("–" if value is None else visible(value_text(value)))
