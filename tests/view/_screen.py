"""A recorded run as the reports read it, and what a terminal shows."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from meta_agent.core.ledger import Ledger
from meta_agent.reports import RunState, reduce

from ._sample import write_sample


def printed(drawing: RenderableType, width: int = 140) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(drawing)
    return stream.getvalue()


def state_of(path: Path, **how: Any) -> RunState:
    """The state of a sample run that is written to this path."""
    write_sample(path, **how)
    with Ledger.open(path, owner_lock=False) as ledger:
        return reduce(ledger)


def missing(text: str, *parts: str) -> list[str]:
    """The parts that a text does not hold, whatever its spacing."""
    flat = " ".join(text.split())
    return [part for part in parts if part not in flat]
