"""Where the parts of a chart stand: numbers for the templates, in pixels or in percent of a width.

Every number in a chart also stands in a table or a fact beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from meta_agent.core.protocols import VerdictKind
from meta_agent.reports.sections import PALETTE_SIZE, Curve, Intervals, Way

_VERDICTS: Final = frozenset(kind.value for kind in VerdictKind)
_CLASSES: Final = _VERDICTS | {"version", *(f"c{colour}" for colour in range(PALETTE_SIZE))}
_POINTS: Final = frozenset({"start", "edit", "bundle", "imitation", "leg", "training"})
_END_PX: Final = 58  # the room of one measurement at the end of a way
_RADIUS_PX: Final = 9
_SMALL_PX: Final = 5


def css_of(kind: str) -> str:
    """Returns `kind` if it is a known CSS class (verdict or palette colour), else `pending`."""
    return kind if kind in _CLASSES else "pending"


class Tick(NamedTuple):
    """A mark of an axis: its place and its text."""

    at: float
    text: str

    @property
    def percent(self) -> str:
        return f"{self.at:.2f}"


class Row(NamedTuple):
    """A row of an interval chart; places are percentages of the track, as text."""

    label: str
    text: str
    css: str
    low: str
    middle: str
    width: str


class Rows(NamedTuple):
    """An interval chart. `zero` is the place of its line at zero, None without one."""

    rows: Sequence[Row]
    ticks: Sequence[Tick]
    zero: str | None


class Line(NamedTuple):
    """A curve: its points and band as SVG lists, or a dot where there is one point alone."""

    name: str
    colour: int
    points: str
    band: str
    dot: tuple[str, str] | None


class Dot(NamedTuple):
    """A numbered point of a way."""

    x: float
    y: float
    number: int
    css: str
    is_kept: bool
    words: str
    radius: int
    """A mark that would hide a number is small, and has no number itself."""


class End(NamedTuple):
    """A measurement at the end of a way, with the ends of its interval."""

    x: float
    y: float
    low: float
    high: float
    label: str
    words: str


class Chart(NamedTuple):
    """A chart in pixels: its axes and what is drawn between them."""

    width: int
    height: int
    first_x: float
    last_x: float
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    lines: Sequence[Line] = ()
    line: str = ""
    marks: Sequence[Dot] = ()
    ends: Sequence[End] = ()


def interval_chart(figure: Intervals) -> Rows:
    """Returns the places of points with error bars over one shared axis."""
    values = [value for row in figure.rows for value in row[1:4]]
    low, high = _range(values, include_zero=figure.zero)

    def place(value: float) -> float:
        return 100 * (value - low) / (high - low)

    rows = [
        Row(
            row.label,
            row.text,
            css_of(row.kind),
            f"{place(row.low):.2f}",
            f"{place(row.middle):.2f}",
            f"{place(row.high) - place(row.low):.2f}" if row.high > row.low else "",
        )
        for row in figure.rows
    ]
    ticks = [Tick(place(tick), f"{tick:g}{figure.unit}") for tick in _ticks(low, high, 4)]
    return Rows(rows, ticks, f"{place(0):.2f}" if figure.zero else None)


def line_chart(curves: Sequence[Curve]) -> Chart:
    """Returns a chart of curves over the training step."""
    width, height, start, bottom, top, right = 370, 190, 54, 26, 10, 10
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y for curve in curves for _, y in curve.points]
    ys += [end for curve in curves for _, *ends in curve.band for end in ends]
    low_x, high_x = min(xs), max(max(xs), min(xs) + 1)
    low, high = _range(ys, include_zero=False)
    x = _scale(low_x, high_x, start, width - right)
    y = _scale(low, high, height - bottom, top)
    lines = []
    for curve in curves:
        above = [(x(a), y(most)) for a, _, most in curve.band]
        below = [(x(a), y(least)) for a, least, _ in reversed(curve.band)]
        points = [(x(a), y(b)) for a, b in curve.points]
        dot = (f"{points[0][0]:.1f}", f"{points[0][1]:.1f}") if len(points) == 1 else None
        band = _path([*above, *below])
        lines.append(Line(curve.name, curve.colour, _path(points), band, dot))
    y_ticks = [Tick(round(y(tick), 1), f"{tick:g}") for tick in _ticks(low, high, 4)]
    steps = sorted({tick for tick in _ticks(low_x, high_x, 5) if tick == int(tick)})
    x_ticks = [Tick(round(x(tick), 1), f"{tick:g}") for tick in steps]
    return Chart(width, height, start, width - right, x_ticks, y_ticks, lines)


def way_chart(way: Way, width: int, height: int) -> Chart:
    """Returns a chart of a run's way in so many pixels: the line steps where something was kept."""
    start, bottom, top = 44, 28, 16
    last = width - 14 - _END_PX * len(way.ends)
    most = max(mark.at for mark in way.rows)
    x = _scale(0, max(most, 1), start + 10, last - 10)
    y = _scale(0, 100, height - bottom, top)
    marks: list[Dot] = []
    for mark in sorted(way.rows, key=lambda mark: mark.is_kept):
        kind = mark.kind if mark.kind in _POINTS else "dropped"
        words = f"{mark.number}: {mark.text}, {mark.percent:.1f} % after {mark.at:,} attempts"
        place = round(x(mark.at), 1), round(y(mark.percent), 1)
        if mark.is_kept and any(other.is_kept and other[:2] == place for other in marks):
            place = place[0] + 2 * _RADIUS_PX, place[1]
        hides = any(_overlap(place, other) for other in marks if other.radius == _RADIUS_PX)
        radius = _RADIUS_PX if mark.is_kept and not hides else _SMALL_PX
        marks.append(Dot(*place, mark.number, kind, mark.is_kept, words, radius))
    ends = [
        End(
            last + _END_PX * (place + 0.5),
            round(y(end.middle), 1),
            round(y(end.low), 1),
            round(y(end.high), 1),
            end.label.partition(",")[0],
            f"{end.label}: {end.text}",
        )
        for place, end in enumerate(way.ends)
    ]
    y_ticks = [Tick(round(y(share), 1), f"{share} %") for share in (0, 25, 50, 75, 100)]
    x_ticks = [Tick(round(x(tick), 1), f"{tick:,.0f}") for tick in _ticks(0, max(most, 1), 4)]
    corners = [(x(mark.at), y(mark.percent)) for mark in way.rows if mark.is_kept]
    return Chart(
        width, height, start, last, x_ticks, y_ticks, (), _path(_stepped(corners)), marks, ends
    )


def _overlap(place: tuple[float, float], other: Dot) -> bool:
    return math.dist(place, (other.x, other.y)) < 2 * _RADIUS_PX - 2


def _stepped(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the corners of a line that stays level until the next point."""
    corners = list(points[:1])
    for x, y in points[1:]:
        corners += [(x, corners[-1][1]), (x, y)]
    return corners


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _range(values: Sequence[float], *, include_zero: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    if include_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = (high - low) * 0.06 or max(abs(high), 1.0) * 0.1
    return low - margin, high + margin


def _ticks(low: float, high: float, about: int) -> list[float]:
    """Returns round numbers inside a range."""
    raw = (high - low) / about
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw)
    first = math.ceil(low / step)
    return [round(n * step, 10) for n in range(first, math.floor(high / step) + 1)]


def _path(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
