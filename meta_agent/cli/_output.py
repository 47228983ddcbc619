"""Data on stdout, everything else on stderr.

`--json` promises exactly one document on stdout. While a command works, file descriptor 1 points
at stderr, so that not even a child process or a C library can write between the lines.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import typer

from meta_agent.core.parsing.unseen import unseen

if TYPE_CHECKING:
    from rich.console import RenderableType

T = TypeVar("T")
_PIPE_WIDTH = 120  # columns of a table where there is no terminal to ask


def emit_json(document: Any) -> None:
    """Prints a JSON document on stdout. Invisible characters are written as JSON escapes."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    if not text.isascii():
        text = "".join(
            json.dumps(char)[1:-1] if char != "\n" and unseen(char) else char for char in text
        )
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def emit(
    as_json: bool,
    document: Callable[[], Any],
    drawing: Callable[[], RenderableType],
    *,
    paged: bool = False,
) -> None:
    """Prints `document()` as JSON if `as_json`, else `drawing()` as text. Calls only that one."""
    if as_json:
        emit_json(document())
    else:
        draw(drawing(), paged=paged)


def draw(drawing: RenderableType, *, paged: bool = False) -> None:
    """Prints text for people on stdout; with `paged`, long text on a terminal through a pager."""
    from rich.console import Console, Group

    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else _PIPE_WIDTH, highlight=False)
    if not terminal:  # lines whole; a bare Text would be joined anew, and forget that it is
        console.print(Group(drawing), crop=False)
        return
    if not paged:
        console.print(drawing)
        return
    os.environ.setdefault("LESS", "FRX")  # git's own: what fits on the screen stays on it
    with console.pager(styles=True):
        console.print(drawing)


class Pulse:
    """Prints on a terminal, at most once a second, how many items were read so far."""

    def __init__(
        self, what: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what, self._stream, self._clock = what, stream or sys.stderr, clock
        self._count, self._said = 0, clock()
        self._began = self._said

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """Yields the items unchanged and counts them. Prints nothing if stderr is no terminal."""
        if not self._stream.isatty():
            yield from items
            return
        for item in items:
            yield item
            self._count += 1
            now = self._clock()
            if now - self._said >= 1:
                self._said = now
                line = f"{self._count:,} {self._what}, {now - self._began:.0f} s"
                print(line, file=self._stream, flush=True)


@contextmanager
def stdout_for_data() -> Iterator[None]:
    """Sends what is written to stdout in the `with` block, even by child processes, to stderr."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


def say(line: str) -> None:
    """Prints a line of progress on stderr."""
    from meta_agent.reports import visible

    typer.echo(visible(line), err=True)
