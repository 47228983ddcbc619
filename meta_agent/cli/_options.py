"""Options that several commands share, and how flags become a `RunConfig`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from meta_agent.config import RunConfig

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
DomainOption = Annotated[
    str | None,
    typer.Option("--domain", help="Task domain: swe, math or code. [default: swe]"),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", help="Root of every random number. [default: 0]")
]
HarnessOption = Annotated[
    str | None,
    typer.Option(
        "--harness",
        help="Harness a new workspace starts from: seed or competent. [default: seed]",
    ),
]
TrainStepsOption = Annotated[
    int | None,
    typer.Option("--train-steps", help="Optimizer steps of a training arm. [default: 30]"),
]
PolicyOption = Annotated[
    str | None,
    typer.Option("--policy", help="The model that acts: nano, hf:PATH, ... [default: nano]"),
]
SandboxOption = Annotated[
    str | None,
    typer.Option(
        "--sandbox", help="Where harness code runs: auto, docker or process. [default: auto]"
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads", help="CPU threads of a training child; part of the result. [default: 1]"
    ),
]
TasksOption = Annotated[
    Path | None,
    typer.Option(
        "--tasks", help="Task file of your own. Default: the built-in suite.", show_default=False
    ),
]
ProfileOption = Annotated[
    str | None, typer.Option("--profile", help="Sizes: default or tiny. [default: default]")
]


def resolve_flags(**flags: Any) -> RunConfig:
    """Flags over variables over the workspace's file over defaults."""
    from meta_agent.config import resolve

    return resolve(flags)


def workspace_root(named: Path | None) -> Path:
    """The workspace directory in use, by the same rules as everywhere."""
    return resolve_flags(workspace=named).workspace
