"""Where units are carried out.

Not covered: units themselves (`units`), and a cluster (`cluster`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from meta_agent.core.lab.units import Apparatus, Outputs, Report, Unit
from meta_agent.core.protocols import JSON, HarnessTree


class Executor(Protocol):
    """Carries units out, as many at a time as `width` says. Any thread may hand one over."""

    width: int

    def run(self, unit: Unit, tree: HarnessTree, outputs: Outputs, report: Report) -> JSON:
        """The unit's outcome; its files lie at `outputs` once this returns.

        A failure of the unit raises as it does in `Apparatus.carry_out`, wherever it ran.
        """
        ...

    def close(self) -> None: ...


class LocalExecutor:
    """In this process and children of it."""

    def __init__(
        self, apparatus: Apparatus, width: int, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self.width = width
        self._apparatus, self._stopping = apparatus, stopping

    def run(self, unit: Unit, tree: HarnessTree, outputs: Outputs, report: Report) -> JSON:
        return self._apparatus.carry_out(unit, tree, outputs, report, self._stopping)

    def close(self) -> None:
        self._apparatus.policies.close()
