"""Options that several commands share and that are no settings of a run (see `_flags.py`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from meta_agent.cli._flags import resolve_flags

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        help="Workspace directory. Default: this one if it has a meta-agent.toml, "
        "else ./meta-agent-workspace.",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else.")
]
LinesOption = Annotated[
    bool,
    typer.Option("--lines", help="Write lines also on a terminal, which else shows one block."),
]

EngineOption = Annotated[
    Literal["docker", "podman"],
    typer.Option("--engine", help="Container engine of the images: docker or podman."),
]


def completer(of: str) -> Callable[[typer.Context, str], list[str]]:
    """Returns a function that completes "runs" or "names" (candidates, versions) for a shell."""

    def complete(context: typer.Context, begun: str) -> list[str]:
        try:
            from meta_agent.core.ledger import Ledger
            from meta_agent.studies.story import names

            file = workspace_root(context.params.get("workspace")) / "ledger.sqlite"
            with Ledger.open(file, owner_lock=False) as ledger:
                candidates = names(ledger) if of == "names" else [row.run for row in ledger.runs()]
        except Exception:
            return []  # a shell that waits for words is no place for a sentence
        return [name for name in candidates if name.startswith(begun)]

    return complete


RunOption = Annotated[
    str | None,
    typer.Option(
        "--run",
        help="Name of the run. Default: the newest.",
        show_default=False,
        autocompletion=completer("runs"),
    ),
]
NAME = typer.Argument(
    help="Candidate (g0/c1), version (v1), main, lead, or the start of a commit.",
    show_default=False,
    autocompletion=completer("names"),
)
NameArgument = Annotated[str, NAME]
MaybeName = Annotated[str | None, NAME]


def workspace_root(folder: Path | None) -> Path:
    """Returns the directory of the workspace: `folder`, or else the one that the settings name."""
    root: Path = resolve_flags(workspace=folder).workspace
    return root
