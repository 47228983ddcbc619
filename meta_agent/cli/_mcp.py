"""`meta-agent mcp`: commands that read a run, and `evolve`, as tools of the Model Context Protocol.

Each tool calls the command of its name and returns the document of its `--json`.

Does not cover: transports other than stdio, and runs that other tools started.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from meta_agent.cli import _history, _review
from meta_agent.cli._options import WorkspaceOption, workspace_root
from meta_agent.core.distribution import install, version
from meta_agent.core.errors import MetaAgentError, PreflightError
from meta_agent.core.processes import DEVNULL, STDOUT, TimeoutExpired, start

_ABOUT: Final = "Runs of meta-agent in the workspace {root}. Begin with the tool `status`."
_REFUSED_SEC: Final = 20.0
"""A run that is refused has ended by then, as a rule."""
_OUTPUT_CHARS: Final = 4000
_printing = threading.Lock()  # a process has one stdout, and tools may run side by side


def mcp(
    allow_runs: Annotated[
        bool,
        typer.Option("--allow-runs", help="Also offer `evolve`, which starts and resumes runs."),
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Serve status, report, why and diff of runs to an editor's agent over stdio (MCP)."""
    try:
        from mcp.server.mcpserver import MCPServer  # noqa: TID251
        from mcp.types import ToolAnnotations  # noqa: TID251
    except ModuleNotFoundError as error:
        raise PreflightError("the Python package mcp is missing", hint=install("mcp")) from error
    root = workspace_root(workspace)
    server = MCPServer(
        "meta-agent", version=version(), instructions=_ABOUT.format(root=root), log_level="WARNING"
    )
    for tool in _readers(root):
        server.add_tool(
            tool, annotations=ToolAnnotations(read_only_hint=True), structured_output=False
        )
    if allow_runs:
        server.add_tool(_runner(root), name="evolve", structured_output=False)
    server.run("stdio")


def _readers(root: Path) -> list[Callable[..., str]]:
    """Returns the tools that change nothing. Their docstrings are what an agent reads of them."""

    def status(run: str | None = None) -> str:
        """Says where a run stands, what it waits for and what to do next. None: the newest run."""
        return _document(_review.status, run=run, workspace=root)

    def report(run: str | None = None) -> str:
        """Returns evidence, verdicts and effects of a run. None: the newest run."""
        return _document(_review.report, run=run, workspace=root)

    def why(candidate: str, run: str | None = None) -> str:
        """Explains why a candidate, such as g0/c1, was promoted, rejected or found invalid."""
        return _document(_review.why, name=candidate, run=run, workspace=root)

    def diff(name: str, other: str | None = None) -> str:
        """Shows what a candidate, version or commit changed, or the diff of two of them."""
        return _document(_history.diff, name=name, other=other, workspace=root)

    return [status, report, why, diff]


def _runner(root: Path) -> Callable[..., str]:
    """Returns the tool that starts a run and does not wait for its end."""

    def evolve(flags: list[str]) -> str:
        """Starts a run with flags of `meta-agent evolve`, such as ["--tasks", "gsm8k"].

        The same flags resume an unfinished run. `--dry-run` only says what it would cost. Returns
        the first output; `status` follows the run.
        """
        argv = [sys.executable, "-m", "meta_agent", "evolve", *flags, "--workspace", str(root)]
        handle, log = tempfile.mkstemp(prefix="meta-agent-evolve-", suffix=".log")
        with os.fdopen(handle, "wb") as output:
            process = start(
                argv,
                variables=dict(os.environ),  # it is this program, with the keys of its models
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                start_new_session=True,  # it outlives the editor
            )
        threading.Thread(target=process.wait, daemon=True).start()
        try:
            code: int | None = process.wait(_REFUSED_SEC)
        except TimeoutExpired:
            code = None
        text = Path(log).read_text("utf-8", "replace")[-_OUTPUT_CHARS:]
        return json.dumps({"pid": process.pid, "exit_code": code, "log": log, "output": text})

    return evolve


def _document(command: Callable[..., None], **options: Any) -> str:
    """Returns what a command prints with `--json`. Its errors become those of the tool."""
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: TID251

    with _printing, redirect_stdout(io.StringIO()) as printed:
        try:
            command(**options, as_json=True)
        except MetaAgentError as error:
            raise ToolError(f"{error} ({error.hint})" if error.hint else str(error)) from error
    return printed.getvalue()
