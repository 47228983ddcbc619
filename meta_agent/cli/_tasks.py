"""Commands for task files: check one, or make one from your package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from meta_agent.cli._flags import command_group, takes
from meta_agent.cli._options import JsonOption
from meta_agent.cli._output import emit, say, stdout_for_data

if TYPE_CHECKING:
    from meta_agent.core.config import RunConfig

tasks_app = command_group("tasks", "Check task files and make new ones.")

OutOption = Annotated[Path, typer.Option("--out", help="The task file to write (JSON lines).")]
CountOption = Annotated[int, typer.Option(min=1, help="Stop at this many tasks.")]
RepeatsOption = Annotated[
    int, typer.Option(min=2, help="Runs of a test suite. Tests whose results differ are ignored.")
]
ImagesOption = Annotated[
    Path | None,
    typer.Option("--images", help="Folder of image tars. [default: FILE.images, and beside FILE]"),
]
JobsOption = Annotated[
    int | None, typer.Option(min=1, help="Sandboxes at the same time. [default: CPU cores]")
]
ImageOption = Annotated[
    str | None,
    typer.Option(
        help="Local image with the dependencies (see meta-agent sandbox build).", show_default=False
    ),
]
PythonOption = Annotated[str, typer.Option(help="The interpreter of the image with pytest.")]
TestsOption = Annotated[
    list[str] | None, typer.Option("--tests", help="Pattern of test files; repeatable.")
]
SourcesOption = Annotated[
    list[str] | None, typer.Option("--sources", help="Pattern of source files; repeatable.")
]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", help="A pytest plugin in the image, such as pytest-asyncio; repeatable."
    ),
]
OriginOption = Annotated[
    Literal["faults", "commits"],
    typer.Option(
        "--from",
        help="faults: planted in functions that tests call. commits: fixes that touch source and "
        "tests.",
    ),
]


@tasks_app.callback()
def _tasks() -> None:
    """Task files."""


@tasks_app.command("check")
@takes("domain", "grade", "threshold", "map", "python", "sandbox", "workspace")
def tasks_check(
    config: RunConfig,
    file: Annotated[
        str | None,
        typer.Argument(
            help="Task file, folder or public name; none for a domain with its own tasks.",
            show_default=False,
        ),
    ] = None,
    jobs: JobsOption = None,
    images: ImagesOption = None,
    manifest: Annotated[
        Path | None, typer.Option(help="File for hashes and answers. [default: FILE.checked.json]")
    ] = None,
    listed: Annotated[
        bool,
        typer.Option("--list", help="List public sets, FILE alone, or reasoning-gym's generators."),
    ] = False,
    pull: Annotated[
        bool, typer.Option("--pull", help="First pull missing images from registries.")
    ] = False,
    images_only: Annotated[
        bool, typer.Option("--images-only", help="Get the tasks' images, and check nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a task file: solutions pass, cheats and empty attempts fail, splits do not overlap."""
    if listed:
        _show_sets(config, file, as_json)
        return
    if pull or images_only:
        if file is None:
            from meta_agent.core.errors import ConfigError

            raise ConfigError(
                "--pull and --images-only get the images of a task file",
                hint="name it: meta-agent tasks check FILE --images-only",
            )
        _get_images(config, Path(file), images, pull, as_json, images_only)
        if images_only:
            return
    from dataclasses import replace

    from meta_agent.composition.inputs import options_of, with_named_tasks
    from meta_agent.domains.check import check_tasks, default_manifest, render, write_manifest
    from meta_agent.reports.terminal.paint import lines

    with stdout_for_data():
        config = config.model_copy(update={"tasks": None if file is None else Path(file)})
        opened_config = with_named_tasks(config, say)
        request = options_of(opened_config, sandbox=_backend(config), run="tasks-check")
        request = replace(request, images=images)
        report = check_tasks(request, jobs=_jobs(jobs), progress=say)
        beside = (
            default_manifest(config.tasks) if config.tasks and opened_config is config else None
        )
        if path := manifest or beside:
            write_manifest(report, path)
    emit(as_json, report.to_json, lambda: lines(render(report).splitlines()))
    if not report.ok:
        raise typer.Exit(1)


def _show_sets(config: RunConfig, name: str | None, as_json: bool) -> None:
    """Shows the public task sets, one of them, or the generators of reasoning-gym."""
    from meta_agent.reports.terminal.paint import lines
    from meta_agent.reports.terminal.text import rows_table

    if name == "reasoning-gym":
        from meta_agent.domains.reasoning_gym import generators

        with stdout_for_data():
            names = generators(config.python)
        text = [f"{name}: {_parameters(options)}" for name, options in names.items()]
        listed = {"schema_version": 1, "generators": dict(names)}
        emit(as_json, lambda: listed, lambda: lines(text))
        return
    from meta_agent.core.errors import ConfigError
    from meta_agent.domains.named import listing

    rows = [row for row in listing() if name in (None, row["name"])]
    if not rows:
        raise ConfigError(
            f"there is no public task set {name}",
            hint="see all names: meta-agent tasks check --list",
        )
    document = {"schema_version": 1, "sets": rows}
    emit(as_json, lambda: document, lambda: rows_table(rows, without="splits"))


def _parameters(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _get_images(
    config: RunConfig, file: Path, images: Path | None, pull: bool, as_json: bool, alone: bool
) -> None:
    """Gets the images that tasks need. Prints them if `alone`; exits with 1 if one is missing."""
    from meta_agent.domains.swe import fetch_images
    from meta_agent.reports.terminal.paint import lines

    engine = _backend(config)
    if config.domain == "harbor":
        from meta_agent.domains.harbor import make_images

        with stdout_for_data():
            tags = make_images(file, engine=engine, pull=pull, progress=say)
        if alone:
            emit(as_json, lambda: {"schema_version": 1, "images": tags}, lambda: lines(list(tags)))
        return
    with stdout_for_data():
        report = fetch_images(file, images=images, engine=engine, pull=pull, progress=say)
    if alone or report.missing:
        rows = [f"{name}  {image[:19]}" for name, image in report.image_ids.items()]
        rows += [f"{name}  missing: {why}" for name, why in report.missing.items()]
        rows.append(f"{len(report.image_ids)} here, {len(report.missing)} missing")
        emit(
            as_json,
            lambda: {"schema_version": 1, "found": report.image_ids, "missing": report.missing},
            lambda: lines(rows),
        )
    if report.missing:
        raise typer.Exit(1)


@tasks_app.command("make")
@takes("sandbox", "seed", "workspace")
def tasks_make(
    config: RunConfig,
    path: Annotated[Path, typer.Argument(help="A package: repository, folder or .tar.gz.")],
    out: OutOption,
    origin: OriginOption = "faults",
    count: CountOption = 40,
    repeats: RepeatsOption = 2,
    jobs: JobsOption = None,
    any_message: Annotated[
        bool, typer.Option("--any-message", help="Also try commits that name no fix.")
    ] = False,
    image: ImageOption = None,
    python: PythonOption = "python3",
    plugin: PluginOption = None,
    tests: TestsOption = None,
    sources: SourcesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make tasks from your package: plant faults that its tests catch, or take its fix commits."""
    from meta_agent.domains.tasks import Bench, Plan, mine, read_package, sandboxes, synthesize
    from meta_agent.reports.terminal.paint import lines

    plan = Plan(count, config.seed, repeats, _jobs(jobs), any_message)
    from_commits = origin == "commits"
    with stdout_for_data():
        package = read_package(path, tests=tests or (), sources=sources or (), mined=from_commits)
        factory = sandboxes(_backend(config), "tasks-make")
        bench = Bench(package, factory, image, python, tuple(plugin or ()))
        if from_commits:
            result = mine(path, bench, out, plan, say)
        else:
            result = synthesize(bench, out, plan, say)
    emit(as_json, result.to_json, lambda: lines(result.lines()))


def _backend(config: RunConfig) -> str:
    return "docker" if config.sandbox == "auto" else config.sandbox


def _jobs(jobs: int | None) -> int:
    return jobs or os.cpu_count() or 1
