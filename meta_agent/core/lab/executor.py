"""Where units of work (trainings and evaluations) are executed.

Not covered: the units themselves (`units`), and a cluster (`cluster`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from meta_agent.core.lab.units import Apparatus, Outputs, Report, Unit
from meta_agent.core.protocols import JSON, HarnessTree


class Executor(Protocol):
    """Executes units of work, at most `width` at a time. Any thread may hand one over."""

    width: int

    def run(self, unit: Unit, tree: HarnessTree, outputs: Outputs, report: Report) -> JSON:
        """Executes a unit and returns its outcome. Its files are at `outputs` afterwards.

        A failure raises the same error as `Apparatus.carry_out`, wherever the unit ran.
        """
        ...

    def close(self) -> None: ...


class LocalExecutor:
    """Executes units of work in this process and its children."""

    def __init__(
        self, apparatus: Apparatus, width: int, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self.width = width
        self._apparatus, self._stopping = apparatus, stopping

    def run(self, unit: Unit, tree: HarnessTree, outputs: Outputs, report: Report) -> JSON:
        return self._apparatus.carry_out(unit, tree, outputs, report, self._stopping)

    def close(self) -> None:
        self._apparatus.policies.close()
