"""Commands that do work: evolve, init, train."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meta_agent.cli._options import (
    DomainOption,
    HarnessOption,
    JsonOption,
    PolicyOption,
    ProfileOption,
    SandboxOption,
    SeedOption,
    TasksOption,
    ThreadsOption,
    TrainStepsOption,
    WorkspaceOption,
    resolve_flags,
)
from meta_agent.cli._output import draw, emit, emit_json, stdout_for_data

if TYPE_CHECKING:
    from meta_agent.config import RunConfig
    from meta_agent.view import Display


def register(app: typer.Typer) -> None:
    """Adds this group's commands."""
    for command in (evolve, init, train):
        app.command()(command)


def evolve(
    domain: DomainOption = None,
    tasks: TasksOption = None,
    generations: Annotated[
        int | None, typer.Option(help="Generations of the loop. [default: 3]")
    ] = None,
    candidates: Annotated[
        int | None, typer.Option(help="Candidates per generation. [default: 3]")
    ] = None,
    seed: SeedOption = None,
    train_steps: TrainStepsOption = None,
    sandbox: SandboxOption = None,
    workspace: WorkspaceOption = None,
    skills: Annotated[
        Path | None,
        typer.Option(
            help="Skills library shared between workspaces. Default: the workspace's own.",
            show_default=False,
        ),
    ] = None,
    policy: PolicyOption = None,
    meta_model: Annotated[
        str | None,
        typer.Option(help="Model behind the meta-agent: rules, provider/model. [default: rules]"),
    ] = None,
    profile: ProfileOption = None,
    harness: HarnessOption = None,
    allow_unsafe_process: Annotated[
        bool | None,
        typer.Option(
            "--allow-unsafe-process",
            "--allow-unsafe",
            help="Let code written by an LLM run in the process sandbox.",
            show_default=False,
        ),
    ] = None,
    max_usd: Annotated[float | None, typer.Option(help="Cap on money, US$.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Cap on API tokens.")] = None,
    threads: ThreadsOption = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Training children at once. Default: CPU cores.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, and stop.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the loop, or resume it: the same command takes an unfinished run up again."""
    config = resolve_flags(
        domain=domain,
        tasks=tasks,
        generations=generations,
        candidates=candidates,
        seed=seed,
        train_steps=train_steps,
        sandbox=sandbox,
        workspace=workspace,
        skills=skills,
        policy=policy,
        meta_model=meta_model,
        profile=profile,
        harness=harness,
        allow_unsafe_process=allow_unsafe_process,
        max_usd=max_usd,
        max_tokens=max_tokens,
        threads=threads,
        jobs=jobs,
    )
    if dry_run:
        _show_plan(config, as_json)
        return
    state = _work(lambda display: _evolve(config, display))
    from meta_agent.view.text import summary

    emit(as_json, state.to_json, lambda: summary(state))


def init(
    domain: DomainOption = None,
    harness: HarnessOption = None,
    seed: SeedOption = None,
    policy: PolicyOption = None,
    profile: ProfileOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a workspace: settings, harness repository, skills, ledger. Safe to repeat."""
    config = resolve_flags(
        domain=domain,
        harness=harness,
        seed=seed,
        policy=policy,
        profile=profile,
        workspace=workspace,
    )
    from meta_agent.steps.opening import open_or_create
    from meta_agent.view.text import facts

    made = open_or_create(config)
    rows = {
        "schema_version": 1,
        "workspace": str(made.root),
        "domain": made.domain,
        "harness": made.harness,
        "harness_repo": str(made.harness_repo),
        "settings": str(made.settings_file),
    }
    emit(as_json, lambda: rows, lambda: facts(rows))


def train(
    domain: DomainOption = None,
    tasks: TasksOption = None,
    seed: SeedOption = None,
    train_steps: TrainStepsOption = None,
    policy: PolicyOption = None,
    profile: ProfileOption = None,
    harness: HarnessOption = None,
    sandbox: SandboxOption = None,
    threads: ThreadsOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train once under the workspace's promoted harness, without the loop."""
    config = resolve_flags(
        domain=domain,
        tasks=tasks,
        seed=seed,
        train_steps=train_steps,
        policy=policy,
        profile=profile,
        harness=harness,
        sandbox=sandbox,
        threads=threads,
        workspace=workspace,
    )
    result = _work(lambda display: _train(config, display))
    from meta_agent.view.text import facts

    emit(as_json, lambda: result, lambda: facts(result))


def _evolve(config: RunConfig, display: Display) -> Any:
    from meta_agent.evolve import evolve as run_loop

    return run_loop(config, display)


def _train(config: RunConfig, display: Display) -> Any:
    from meta_agent.evolve_train import train_alone

    return train_alone(config, display)


def _work(work: Callable[[Display], Any]) -> Any:
    with stdout_for_data(), _display() as display:
        return work(display)


@contextmanager
def _display() -> Iterator[Display]:
    from meta_agent.view import open_display

    display = open_display()
    try:
        yield display
    finally:
        display.close()


def _show_plan(config: RunConfig, as_json: bool) -> None:
    from meta_agent.steps.plan import plan_for
    from meta_agent.view.text import settings

    plan = plan_for(config).to_json()
    if as_json:
        emit_json({"schema_version": 1, "config": config.to_json(), "plan": plan})
    else:
        draw(settings(config.to_json(), plan))
