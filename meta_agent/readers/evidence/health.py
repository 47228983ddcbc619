"""The health report as plain text, for a proposer to read.

Not covered: colour and HTML (`reports`).
"""

from __future__ import annotations

from collections.abc import Mapping

from meta_agent.core.evidence import Evidence

_LAYERS = ("score", "signal", "behaviour", "conversation", "measured")


def render_text(evidence: Evidence, *, moved: bool = False) -> str:
    """Returns the health report as text. `moved` omits metrics that equal the baseline's."""
    ranked = sorted(evidence.alerts, key=lambda alert: alert.level != "CRITICAL")
    alerts = [f"{a.level:8} {a.metric}: {a.message}" for a in ranked] or ["no alerts"]
    parts = [[_headline(evidence)], alerts]
    parts += [_layer(evidence, layer, moved) for layer in _LAYERS]
    parts += [_quoted(evidence), [f"note: {note}" for note in evidence.notes]]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _headline(evidence: Evidence) -> str:
    score = evidence.score
    if not score.get("n"):
        return "no rollouts"
    return (
        f"clean success {score['clean_success']:.1%} "
        f"[{score['clean_success_low']:.1%}, {score['clean_success_high']:.1%}], "
        f"success {score['success']:.1%}, {score['n']:.0f} rollouts of {score['tasks']:.0f} tasks "
        f"({evidence.comparability})"
    )


def _layer(evidence: Evidence, layer: str, moved: bool) -> list[str]:
    metrics: Mapping[str, float] = getattr(evidence, layer)
    changes = {name: evidence.version.get(f"change.{layer}.{name}") for name in metrics}
    names = [name for name in metrics if changes[name] or not moved]
    width = max(map(len, names), default=0)
    lines = [layer] if names else []
    for name in names:
        value, change = metrics[name], changes[name]
        is_count = value == int(value) and abs(value) >= 1
        text = f"{value:.0f}" if is_count else f"{value:.4g}"
        lines.append(f"  {name:{width}}  {text}" + (f"  ({change:+.4g})" if change else ""))
    return lines


def _quoted(evidence: Evidence) -> list[str]:
    """Returns the attempts behind the alerts on the conversation."""
    text = []
    for kind, lines in evidence.quoted.items():
        if evidence.alert(f"conversation.{kind}"):
            text += [f"{kind}:", *(f"  {line}" for line in lines)]
    return text
