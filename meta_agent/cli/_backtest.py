"""`backtest`: tries a branch on stored rollouts, and shows how good predictions were."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meta_agent.cli._options import JsonOption, WorkspaceOption
from meta_agent.cli._output import emit
from meta_agent.cli._review import reading


def backtest(
    version: Annotated[
        str | None,
        typer.Argument(
            metavar="[BRANCH|COMMIT]",
            help="Candidate, branch or commit of the harness. Default: the newest candidate.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Compare with this. Default: the base of a candidate, else main."),
    ] = None,
    rollouts: Annotated[
        str | None,
        typer.Option(
            help="Rollouts of a run or shard. Default: the training rollouts of --against."
        ),
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option(help="Also try this lower ceiling on turns.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Also try this lower ceiling on generated tokens.")
    ] = None,
    history: Annotated[
        bool,
        typer.Option("--history", help="Show how predictions and replays matched the results."),
    ] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score stored rollouts under a change of reward, filter, limits or diagnostics."""
    if history:
        _history(workspace, as_json)
        return
    from meta_agent.cli._output import stdout_for_data
    from meta_agent.core.replay.ceilings import Ceiling
    from meta_agent.reports.terminal.backtested import backtested as drawing
    from meta_agent.studies.backtested import backtest as replay_stored

    limited = max_turns is not None or max_tokens is not None
    limits = Ceiling(max_turns, max_tokens) if limited else None
    with reading(workspace) as (place, ledger), stdout_for_data():
        result = replay_stored(
            place, ledger, version, against=against, rollouts=rollouts, ceiling=limits
        )
    document = result.to_json()
    emit(as_json, lambda: document, lambda: drawing(document))


def _history(workspace: Path | None, as_json: bool) -> None:
    from meta_agent.reports.terminal.backtested import history as drawing
    from meta_agent.studies.forecasts import forecasts, predictions_json

    with reading(workspace) as (_, ledger):
        predictions = predictions_json(forecasts(ledger))
    document = {"schema_version": 1, **predictions}
    emit(as_json, lambda: document, lambda: drawing(document))
