"""The apparatus of the tests with Ray, on the driver and on every node: nano, real sandboxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meta_agent.backtest.measured import LabSettings
from meta_agent.backtest.policies import ChildPolicies
from meta_agent.backtest.units import Apparatus
from meta_agent.domains import load_domain


def settings(folder: Path) -> LabSettings:
    return LabSettings("r", "nano", "process", 1, 1, folder / "checkpoints", 0)


def apparatus(told: Any) -> Apparatus:
    return Apparatus(settings(Path(told["folder"])), load_domain("swe"), ChildPolicies(1))
