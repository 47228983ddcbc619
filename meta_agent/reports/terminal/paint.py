"""Prints sections with rich: headings, facts beside their names, tables. No cell is markup.

A width that is too small folds words. Every verdict is also a word: colour adds and never carries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from meta_agent.reports._format import one_line, visible
from meta_agent.reports.sections import (
    Block,
    Cell,
    Facts,
    Folds,
    Message,
    Page,
    Patch,
    Section,
    Table,
    Words,
    filled,
)

_STYLES: Final = {
    **{"dim": "dim", "strong": "bold", "good": "green"},
    **{"warn": "yellow", "bad": "bold red"},
}
_VERDICTS: Final = {
    "PROMOTE": "bold green",
    "REJECT": "yellow",
    "INVALID": "bold red",
    "INCONCLUSIVE": "cyan",
}
_GAP: Final = 2
_LEAST_ROOM: Final = 24  # columns that the last cell of a row needs to be read
_LONGEST_CELL: Final = 240  # of a row that opens


def painted(sections: Iterable[Section | Block], *, unfold: Collection[str] = ()) -> RenderableType:
    """Returns sections for rich to print. `unfold` holds anchors of sections with rows to open."""
    parts: list[RenderableType] = []
    for section in sections:
        blocks = section.blocks if isinstance(section, Section) else [section]
        opened = isinstance(section, Section) and section.anchor in unfold
        lines = [line for block in filled(blocks) for line in _lines(block, opened)]
        if isinstance(section, Section) and section.title and lines:
            lines = [Text(visible(section.title), style="bold underline"), *lines]
        parts += [Text(), *lines] if parts and lines else lines
    return Group(*parts)


def painted_page(
    page: Page, *, unfold: Collection[str] = (), without: Collection[str] = ()
) -> RenderableType:
    """Returns a page for the terminal: lines, headline, sections but those of anchors `without`."""
    lines = [*(Words(line, "dim") for line in page.lines), Words(page.headline, "strong")]
    sections = [section for section in page.sections if section.anchor not in without]
    return painted([Section(lines), *sections], unfold=unfold)


def patch_text(patch: str) -> Text:
    """Returns a git patch with added and removed lines coloured and control characters escaped."""
    text = Text(no_wrap=True, overflow="ignore")
    for line in visible(patch).splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        text.append(line + "\n", style="bold" if line.startswith(("+++", "---", "diff")) else style)
    return text


def lines(texts: Iterable[str]) -> Text:
    """Returns lines for the terminal, which it does not wrap, with control characters escaped."""
    return Text("\n".join(map(visible, texts)), no_wrap=True, overflow="ignore")


def _table(block: Table) -> RenderableType:
    """Returns a table for the terminal, whose last column may go below its row."""
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    for column, heading in enumerate(block.headings):
        stiff = column in block.numbers or column in block.whole
        table.add_column(
            Text(visible(heading)),
            justify="right" if column in block.numbers else "left",
            no_wrap=stiff,
            overflow="ellipsis" if block.cut or stiff else "fold",
        )
    cells = [[_cell(cell, block.limit) for cell in row] for row in block.rows]
    for row in cells:
        table.add_row(*row)
    return (
        table if block.cut else _Folding(table, [[Text(name) for name in block.headings], *cells])
    )


class _Folding:
    """A table whose last column goes below its row if the terminal leaves it too little room."""

    def __init__(self, table: RichTable, rows: Sequence[Sequence[Text]]) -> None:
        self._table, self._rows = table, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = list(zip(*(row[:-1] for row in self._rows), strict=True))
        widths = [max(cell.cell_len for cell in column) for column in columns]
        room = options.max_width - sum(widths) - _GAP * len(widths)
        longest = max(row[-1].cell_len for row in self._rows)
        if room >= min(longest, _LEAST_ROOM):
            yield self._table
            return
        for row in self._rows[1:]:
            pairs = zip(row[:-1], widths, strict=True)
            cells = [Text.assemble(cell, " " * (width - cell.cell_len)) for cell, width in pairs]
            yield Text(" " * _GAP).join(cells)
            yield Padding(row[-1], (0, 0, 0, 2 * _GAP))


def _lines(block: Block, unfold: bool) -> Iterator[RenderableType]:
    match block:
        case Words():
            yield _cell(block, 0)
        case Facts():
            yield _facts(block)
        case Table():
            yield _table(block)
        case Folds():
            yield from _folds(block, unfold)
        case Patch():
            yield patch_text(block.text)
        case Message():
            yield Text(f"{visible(block.speaker)}: {visible(block.text)}")
        case _:  # figures and cards: the facts and tables beside them hold the same numbers
            return


def _facts(block: Facts) -> RichTable:
    table = RichTable.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in block.rows:
        table.add_row(visible(name), _cell(value, block.limit))
    return table


def _folds(block: Folds, unfold: bool) -> Iterator[RenderableType]:
    if block.headings:
        yield _table(Table(block.headings, [fold.cells for fold in block.folds], whole=block.whole))
    for fold in block.folds if unfold else ():
        yield Text()
        yield Text("  ").join(_cell(cell, _LONGEST_CELL) for cell in fold.cells)
        for inner in filled(fold.blocks):
            yield from _lines(inner, unfold)


def _cell(cell: Cell, limit: int) -> Text:
    words = cell if isinstance(cell, Words) else Words(cell)
    text = one_line(words.text, limit) if limit else visible(words.text)
    style = _VERDICTS.get(words.kind, "dim") if words.kind else _STYLES.get(words.style, "")
    drawn = Text(text, style=style)
    return drawn.append(f"\n{visible(words.command)}", style="bold") if words.command else drawn
