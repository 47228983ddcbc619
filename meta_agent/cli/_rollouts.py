"""`report --rollouts`: the health of rollouts of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meta_agent.cli._output import Pulse, emit

if TYPE_CHECKING:
    from meta_agent.readers.formats import Import

FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="Format of --rollouts. Default: detect it.", show_default=False),
]
SolvedAtOption = Annotated[
    float | None,
    typer.Option(
        "--solved-at",
        help="Without outcomes in the data, rewards of at least this count as solved.",
        show_default=False,
    ),
]

RolloutsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--rollouts",
        help="Report on rollouts in a file or folder of any known format; needs no workspace. "
        "Each share names its denominator.",
        show_default=False,
    ),
]

FieldsOption = Annotated[
    str | None,
    typer.Option(
        "--map",
        help="Fields of --rollouts, also of CSV: input=prompt,output=completion,score=reward.",
        show_default=False,
    ),
]


def report_on_files(
    files: list[Path],
    solved_at: float | None,
    as_json: bool,
    page: Path | None = None,
    fields: str | None = None,
    format_name: str | None = None,
) -> None:
    """Prints what is wrong with the rollouts in files; with `page`, writes it there as HTML.

    `solved_at` is the least reward that means solved. `fields` renames columns: `score=reward`.
    """
    import shlex

    from meta_agent.readers.formats import read_rollouts

    arguments = [word for path in files for word in ("--rollouts", str(path))]
    arguments += ["--map", fields] if fields else []
    arguments += ["--solved-at", f"{solved_at:g}"] if solved_at is not None else []
    arguments += ["--format", format_name] if format_name else []
    reading = read_rollouts(
        *files, format_name=format_name, fields=fields, over=Pulse("rows read").over
    )
    _report_on(reading, solved_at, as_json, page, shlex.join(arguments))


def _report_on(
    reading: Import, solved_at: float | None, as_json: bool, page: Path | None, arguments: str
) -> None:
    from meta_agent.readers.foreign import read_foreign
    from meta_agent.readers.formats import judged
    from meta_agent.reports.foreign_sections import WARNINGS, foreign_page
    from meta_agent.reports.terminal.paint import painted_page

    report = read_foreign(judged(reading, solved_at))
    document = {"schema_version": 1, "import": reading.tally.to_json(), **report.to_json()}
    sections = foreign_page(report, reading.tally.lines(), arguments)
    if page is not None:
        from meta_agent.reports.pages.html import rendered, write_page

        write_page(rendered(sections), page)
        typer.echo(f"wrote {page}", err=True)
        if not as_json:
            return
    emit(as_json, lambda: document, lambda: painted_page(sections, unfold=[WARNINGS]))
