"""`meta-agent calibrate`: measures the smallest gain that a budget can prove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from meta_agent.cli._flags import FLAGS, takes
from meta_agent.cli._options import JsonOption
from meta_agent.cli._output import emit, stdout_for_data

if TYPE_CHECKING:
    from meta_agent.core.config import RunConfig

_NOT_ASKED = ("approve", "budget", "replay_match", "skills", "strategy")  # nothing is proposed


@takes(*(name for name in FLAGS if name not in _NOT_ASKED))
def calibrate(
    config: RunConfig,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            help="A/A runs: training seeds, or samples of each task with a frozen policy. "
            "[default: 8, frozen 4]",
            show_default=False,
        ),
    ] = None,
    effect: Annotated[
        float | None,
        typer.Option(
            "--effect",
            metavar="POINTS",
            help="Also say how many attempts it takes to see this gain.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the harness with itself: noise, false promotions, the smallest visible gain."""
    from meta_agent.composition.used import require_used

    require_used(config)
    result = _calibration(config, seeds, effect)
    from meta_agent.reports.terminal.text import calibration

    emit(as_json, lambda: result, lambda: calibration(result))


def _calibration(config: RunConfig, seeds: int | None, effect: float | None) -> Any:
    from meta_agent.reports import open_display
    from meta_agent.studies.calibration import calibrate as measured

    with stdout_for_data():
        display = open_display()
        try:
            share = None if effect is None else effect / 100
            return measured(config, display, seeds=seeds, effect=share)
        finally:
            display.close()
