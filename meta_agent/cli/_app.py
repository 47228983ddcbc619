"""The application. It turns every error into a sentence and an exit code."""

from __future__ import annotations

import platform
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Final

import typer

from meta_agent.cli import (
    _bring,
    _compare,
    _history,
    _machine,
    _mcp,
    _people,
    _review,
    _run,
    _skills,
    _tasks,
)
from meta_agent.cli._examples import add_examples
from meta_agent.cli._flags import PANELS, Grouped, Paneled
from meta_agent.core.distribution import RUN_NEEDS, install, version
from meta_agent.core.errors import Interrupted, MetaAgentError, PreflightError, of_disk

BUG_EXIT_CODE = 101
INTERRUPTED_EXIT_CODE = 130
_MAY_HOLD_A_KEY: Final = ("--base-url", "--key-env", "--notify")

app = typer.Typer(
    name="meta-agent",
    cls=Paneled,
    help="Improve an LLM agent: its prompts, tools, rewards and, optionally, its weights.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
_MEMBERS: Final[tuple[tuple[Callable[..., None] | typer.Typer, ...], ...]] = (
    (_bring.init, _run.evolve, _run.train, _compare.compare, _run.demo),
    (*(_review.status, _review.report, _review.why, _history.diff), *(_review.log, _review.verify)),
    (_people.approve, _bring.adopt, _history.revert),
    (_tasks.tasks_app,),
    (_machine.doctor, _machine.sandbox_app, _skills.skills, _skills.trial, _mcp.mcp),
)
_TAKES_SETTINGS: Final = (_run.evolve, _run.train, _compare.compare)
for panel, members in zip(PANELS, _MEMBERS, strict=True):
    for member in members:
        if isinstance(member, typer.Typer):
            app.add_typer(member, rich_help_panel=panel)
        else:
            grouped = Grouped if member in _TAKES_SETTINGS else None
            app.command(cls=grouped, rich_help_panel=panel)(member)


def _show_version(is_asked_for: bool) -> None:
    if is_asked_for:
        typer.echo(f"meta-agent {version()}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Improve an LLM agent: its prompts, tools, rewards and, optionally, its weights."""


@cache
def command() -> Any:
    """Returns the command-line parser. It is cached, because Typer takes 40 ms to build it."""
    parser = typer.main.get_command(app)
    add_examples(parser)
    return parser


def main() -> None:
    """Runs the command line and exits, with a sentence and an exit code for every error."""
    try:
        command()()
    except Interrupted as error:
        error.hint = _again(sys.argv[1:])
        sys.exit(_explain(error))
    except MetaAgentError as error:
        sys.exit(_explain(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED_EXIT_CODE)
    except ModuleNotFoundError as error:
        sys.exit(_explain(_not_installed(error.name)) if _of_runs(error) else _report_bug(error))
    except Exception as error:
        disk_error = of_disk(error) if isinstance(error, OSError) else None
        sys.exit(_explain(disk_error) if disk_error else _report_bug(error))


def _again(words: Sequence[str]) -> str:
    """Returns how to resume. A command line that may hold a key is not repeated."""
    advice = "run the same command again to resume"
    if any(word.startswith(_MAY_HOLD_A_KEY) for word in words):
        return advice
    return f"{advice}: {shlex.join(['meta-agent', *words])}"


def _of_runs(error: ModuleNotFoundError) -> bool:
    return (error.name or "").partition(".")[0] in RUN_NEEDS


def _not_installed(module: str | None) -> MetaAgentError:
    return PreflightError(f"the Python package {module} is not installed", hint=install("run"))


def _explain(error: MetaAgentError) -> int:
    from meta_agent.reports import visible

    typer.echo(f"meta-agent: {visible(error)}", err=True)
    if error.hint:
        typer.echo(f"  hint: {visible(error.hint)}", err=True)
    return error.exit_code


def _report_bug(error: Exception) -> int:
    """Writes the traceback to a file, for maintainers. A user needs only the sentence."""
    about = f"meta-agent {version()}, Python {platform.python_version()}, {platform.platform()}"
    text = f"{about}\narguments: {sys.argv[1:]}\n\n{traceback.format_exc()}"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"meta-agent-bug-{stamp}-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    typer.echo(f"meta-agent: a bug of ours: {type(error).__name__}: {error}"[:500], err=True)
    typer.echo(f"  the details for a report are in {file.name}", err=True)
    return BUG_EXIT_CODE
