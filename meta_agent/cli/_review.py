"""Commands that read a run: report, status, log, why, verify."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meta_agent.cli._flags import require_trust
from meta_agent.cli._options import (
    JsonOption,
    MaybeName,
    NameArgument,
    RunOption,
    WorkspaceOption,
    workspace_root,
)
from meta_agent.cli._output import emit
from meta_agent.cli._rollouts import (
    FieldsOption,
    FormatOption,
    RolloutsOption,
    SolvedAtOption,
    report_on_files,
)

if TYPE_CHECKING:
    from meta_agent.core.config import RunConfig
    from meta_agent.core.ledger import Ledger
    from meta_agent.core.workspace import Workspace
    from meta_agent.reports import RunState


def report(
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one self-contained page instead.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="With --html: write it anew until the run ends.")
    ] = False,
    every_metric: Annotated[
        bool, typer.Option("--all", help="Show every metric of every version.")
    ] = False,
    rollouts: RolloutsOption = None,
    solved_at: SolvedAtOption = None,
    fields: FieldsOption = None,
    format_name: FormatOption = None,
    run: RunOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show figures, verdicts and evidence of a run, or the health of rollouts in a file."""
    if follow and (html is None or rollouts):
        from meta_agent.core.errors import ConfigError

        raise ConfigError(
            "--follow writes a run's page anew, so it needs --html and no --rollouts",
            hint="meta-agent report --html report.html --follow; meta-agent log --follow",
        )
    if rollouts:
        report_on_files(rollouts, solved_at, as_json, html, fields, format_name)
        return
    from meta_agent.reports import run_sections
    from meta_agent.reports.documents import report_json
    from meta_agent.reports.terminal.paint import painted_page

    if html is not None:
        _write_html(html, run, workspace, follow)
        if not as_json:
            return
    state = recorded_run(workspace, run)
    page = run_sections.page(state, every_metric=every_metric)
    unfold = ["evidence"] if every_metric else []
    emit(
        as_json,
        lambda: report_json(state),
        lambda: painted_page(page, unfold=unfold, without=[run_sections.SENTENCES]),
    )


def _write_html(path: Path, run: str | None, workspace: Path | None, follow: bool) -> None:
    """Writes a run's page; with `follow`, again when it changes until the run ends."""
    from meta_agent.reports import reduce
    from meta_agent.reports.pages.html import render_html, write_page
    from meta_agent.reports.terminal.text import states

    written = ""
    with reading(workspace) as (_, ledger):
        for state in states(ledger, run) if follow else [reduce(ledger, run)]:
            page = render_html(state, follow=follow and state.is_at_work)
            if page != written:
                write_page(page, path)
            written = page
    typer.echo(f"wrote {path}", err=True)


def status(
    run: RunOption = None, workspace: WorkspaceOption = None, as_json: JsonOption = False
) -> None:
    """Show where a run stands, what it waits for, and what to do next."""
    from meta_agent.reports import run_sections
    from meta_agent.reports.documents import status_json
    from meta_agent.reports.terminal.paint import painted

    state = recorded_run(workspace, run)
    emit(as_json, lambda: status_json(state), lambda: painted(run_sections.status(state)))


def log(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new entries until the run ends.")
    ] = False,
    graph: Annotated[
        bool,
        typer.Option("--graph", help="Show the commits of the harness with their notes instead."),
    ] = False,
    run: RunOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print every recorded step and note of a run, oldest first."""
    from rich.console import Group

    from meta_agent.core.history import HarnessRepo
    from meta_agent.reports import reduce
    from meta_agent.reports.documents import log_json
    from meta_agent.reports.terminal import text
    from meta_agent.reports.terminal.paint import lines

    with reading(workspace) as (place, ledger):
        if graph:
            graph_text = HarnessRepo(place.harness_repo).graph()
            document = {"schema_version": 1, "graph": graph_text}
            emit(as_json, lambda: document, lambda: lines(graph_text.splitlines()), paged=True)
            return
        if follow and not as_json:
            text.follow(ledger, run)
            return
        name = reduce(ledger, run).run
        steps, events = ledger.steps(name), ledger.events(name)
    document = log_json(name, steps, events)
    emit(as_json, lambda: document, lambda: Group(*text.log(steps, events)), paged=True)


def why(
    name: MaybeName = None,
    transcript: Annotated[
        bool,
        typer.Option("--transcript", help="Show the conversations of agents with their models."),
    ] = False,
    run: RunOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain a candidate's verdict, or what led to a version; with --transcript, who said what."""
    from meta_agent.core.errors import ConfigError
    from meta_agent.reports import reduce, run_sections
    from meta_agent.reports.terminal.paint import painted

    with reading(workspace) as (place, ledger):
        state = reduce(ledger, run)
    if transcript:
        _show_transcript(place, state, name, as_json)
        return
    if name is None:
        names = ", ".join(candidate.short_id for candidate in state.candidates.values())
        raise ConfigError(
            f"why explains one candidate or version of run {state.run}",
            hint=f"name one of: {names or 'none yet'}",
        )
    members = state.candidates_of(name)
    views = members or [state.candidate(name)]
    documents, sections = [], []
    for view in views:
        decisions = state.decisions_on(view.id)
        documents.append({**view.full_json(), "decisions": [each.to_json() for each in decisions]})
        sections += run_sections.why(view, decisions)
    version = {"schema_version": 1, "version": name, "candidates": documents}
    emit(as_json, lambda: version if members else documents[0], lambda: painted(sections))


def _show_transcript(place: Workspace, state: RunState, name: str | None, as_json: bool) -> None:
    """Shows the conversations of a candidate or role turn by turn, or without a name lists them."""
    from meta_agent.llm_clients.asking.transcripts import Transcripts
    from meta_agent.reports.terminal import dialogue

    conversations = dialogue.find(Transcripts(place.transcripts / state.run), state, name)
    if name is None:
        document = dialogue.listing_json(state.run, conversations)
        emit(as_json, lambda: document, lambda: dialogue.listing(state.run, conversations))
        return
    document = dialogue.dialogues_json(state.run, conversations)
    emit(as_json, lambda: document, lambda: dialogue.dialogues(conversations), paged=True)


def verify(
    commit: NameArgument,
    workspace: WorkspaceOption = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the grader that the run recorded.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compute the run behind a commit again from stored data, and show what differs."""
    from meta_agent.core.history import HarnessRepo
    from meta_agent.reports import decisions_on_commit
    from meta_agent.reports.terminal.text import verified
    from meta_agent.studies.review import verify as verify_stored
    from meta_agent.studies.story import resolve

    with reading(workspace) as (place, ledger):
        meant = resolve(HarnessRepo(place.harness_repo), ledger, commit).commit

        def allow(config: RunConfig) -> None:
            require_trust(config, trust, recorded=True)

        report = verify_stored(place, ledger, meant, allow)
        decided = [decision.answer_sentence for decision in decisions_on_commit(ledger, meant)]
    document = {**report.to_json(), "decided": decided}
    emit(as_json, lambda: document, lambda: verified(document))
    if not report.ok:
        raise typer.Exit(1)


@contextmanager
def reading(workspace: Path | None) -> Iterator[tuple[Workspace, Ledger]]:
    """Yields a workspace and its ledger, opened read-only. Raises ConfigError if one is missing."""
    from meta_agent.core.ledger import Ledger
    from meta_agent.core.workspace import open_workspace

    place = open_workspace(workspace_root(workspace))
    with Ledger.open(place.ledger_file, owner_lock=False) as ledger:
        yield place, ledger


def recorded_run(workspace: Path | None, run: str | None) -> RunState:
    """Returns the state of a run (None: the newest). Raises ConfigError if there is none."""
    from meta_agent.reports import reduce

    with reading(workspace) as (_, ledger):
        return reduce(ledger, run)
