"""`meta-agent view`: the page of a run, live, on the loopback."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from meta_agent.cli._options import JsonOption, RunOption, WorkspaceOption, workspace_root
from meta_agent.cli._output import emit

if TYPE_CHECKING:
    from meta_agent.view import Reply
    from meta_agent.workspace import Workspace


def register(app: typer.Typer) -> None:
    """Adds this group's command."""
    app.command()(view)


def view(
    port: Annotated[
        int, typer.Option("--port", help="Port on the loopback. Default: a free one.")
    ] = 0,
    run: RunOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """See a run live in a browser, with every attempt; Ctrl-C ends the page, not the run."""
    from meta_agent.studies.forecasts import forecasts, predictions_json
    from meta_agent.view.live.server import PageServer, new_token
    from meta_agent.view.live.site import Site
    from meta_agent.view.terminal.text import lines
    from meta_agent.workspace import open_workspace

    place, token = open_workspace(workspace_root(workspace)), new_token()
    site = Site(
        place,
        run,
        token=token,
        predictions=lambda ledger: predictions_json(forecasts(ledger)),
        decide=lambda name, subject, reply: _decide(place, name, subject, reply),
    )
    server = PageServer(site, token, port)
    document = {"schema_version": 1, "url": server.address, "workspace": str(place.root)}
    emit(as_json, lambda: document, lambda: lines([server.address]))
    try:
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    finally:
        server.close()


def _decide(place: Workspace, run: str, subject: str, reply: Reply) -> str:
    from meta_agent.ledger import Ledger
    from meta_agent.steps.verbs.approve import answer

    with Ledger.open(place.ledger_file) as ledger:
        (made,) = answer(ledger, run, [subject], reply)
    return f"{made.told}; the same evolve command goes on from here"
