"""Commands about sandboxes: build the image, remove what a killed run left."""

from __future__ import annotations

from typing import Annotated

import typer

from meta_agent.cli._options import EngineOption, JsonOption, WorkspaceOption
from meta_agent.cli._output import emit, stdout_for_data

sandbox_app = typer.Typer(help="Sandboxes.", no_args_is_help=True, rich_markup_mode=None)


@sandbox_app.command()
def build(
    engine: EngineOption = "docker",
    force: Annotated[bool, typer.Option("--force", help="Build even if it is up to date.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build the base image of the sandboxes that are containers, without a registry."""
    from meta_agent.reports.terminal.text import facts
    from meta_agent.sandboxes import BASE_IMAGE, build_base_image

    del workspace  # one image serves every workspace; the option exists on every command
    with stdout_for_data():
        image_id = build_base_image(
            lambda line: typer.echo(line, err=True), engine=engine, force=force
        )
    rows = {"schema_version": 1, "image": BASE_IMAGE, "id": image_id}
    emit(as_json, lambda: rows, lambda: facts(rows))


@sandbox_app.command()
def reap(
    images: Annotated[
        bool,
        typer.Option("--images", help="Also remove sealed task images; runs make them again."),
    ] = False,
    engine: EngineOption = "docker",
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove sandboxes whose run is gone. Only this installation's own."""
    from meta_agent.reports.terminal.text import lines
    from meta_agent.sandboxes import reap as remove_orphans
    from meta_agent.sandboxes import reap_images

    del workspace
    removed = [*remove_orphans(), *(reap_images(engine) if images else ())]
    text = [f"removed {name}" for name in removed] or ["nothing to remove"]
    emit(as_json, lambda: {"schema_version": 1, "removed": removed}, lambda: lines(text))
