"""Options that several commands share and that are no settings of a run (see `_flags.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meta_agent.cli._flags import resolve_flags

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        help="Workspace directory. Default: here if it holds a meta-agent.toml, "
        "else ./meta-agent-workspace.",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else.")
]
RunOption = Annotated[
    str | None, typer.Option("--run", help="Which run. Default: the newest.", show_default=False)
]


def workspace_root(named: Path | None) -> Path:
    """The workspace directory in use, by the same rules as everywhere."""
    root: Path = resolve_flags(workspace=named).workspace
    return root


__all__ = ["JsonOption", "RunOption", "WorkspaceOption", "resolve_flags", "workspace_root"]
