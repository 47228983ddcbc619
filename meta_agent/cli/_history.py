"""Commands for the history of a harness: show, diff, revert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from meta_agent.cli._options import (
    JsonOption,
    MaybeName,
    NameArgument,
    RunOption,
    WorkspaceOption,
    workspace_root,
)
from meta_agent.cli._output import emit
from meta_agent.cli._review import reading

if TYPE_CHECKING:
    from meta_agent.core.workspace import Workspace
    from meta_agent.reports import RunState


def show(
    name: MaybeName = None,
    transcript: Annotated[
        bool,
        typer.Option("--transcript", help="Show the conversations of agents with their models."),
    ] = False,
    run: RunOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run and its result, or one candidate; with --transcript, agents' conversations."""
    from meta_agent.reports import reduce, run_sections
    from meta_agent.reports.terminal.paint import painted

    with reading(workspace) as (place, ledger):
        state = reduce(ledger, run)
    if transcript:
        _show_transcript(place, state, name, as_json)
        return
    if name is None:
        document = {**state.to_json(), "config": dict(state.config)}
        emit(as_json, lambda: document, lambda: painted(run_sections.summary(state)))
        return
    candidate = state.candidate(name)
    document = {"schema_version": 1, **candidate.to_json()}
    emit(as_json, lambda: document, lambda: painted(run_sections.why(candidate)))


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


def diff(
    name: NameArgument,
    other: MaybeName = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a candidate, version or commit changed, or the diff of two of them."""
    from meta_agent.core.history import HarnessRepo
    from meta_agent.reports.terminal.paint import patch_text
    from meta_agent.studies.story import resolve

    with reading(workspace) as (place, ledger):
        # Not `HarnessRepo.open`: that mends what a killed run left, which is the owner's to do.
        repo = HarnessRepo(place.harness_repo)
        what = resolve(repo, ledger, name)
        second = resolve(repo, ledger, other) if other else None
    before, after = (what.commit, second.commit) if second else (what.before(repo), what.commit)
    patch = repo.diff(before, after)
    document = {"schema_version": 1, "id": what.name, "base": before, "commit": after}
    emit(as_json, lambda: {**document, "diff": patch}, lambda: patch_text(patch), paged=True)


def revert(
    name: NameArgument, workspace: WorkspaceOption = None, as_json: JsonOption = False
) -> None:
    """Revert a candidate, version or commit on main. The next run measures what is left."""
    from meta_agent.core.ledger import Ledger
    from meta_agent.core.workspace import open_workspace
    from meta_agent.reports.terminal.text import reverted
    from meta_agent.studies.story import revert as take_back

    place = open_workspace(workspace_root(workspace))
    with Ledger.open(place.ledger_file) as ledger:
        done = take_back(place, ledger, name)
    document = {"schema_version": 1, "reverted": done}
    emit(as_json, lambda: document, lambda: reverted(done, str(place.root)))
