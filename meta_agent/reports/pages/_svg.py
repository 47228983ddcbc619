"""Charts as inline SVG text: no script, no font, no network.

Colours are CSS classes, so that the page's light and dark schemes both apply. Every chart has a
title for screen readers, and every number in one also stands in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from markupsafe import Markup, escape

from meta_agent.core.protocols import VerdictKind
from meta_agent.reports._format import visible
from meta_agent.reports.sections import PALETTE_SIZE, Curve, Intervals

_VERDICTS: Final = frozenset(kind.value for kind in VerdictKind)
_CLASSES: Final = _VERDICTS | {"version", *(f"c{colour}" for colour in range(PALETTE_SIZE))}


def css_of(kind: str) -> str:
    """Returns `kind` if it is a known CSS class (verdict or palette colour), else `pending`."""
    return kind if kind in _CLASSES else "pending"


def interval_chart(figure: Intervals) -> Markup:
    """Returns an SVG chart of points with error bars over one shared axis."""
    rows, unit, zero = figure.rows, figure.unit, figure.zero
    row_px, left, width, right = 30, 150, 760, 170
    height = row_px * len(rows) + 34
    low, high = _range([value for row in rows for value in row[1:4]], include_zero=zero)

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - right)

    parts = [_grid_x(_ticks(low, high), x, height - 26, unit)]
    if zero:
        parts.append(_line(x(0), 0, x(0), height - 26, "zero"))
    for at, row in enumerate(rows):
        y = row_px * at + 16
        parts += [
            _text(left - 12, y + 4, row.label, "end"),
            _line(x(row.low), y, x(row.high), y, f"bar {css_of(row.kind)}"),
            _circle(x(row.middle), y, 5, css_of(row.kind)),
            _text(width - right + 14, y + 4, row.text, "start"),
        ]
    return _svg(figure.title, width, height, parts)


def line_chart(title: str, curves: Sequence[Curve]) -> Markup:
    """Returns an SVG chart of curves over the training step."""
    width, height, left, bottom, top, right = 370, 190, 46, 26, 10, 10
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y for curve in curves for _, y in curve.points]
    ys += [end for curve in curves for _, *ends in curve.band for end in ends]
    low_x, high_x = min(xs), max(max(xs), min(xs) + 1)
    low, high = _range(ys, include_zero=False)

    def x(value: float) -> float:
        return left + (value - low_x) / (high_x - low_x) * (width - left - right)

    def y(value: float) -> float:
        return top + (high - value) / (high - low) * (height - top - bottom)

    parts = []
    for tick in _ticks(low, high, 4):
        parts += [
            _line(left, y(tick), width - right, y(tick), "grid"),
            _text(left - 6, y(tick) + 4, f"{tick:g}", "end", "tick"),
        ]
    for tick in _whole_ticks(low_x, high_x):
        parts.append(_text(x(tick), height - 8, f"{tick:g}", "middle", "tick"))
    for curve in curves:
        above = [(x(a), y(high)) for a, _, high in curve.band]
        below = [(x(a), y(low)) for a, low, _ in reversed(curve.band)]
        parts.append(_band([*above, *below], curve.colour))
        parts.append(_polyline([(x(a), y(b)) for a, b in curve.points], curve))
    return _svg(title, width, height, parts)


def _grid_x(
    ticks: Iterable[float], x: Callable[[float], float], bottom: float, unit: str
) -> Markup:
    parts = []
    for tick in ticks:
        parts += [
            _line(x(tick), 0, x(tick), bottom, "grid"),
            _text(x(tick), bottom + 16, f"{tick:g}{unit}", "middle", "tick"),
        ]
    return Markup("").join(parts)


def _range(values: Sequence[float], *, include_zero: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    if include_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = (high - low) * 0.06 or max(abs(high), 1.0) * 0.1
    return low - margin, high + margin


def _ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Returns round numbers inside a range."""
    raw = (high - low) / about
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw)
    first = math.ceil(low / step)
    return [round(n * step, 10) for n in range(first, math.floor(high / step) + 1)]


def _whole_ticks(low: float, high: float) -> list[float]:
    return sorted({tick for tick in _ticks(low, high, 5) if tick == int(tick)})


def _svg(title: str, width: float, height: float, parts: Iterable[Markup]) -> Markup:
    opening = Markup(
        '<svg viewBox="0 0 {w:.0f} {h:.0f}" width="{w:.0f}" role="img" aria-label="{title}">'
        "<title>{title}</title>"
    ).format(w=width, h=height, title=visible(title))
    return opening + Markup("").join(parts) + Markup("</svg>")


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> Markup:
    return Markup(
        f'<line class="{escape(css)}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
    )


def _circle(x: float, y: float, radius: float, css: str) -> Markup:
    return Markup(f'<circle class="dot {escape(css)}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>')


def _text(x: float, y: float, text: str, anchor: str, css: str = "") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        css, x, y, anchor, visible(text)
    )


def _band(around: Sequence[tuple[float, float]], colour: int) -> Markup:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in around)
    return (
        Markup('<polygon class="band c{}" points="{}"/>').format(colour, path) if path else Markup()
    )


def _polyline(points: Sequence[tuple[float, float]], curve: Curve) -> Markup:
    if len(points) == 1:
        return _circle(*points[0], 2.5, f"c{curve.colour}")
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup('<polyline class="curve c{}" points="{}"><title>{}</title></polyline>').format(
        curve.colour, path, visible(curve.name)
    )
