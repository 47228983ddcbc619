"""The command by which a person decides: approve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meta_agent.cli._options import JsonOption, RunOption, WorkspaceOption, workspace_root
from meta_agent.cli._output import emit
from meta_agent.cli._review import recorded_run

if TYPE_CHECKING:
    from meta_agent.core.display import PersonReply


def approve(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(
            help="Candidate to decide about, such as g0/c1. Default: list the open ones.",
            show_default=False,
        ),
    ] = None,
    revise: Annotated[
        str | None, typer.Option("--revise", help="Send it back with this comment.")
    ] = None,
    abort: Annotated[
        bool, typer.Option("--abort", help="End the run. It cannot be resumed.")
    ] = False,
    run: RunOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide about a candidate that a run waits for: approve it, send it back, or end the run."""
    if not subjects:
        _require_no_answer(revise, abort)
        _show_waiting(run, workspace, as_json)
        return
    from meta_agent.core.ledger import Ledger
    from meta_agent.core.loop.verbs.approve import answer
    from meta_agent.core.workspace import open_workspace
    from meta_agent.reports import reduce
    from meta_agent.reports.terminal.paint import lines

    reply = _reply(revise, abort)
    with Ledger.open(open_workspace(workspace_root(workspace)).ledger_file) as ledger:
        decisions = answer(ledger, reduce(ledger, run).run, subjects, reply)
    sentences = [f"{decision.subject}  {decision.answer_sentence}" for decision in decisions]
    sentences.append("recorded; the same evolve command continues from here")
    document = {"schema_version": 1, "decisions": [decision.to_json() for decision in decisions]}
    emit(as_json, lambda: document, lambda: lines(sentences))


def _require_no_answer(revise: str | None, abort: bool) -> None:
    """Raises ConfigError if --abort or --revise is given without the name of a candidate."""
    from meta_agent.core.errors import ConfigError

    if abort or revise is not None:
        raise ConfigError(
            f"{'--abort' if abort else '--revise'} needs the name of a candidate",
            hint="meta-agent approve lists what is open; then e.g. meta-agent approve g0/c1 "
            "--abort",
        )


def _reply(revise: str | None, abort: bool) -> PersonReply:
    from meta_agent.core.display import PersonReply
    from meta_agent.core.errors import ConfigError

    if abort:
        return PersonReply("ABORT", revise or "")
    if revise is None:
        return PersonReply("APPROVE")
    if not revise.strip():
        raise ConfigError("--revise has no text", hint='--revise "what should change"')
    return PersonReply("REVISE", revise.strip())


def _show_waiting(run: str | None, workspace: Path | None, as_json: bool) -> None:
    from meta_agent.reports import run_sections
    from meta_agent.reports.terminal.paint import painted

    state = recorded_run(workspace, run)
    waiting = [decision.to_json() for decision in state.waiting]
    document = {"schema_version": 1, "run": state.run, "waiting": waiting}
    emit(as_json, lambda: document, lambda: painted(run_sections.questions(state)))
