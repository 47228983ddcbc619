"""The model of every screen: sections of sentences, facts, tables and figures, without layout.

A screen is derived once, as data. `terminal.paint` prints it and `pages.html` makes a page of it,
so the two cannot disagree. Texts in these blocks are raw: both renderers spell out control
characters, and neither reads a text as markup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, NamedTuple

Style = Literal["", "dim", "strong", "good", "warn", "bad"]


class Words(NamedTuple):
    """A sentence or table cell. A verdict `kind` colours it, and `command` can be typed next."""

    text: str
    style: Style = ""
    kind: str = ""
    command: str = ""


Cell = str | Words


class Facts(NamedTuple):
    """Rows of a name and a value. A terminal cuts a value at `limit` characters; 0 cuts nothing."""

    rows: Sequence[tuple[str, Cell]]
    limit: int = 500


class Table(NamedTuple):
    """Rows under headings. `numbers` are indices of columns aligned right, never wrapped."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: Collection[int] = ()
    whole: Collection[int] = ()
    """Other columns that a terminal never wraps."""
    cut: bool = False
    """Whether long words end in an ellipsis, so that a row stays a line."""
    limit: int = 240
    """A terminal cuts a cell at so many characters; 0 cuts nothing."""


class Patch(NamedTuple):
    """A git patch, as a block of a screen or page."""

    text: str


class Message(NamedTuple):
    """A message of a conversation: its speaker and its text."""

    speaker: str
    text: str


class Fold(NamedTuple):
    """A row of table cells that a reader can open to show further blocks."""

    cells: Sequence[Cell]
    blocks: Sequence[Block]
    opened: bool = False


class Folds(NamedTuple):
    """Rows that a reader can open to show more. A terminal opens those that its caller names."""

    folds: Sequence[Fold]
    headings: Sequence[str] = ()
    """Without headings a terminal shows nothing of rows that stay closed."""
    whole: Collection[int] = ()


# --- figures: drawn on pages alone; every number in one also stands in a table or a fact ---------


PALETTE_SIZE: Final = 10


class Interval(NamedTuple):
    """One row of an interval chart. `kind` colours it: a verdict, or a palette class."""

    label: str
    middle: float
    low: float
    high: float
    kind: str
    text: str


class Curve(NamedTuple):
    """One line of a line chart. `band` holds (x, lowest, highest) over training seeds."""

    name: str
    colour: int
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()


class Intervals(NamedTuple):
    """A chart of points with error bars over one shared axis. `zero` draws a line at zero."""

    title: str
    rows: Sequence[Interval]
    unit: str = " %"
    zero: bool = False
    caption: str = ""


class Curves(NamedTuple):
    """Line charts over the training step, by metric, with one legend (name and colour) for all.

    The colour `PALETTE_SIZE` is a grey, for curves that have no colour of their own.
    """

    legend: Sequence[tuple[str, int]]
    charts: Sequence[tuple[str, Sequence[Curve]]]
    caption: str = ""


class Mark(NamedTuple):
    """A point of a `Way`: attempts, a share in percent, and the number that the table names it by.

    `kind` says what was measured; `is_kept` says whether the search went on from it.
    """

    at: int
    percent: float
    number: int
    kind: str
    text: str
    is_kept: bool = True


class Way(NamedTuple):
    """A chart of clean success over attempts. `ends` are measurements on other tasks."""

    title: str
    rows: Sequence[Mark]
    ends: Sequence[Interval] = ()
    caption: str = ""


class Bars(NamedTuple):
    """Bars from zero, each with a label, a length and the same length as text."""

    title: str
    rows: Sequence[tuple[str, float, str]]
    caption: str = ""


AttemptStatus = Literal["solved", "failed", "flagged", "lost"]


class Attempt(NamedTuple):
    """One attempt at one task: how it ended, and what was written after its version's prompt."""

    status: AttemptStatus
    words: str
    messages: Sequence[Message] = ()
    number: int = 0


class TaskRow(NamedTuple):
    """A task, and the attempts of each version at it; without attempts the version's are empty."""

    key: str
    words: str
    attempts: Sequence[Sequence[Attempt]]


class Attempts(NamedTuple):
    """A map of versions against tasks, and the conversations that its cells lead to."""

    versions: Sequence[str]
    rows: Sequence[TaskRow]
    prompts: Sequence[Sequence[Message]]
    """By version, the messages that all of its attempts begin with."""
    caption: str = ""


Figure = Intervals | Curves | Way | Bars | Attempts
Block = Words | Facts | Table | Patch | Message | Folds | Figure


class Section(NamedTuple):
    """Blocks of a report under one title. The index of a page leaves out untitled sections."""

    blocks: Sequence[Block]
    title: str = ""
    anchor: str = ""


class Page(NamedTuple):
    """A whole page: headline, introductory lines, and sections."""

    title: str
    headline: str
    lines: Sequence[str]
    sections: Sequence[Section]
    footer: Words = Words("Made by meta-agent.")


# What a block holds stands in one of these fields.
_CONTENTS: Final = ("text", "command", "rows", "folds", "charts")


def present(*sections: Section) -> list[Section]:
    """Returns the sections that are not empty, each without its empty blocks."""
    parts = [Section(filled(part.blocks), part.title, part.anchor) for part in sections]
    return [section for section in parts if section.blocks]


def filled(blocks: Iterable[Block]) -> list[Block]:
    """Returns the blocks that have content, such as rows, text or curves."""
    return [block for block in blocks if any(getattr(block, name, None) for name in _CONTENTS)]
