"""Commands for your own agent: init, adopt."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meta_agent.cli._flags import takes
from meta_agent.cli._options import JsonOption
from meta_agent.cli._output import emit, say, stdout_for_data

if TYPE_CHECKING:
    from meta_agent.composition.bring import Answers, Start
    from meta_agent.core.config import RunConfig
    from meta_agent.core.harness import CheckResult

FAILED_EXIT_CODE = 1
FIX_HARNESS = "fix harness_repo/ (harness.toml), commit there, then: meta-agent doctor --harness"


@takes(
    *("domain", "harness", "seed", "policy", "profile"),
    *("tasks", "grade", "threshold", "map", "python"),
    *("sandbox", "allow_unsafe_process", "workspace"),
)
def init(
    config: RunConfig,
    command: Annotated[
        str, typer.Option(help="Command that starts your agent, with {prompt}, {harness}, {repo}.")
    ] = "",
    editable: Annotated[
        list[str] | None, typer.Option(help="Pattern of files that may be edited; repeatable.")
    ] = None,
    protected: Annotated[
        list[str] | None, typer.Option(help="Pattern of files that may not be edited; repeatable.")
    ] = None,
    image: Annotated[str, typer.Option(help="Local image with the packages of your agent.")] = "",
    leave_out: Annotated[
        list[str] | None, typer.Option(help="Pattern of files that are not copied; repeatable.")
    ] = None,
    check: Annotated[bool, typer.Option(help="Start your agent once, without a model.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Create a workspace: settings, harness repository, skills, ledger. Safe to repeat."""
    from meta_agent.composition.begin import MINE, begin
    from meta_agent.composition.bring import Answers, check_workspace, is_brought
    from meta_agent.composition.inputs import open_or_create
    from meta_agent.reports.terminal.text import facts

    if config.domain == MINE:
        written = begin(Path.cwd())
        rows_to_show = {**written, **dict(zip(("next", "then"), written["next"], strict=True))}
        emit(as_json, lambda: {"schema_version": 1, **written}, lambda: facts(rows_to_show))
        return
    answers = Answers(
        _words(command),
        tuple(editable or ()),
        tuple(protected or ()),
        image,
        tuple(leave_out or ()),
    )
    _require_room(config, answers)
    with stdout_for_data():
        workspace = open_or_create(config, answers, choose=_choose, tell=say)
        checks = check_workspace(config) if check and is_brought(config.harness) else []
    rows = {
        "schema_version": 1,
        "workspace": str(workspace.root),
        "domain": workspace.domain,
        "harness": workspace.harness,
        "harness_repo": str(workspace.harness_repo),
        "settings": str(workspace.settings_file),
    }
    emit(as_json, lambda: {**rows, **_as_json(checks)}, lambda: facts(rows))
    _end(checks)


@takes("workspace")
def adopt(
    config: RunConfig,
    into: Annotated[
        Path | None,
        typer.Option(help="Your clone, which gets a branch, or a new folder, which gets files."),
    ] = None,
    branch: Annotated[str, typer.Option(help="Name of the new branch.")] = "meta-agent",
    patches: Annotated[
        Path | None, typer.Option(help="Folder for patches (git am) instead of a branch.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Folder for the trained weights, in Hugging Face format."),
    ] = None,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Write only the adapter of a --lora-rank run.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Take results over: the harness as a branch, files or patches, the model as a folder."""
    from meta_agent.core.errors import ConfigError
    from meta_agent.core.history import HarnessRepo, adopt_into, adopt_patches
    from meta_agent.core.workspace import open_workspace
    from meta_agent.reports.terminal.text import facts

    if sum(place is not None for place in (into, patches, model)) != 1:
        raise ConfigError(
            "meta-agent adopt needs exactly one destination",
            hint="give one of these flags: --into FOLDER, --patches FOLDER or --model FOLDER",
        )
    if adapter and model is None:
        raise ConfigError(
            "--adapter needs --model", hint="meta-agent adopt --model FOLDER --adapter"
        )
    if model is not None:
        handed = _hand_over_model(config, model, adapter)
        emit(as_json, lambda: {"schema_version": 1, **handed}, lambda: facts(handed))
        return
    repo = HarnessRepo.open(open_workspace(config.workspace).harness_repo)
    done = adopt_into(repo, into, branch) if into else adopt_patches(repo, Path(str(patches)))
    rows = {"schema_version": 1, **done._asdict()}
    emit(as_json, lambda: rows, lambda: facts(rows))


def _hand_over_model(config: RunConfig, target: Path, alone: bool) -> dict[str, str]:
    """Writes the weights of the newest run, and returns how to serve them."""
    from meta_agent.core.errors import ConfigError
    from meta_agent.core.ledger import Ledger
    from meta_agent.core.workspace import open_workspace
    from meta_agent.policies.training.handover import hand_over, hand_over_adapter
    from meta_agent.reports import card_facts, reduce

    with Ledger.open(open_workspace(config.workspace).ledger_file) as ledger:
        state = reduce(ledger)
    product = state.product
    if not product["weights"]:
        raise ConfigError(
            f"the run {state.run} has no trained weights to copy",
            hint="models behind a server are not trained; continue an unfinished run: "
            "meta-agent evolve",
        )
    weights, place = Path(str(product["weights"])), target.absolute()
    facts = list(card_facts(state))
    if alone:
        served = hand_over_adapter(weights, place, str(state.config.get("policy", "")), facts)
    else:
        served = hand_over(weights, place, facts)
    return {"model": str(place), "policy": str(product["policy"]), "serve": served}


def _words(command: str) -> tuple[str, ...]:
    from meta_agent.core.errors import ConfigError

    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise ConfigError(
            f"--command {command!r} cannot be split into words: {str(error).lower()}",
            hint='quote it as in a shell: --command "python3 {harness}/FILE.py {prompt}"',
        ) from error


def _require_room(config: RunConfig, answers: Answers) -> None:
    """Raises ConfigError if the flags do not describe the agent that the workspace holds."""
    from meta_agent.composition.bring import NO_ANSWERS, is_brought
    from meta_agent.core.errors import ConfigError
    from meta_agent.core.workspace import is_workspace, open_workspace

    if is_workspace(config.workspace):
        held = open_workspace(config.workspace).harness
        if held != config.harness:
            raise ConfigError(
                f"the workspace {config.workspace} holds the harness {held}, not {config.harness}",
                hint="create another workspace: meta-agent init --harness "
                f"{shlex.quote(config.harness)} --workspace DIR",
            )
        if answers != NO_ANSWERS:
            say(f"{config.workspace}/harness_repo exists already, so the agent is not read again")
    elif answers != NO_ANSWERS and not is_brought(config.harness):
        raise ConfigError(
            "--command, --editable, --protected and --image do not apply to the built-in "
            f"harness {config.harness}",
            hint="leave these flags out, or import your own agent: --harness FOLDER",
        )


def _choose(starts: list[Start]) -> Start | None:
    """Returns the start command that the user chooses; None without a terminal or a choice."""
    if not starts or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    for number, start in enumerate(starts, 1):
        typer.echo(f"  {number}. {start.line}  ({start.why})", err=True)
    number = typer.prompt("how is the agent started", type=int, default=1, err=True)
    return starts[number - 1] if 1 <= number <= len(starts) else None


def _as_json(checks: list[CheckResult]) -> dict[str, Any]:
    rows = [{"name": row.name, "ok": row.ok, "detail": row.detail} for row in checks]
    return {"checks": rows} if rows else {}


def _end(checks: list[CheckResult]) -> None:
    """Prints failed checks and how to fix them."""
    failed = [row for row in checks if not row.ok]
    for row in failed:
        say(f"FAILED {row.name}: {row.detail}")
    if failed:
        say(FIX_HARNESS)
        raise typer.Exit(FAILED_EXIT_CODE)
