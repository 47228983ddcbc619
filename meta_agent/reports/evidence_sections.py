"""The health of each version: a few metrics side by side, what raised alerts, and all metrics.

A generation has some two hundred metrics. A terminal shows the few, and all of them with `unfold`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from meta_agent.readers.evidence import metric_of
from meta_agent.reports._format import number, value_text
from meta_agent.reports._parts import EvidenceView
from meta_agent.reports.sections import Block, Fold, Folds, Message, Section, Table, Words

_HEADLINE_METRICS: Final = (
    *("score.n", "score.success", "score.clean_success", "score.infra_share"),
    *("signal.reward_mean", "signal.reward_corr_clean", "signal.dead_group_ratio"),
    *("signal.train.entropy.last", "behaviour.turns_mean", "behaviour.tool_failure_rate"),
    *("behaviour.truncation", "behaviour.flagged"),
)
_DIAGNOSTICS: Final = "measured."  # the layer of the harness's own diagnostics


def evidence_section(every: Sequence[EvidenceView], *, every_metric: bool = False) -> Section:
    """Returns a few metrics and the alerts of all versions, then rows that open to all metrics.

    With `every_metric`, the line on how to see the other metrics is left out.
    """
    if not every:
        return Section([])
    folds = []
    for evidence in every:
        alerts = len(evidence.alerts)
        count = Words(f"{alerts} alert{'s' * (alerts > 1)}" if alerts else "", "warn")
        cells = (f"generation {evidence.generation}, version {evidence.version}", count)
        blocks: list[Block] = [
            metrics_table(evidence.layers),
            Folds(list(map(_exemplar, evidence.exemplars))),
        ]
        folds.append(Fold(cells, blocks))
    few = compared(every)[:-1] if every_metric else compared(every)
    return Section([*few, Folds(folds)], "Evidence", "evidence")


def compared(every: Sequence[EvidenceView]) -> list[Block]:
    """Returns a metric table with a column for each version, all alerts, and how to see the rest.

    Rows are headline metrics, metrics with an alert, and the harness's own diagnostics. Those that
    are 0 in every version are left out, but for the score.
    """
    metrics_of = [
        {
            f"{layer}.{name}": value
            for layer, values in evidence.layers.items()
            for name, value in values.items()
        }
        for evidence in every
    ]
    alerts = [(evidence, alert) for evidence in every for alert in evidence.alerts]
    alerted = {str(alert.get("metric")) for _, alert in alerts}
    names = list(dict.fromkeys(name for metrics in metrics_of for name in metrics))
    moved = {n for n in names if any(metrics.get(n) for metrics in metrics_of)}
    first = [n for n in names if n in _HEADLINE_METRICS or n.startswith(_DIAGNOSTICS)]
    first = [n for n in first if n in moved or n.startswith("score.")]
    chosen = first + [n for n in names if n not in first and alerted & {n, n.partition(".")[2]}]
    headings = ("metric", *(f"{evidence.version} (g{evidence.generation})" for evidence in every))
    rows = [(n, *(value_text(metrics.get(n)) for metrics in metrics_of)) for n in chosen]
    warnings: dict[Words, None] = {}  # two generations may read the same version
    for evidence, alert in alerts:
        warnings[Words(f"alert  {evidence.version}: {alert.get('message', '')}", "warn")] = None
        for line in evidence.behind(alert):
            warnings[Words(f"  see {line}", "warn")] = None
    rest = f"metrics not shown: {len(names) - len(chosen)} (--all, --json or --html)"
    return [Table(headings, rows, cut=True), *warnings, Words(rest, "dim")]


def metrics_table(
    layers: Mapping[str, Mapping[str, Any]], over: Mapping[str, str] | None = None
) -> Table:
    """Returns a table of all metrics by layer. `over` maps a metric to what it is a share of."""
    rows = []
    for layer, metrics in layers.items():
        for name, value in metrics.items():
            metric = f"{layer}.{name}"
            basis = f" (of {over[metric]})" if over and metric in over else ""
            rows.append((layer, name, number(value), Words(metric_of(metric).says + basis, "dim")))
    return Table(("layer", "metric", "value", "what it is"), rows, whole=(2,))


def _exemplar(exemplar: Mapping[str, Any]) -> Fold:
    """Returns an attempt that shows a failure: its steps, last words and messages."""
    name = f"{exemplar.get('mode', '')} · {exemplar.get('task_key', '')}"
    messages = [
        Message(str(message.get("role") or ""), str(message.get("content") or ""))
        for message in exemplar.get("messages") or ()
    ]
    steps = Message("steps", "\n".join(map(str, exemplar.get("steps") or ())))
    last_words = Message("last words", str(exemplar.get("last_words") or ""))
    return Fold((name, str(exemplar.get("summary") or "")), [steps, last_words, *messages])
