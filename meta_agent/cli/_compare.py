"""`meta-agent compare`: runs search strategies side by side, at equal budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meta_agent.cli._flags import ROLE_FLAGS, TASK_FLAGS, TRAINING_FLAGS, takes
from meta_agent.cli._options import JsonOption
from meta_agent.cli._output import emit, stdout_for_data
from meta_agent.core.setting_table import WAYS

if TYPE_CHECKING:
    from meta_agent.core.config import RunConfig

DEFAULT_FOLDER = Path("meta-agent-comparison")


@takes(
    *TASK_FLAGS,
    *("generations", "candidates", "budget", "seed", "train_steps"),
    *TRAINING_FLAGS,
    *("samples", "profile", "harness", "policy", "meta_model"),
    *ROLE_FLAGS,
    *("sandbox", "allow_unsafe_process", "concurrency", "threads", "jobs"),
)
def compare(
    config: RunConfig,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="With --by: two result files. Default: run the conditions.", show_default=False
        ),
    ] = None,
    conditions: Annotated[
        str,
        typer.Option(
            "--conditions", "--arms", help=f"Search strategies: {WAYS}; or harness-alone."
        ),
    ] = "full,static,score-only",
    arms: Annotated[
        list[str] | None,
        typer.Option(
            "--arm",
            metavar="human:FOLDER|REF",
            help="A harness by a person: one long training at the same budget. May be repeated.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", help="Runs of each condition, from --seed upwards.")
    ] = 5,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the workspaces of the runs.")
    ] = DEFAULT_FOLDER,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the result as a page.", show_default=False)
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", help="Pair two result files of any tool: by task.", show_default=False
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show finished runs; run nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare search strategies, or two result files. The same command resumes."""
    if by is not None or files:
        _two_files(files or [], by or "task", as_json)
        return
    from meta_agent.composition.used import require_used

    require_used(config)
    with stdout_for_data():
        names = [name.strip() for name in conditions.split(",") if name.strip()]
        document, stopped = _compare(config, names, arms or [], seeds, out, read_only)
    from meta_agent.reports.comparison_sections import comparison_page
    from meta_agent.reports.pages.html import rendered, write_page
    from meta_agent.reports.terminal.paint import painted_page

    if html is not None:
        write_page(rendered(comparison_page(document)), html)
    emit(as_json, lambda: document, lambda: painted_page(comparison_page(document)))
    if stopped:
        raise stopped[0]


def _compare(
    config: RunConfig, names: list[str], arms: list[str], seeds: int, out: Path, read_only: bool
) -> tuple[dict[str, Any], list[Exception]]:
    from meta_agent.composition.evolve import evolve
    from meta_agent.reports.terminal.display import beside
    from meta_agent.studies.conditions import carry_out, declare, human_condition
    from meta_agent.studies.conditions_results import report, results_of

    folder = out.expanduser().absolute()
    names += [human_condition(arm, config.workspace, folder) for arm in arms]
    comparison = declare(config, names, seeds, folder)
    stopped = {} if read_only else carry_out(comparison, evolve, beside())
    return report(comparison, results_of(comparison)), list(stopped.values())


def _two_files(names: list[str], by: str, as_json: bool) -> None:
    from meta_agent.core.errors import ConfigError
    from meta_agent.reports.comparison_sections import files_sections
    from meta_agent.reports.terminal.paint import painted
    from meta_agent.studies.two_files import compare_files

    if len(names) != 2:
        raise ConfigError(
            f"compare takes two result files, but {len(names)} were given",
            hint="meta-agent compare A.jsonl B.jsonl --by task",
        )
    first, second = (Path(name).expanduser() for name in names)
    document = compare_files((first, second), by)
    emit(as_json, lambda: document, lambda: painted(files_sections(document)))
