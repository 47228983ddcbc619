"""Tables on paper: rows under headings, and names beside values. No cell is read as markup."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.table import Table
from rich.text import Text

Cell = str | Text


def listed(
    headings: Sequence[str],
    rows: Iterable[Iterable[Cell]] = (),
    *,
    right: Collection[int] = (),
    whole: Collection[int] | None = None,
    cut: bool = False,
) -> Table:
    """Rows under headings. `right` are the columns that end on the right, as numbers do; `whole`
    those that are never wrapped (the same, where nothing is said). Words that are too long fold, or
    with `cut` end in an ellipsis, so that a row stays a line.
    """
    whole = right if whole is None else whole
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, heading in enumerate(headings):
        justify = "right" if at in right else "left"
        table.add_column(
            Text(heading),
            justify=justify,  # type: ignore[arg-type]
            no_wrap=at in whole,
            overflow="ellipsis" if cut or at in whole else "fold",
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return table


def facts_table(rows: Iterable[tuple[str, Cell]] = ()) -> Table:
    """Names and values."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value if isinstance(value, Text) else Text(value))
    return table
