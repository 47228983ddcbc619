"""What a calibration found, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType

from meta_agent.reports._calibration import lines
from meta_agent.reports._format import visible
from meta_agent.reports.terminal._tables import facts_table


def calibration(told: Mapping[str, Any]) -> RenderableType:
    """All of `meta-agent calibrate`."""
    return facts_table((name, visible(value)) for name, value in lines(told))
