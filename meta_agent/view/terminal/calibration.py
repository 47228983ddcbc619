"""What a calibration found, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from meta_agent.view._calibration import lines
from meta_agent.view._format import visible
from meta_agent.view.terminal.text import facts_table


def calibration(told: Mapping[str, Any]) -> RenderableType:
    """All of `meta-agent calibrate`."""
    table = facts_table()
    for name, value in lines(told):
        table.add_row(name, Text(visible(value)))
    return table
