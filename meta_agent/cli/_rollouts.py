"""Commands about rollouts of any origin: import, export, and the report on a file of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from meta_agent.cli._options import JsonOption, WorkspaceOption, workspace_root
from meta_agent.cli._output import Pulse, emit, stdout_for_data

if TYPE_CHECKING:
    from meta_agent.core.protocols import Rollout
    from meta_agent.readers.formats import Reading

FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="Format of the files. Default: detect it.", show_default=False),
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

_IMPORTED_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")

rollouts_app = typer.Typer(
    help="Import, export and list formats of rollouts.", no_args_is_help=True, rich_markup_mode=None
)


@rollouts_app.command("import")
def import_rollouts(
    files: Annotated[list[Path], typer.Argument(help="Files or folders of rollouts.")],
    name: Annotated[str, typer.Option("--name", help="Name in the store.")] = "imported",
    format_name: FormatOption = None,
    solved_at: SolvedAtOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read rollouts of other tools into the workspace's store. Prints what was skipped and why."""
    from meta_agent.core.rollouts import RolloutStore
    from meta_agent.core.workspace import open_workspace
    from meta_agent.readers.formats import judged, read_rollouts
    from meta_agent.reports.terminal.text import lines

    _check_name(name)
    place = open_workspace(workspace_root(workspace))
    reading = read_rollouts(*files, format_name=format_name, run=name)
    with stdout_for_data():
        shard = RolloutStore(place.rollouts).write(name, judged(reading, solved_at))
    document = {"schema_version": 1, "name": shard.name, "bytes": shard.bytes}
    document["import"] = reading.tally.to_json()
    text = [*reading.tally.lines(), f"stored as {shard.name} ({shard.bytes} bytes)"]
    emit(as_json, lambda: document, lambda: lines(text))


def _check_name(name: str) -> None:
    """Raises ConfigError for a bad name.

    Names with a slash belong to runs, whose evidence stays.
    """
    from meta_agent.core.errors import ConfigError

    if not _IMPORTED_NAME.fullmatch(name):
        raise ConfigError(
            f"--name {name!r}: expected letters, digits and ._@+- (names with a slash are runs')",
            hint="for example: --name swe-agent-2026-11",
        )


@rollouts_app.command("export")
def export_rollouts(
    source: Annotated[str, typer.Argument(help="Name in the store, or a file of any format.")],
    out: Annotated[Path, typer.Option("--out", help="File to write.")],
    to: Annotated[str, typer.Option("--to", help="Format to write.")] = "openai-messages",
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write rollouts in another tool's format. Prints what that format cannot carry."""
    from meta_agent.readers.formats import Reading, format_named, write_rollouts
    from meta_agent.reports.terminal.text import lines

    chosen = format_named(to)
    with stdout_for_data():
        rollouts = _from(source, workspace)
        counted = _Counted(rollouts)
        count = write_rollouts(counted, out, to)
    lost, silent = sorted(chosen.cannot_carry), counted.count - count
    document = {"schema_version": 1, "rollouts": count, "file": str(out), "cannot_carry": lost}
    document["without_messages"] = silent
    tally = rollouts.tally if isinstance(rollouts, Reading) else None
    document["import"] = tally.to_json() if tally else None
    text = [*(tally.lines() if tally else ()), f"wrote {count} rollouts to {out}"]
    text += [f"not written, for they have no messages: {silent}"] if silent else []
    text += [f"{to} has no place for: {', '.join(lost)}"] if lost else []
    emit(as_json, lambda: document, lambda: lines(text))


@rollouts_app.command("formats")
def formats(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """List the known formats, how each is recognised, and whether it can be written."""
    from meta_agent.readers.formats import FORMATS
    from meta_agent.reports.terminal.text import lines

    del workspace
    rows = [
        {
            "name": format_.name,
            "what": format_.what,
            "marks": format_.marks,
            "export": format_.write is not None,
        }
        for format_ in FORMATS.values()
    ]
    text = [
        f"{r['name']:22} {'in, out' if r['export'] else 'in':8} {r['what']}\n{'':31} {r['marks']}"
        for r in rows
    ]
    emit(as_json, lambda: {"schema_version": 1, "formats": rows}, lambda: lines(text))


def report_on_files(
    files: list[Path],
    solved_at: float | None,
    as_json: bool,
    page: Path | None = None,
    fields: str | None = None,
) -> None:
    """Runs `meta-agent report --rollouts`: the health of rollouts of other tools."""
    import shlex

    from meta_agent.readers.formats import by_our_names

    arguments = [word for path in files for word in ("--rollouts", str(path))]
    arguments += ["--map", fields] if fields else []
    arguments += ["--solved-at", f"{solved_at:g}"] if solved_at is not None else []
    with by_our_names(files, fields, over=Pulse("rows named anew").over) as mapped:
        _report_on(mapped, solved_at, as_json, page, shlex.join(arguments))


def _report_on(
    files: list[Path], solved_at: float | None, as_json: bool, page: Path | None, arguments: str
) -> None:
    from meta_agent.readers.evidence import read_foreign, render_foreign
    from meta_agent.readers.formats import judged, read_rollouts
    from meta_agent.reports.terminal.text import lines

    reading = read_rollouts(*files, over=Pulse("rows read").over)
    report = read_foreign(judged(reading, solved_at))
    document = {"schema_version": 1, "import": reading.tally.to_json(), **report.to_json()}
    if page is not None:
        from meta_agent.reports.pages.foreign_page import write_foreign_page

        write_foreign_page(report, reading.tally.lines(), arguments, page)
        typer.echo(f"wrote {page}", err=True)
        if not as_json:
            return
    text = [*reading.tally.lines(), "", *render_foreign(report, arguments).splitlines()]
    emit(as_json, lambda: document, lambda: lines(text))


class _Counted:
    """Iterates over rollouts and counts them."""

    def __init__(self, rollouts: Iterable[Rollout]) -> None:
        self._rollouts = rollouts
        self.count = 0

    def __iter__(self) -> Iterator[Rollout]:
        for rollout in self._rollouts:
            self.count += 1
            yield rollout


def _from(source: str, workspace: Path | None) -> Reading | Iterator[Rollout]:
    from meta_agent.core.errors import ConfigError
    from meta_agent.core.rollouts import RolloutStore
    from meta_agent.core.workspace import open_workspace
    from meta_agent.readers.formats import read_rollouts

    if Path(source).exists():
        return read_rollouts(Path(source))
    store = RolloutStore(open_workspace(workspace_root(workspace)).rollouts)
    if source not in store.names():
        stored = ", ".join(store.names()[:20]) or "none"
        raise ConfigError(f"neither a file nor stored rollouts: {source}", hint=f"stored: {stored}")
    return store.iter(source, tokens=True)
