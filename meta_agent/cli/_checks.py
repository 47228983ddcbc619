"""Commands that check: doctor, tasks check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meta_agent.cli._flags import takes
from meta_agent.cli._options import JsonOption
from meta_agent.cli._output import emit, stdout_for_data

if TYPE_CHECKING:
    from meta_agent.config import RunConfig

PREFLIGHT_EXIT_CODE = 3

tasks_app = typer.Typer(help="Task files.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Adds this group's commands."""
    app.command()(doctor)


@takes("policy", "meta_model", "models", "base_urls", "key_env", "tasks", "sandbox", "workspace")
def doctor(
    config: RunConfig,
    live: Annotated[
        bool, typer.Option("--live", help="Also see whether servers of --base-url answer.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check what a run needs on this machine; each failing row names its fix."""
    from meta_agent.doctor import examine
    from meta_agent.view.text import checks

    with stdout_for_data():
        health = examine(config, live=live)
    emit(as_json, health.to_json, lambda: checks(health.rows()))
    if not health.ok:
        raise typer.Exit(PREFLIGHT_EXIT_CODE)


@tasks_app.callback()
def _tasks() -> None:
    """Task files."""


@tasks_app.command("check")
@takes("sandbox", "workspace")
def tasks_check(
    config: RunConfig,
    file: Annotated[Path, typer.Argument(help="Task file in SWE-bench form, JSON lines.")],
    as_json: JsonOption = False,
) -> None:
    """Check a task file: gold patches pass, empty patches and cheats do not."""
    from meta_agent.domains.check import check_file, render
    from meta_agent.view.text import lines

    backend = "docker" if config.sandbox == "auto" else config.sandbox
    with stdout_for_data():
        found = check_file(file, sandbox=backend, progress=lambda line: typer.echo(line, err=True))
    emit(as_json, found.to_json, lambda: lines(render(found).splitlines()))
    if not found.ok:
        raise typer.Exit(1)
