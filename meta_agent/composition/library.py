"""`meta_agent.optimize(...)`: the loop as a function, for scripts and notebooks.

    import meta_agent
    result = meta_agent.optimize(
        tasks=rows, grade=grade, policy="openai/NAME", meta_model="openai/NAME"
    )

Python arguments are first written to files in `<workspace>/given/`, so that the run can be killed,
resumed and verified like any other. A function must therefore be self-contained: it imports what it
needs, or uses functions, modules and plain values of its own module. The loop runs in a thread of
its own, because a notebook already runs an event loop. After Ctrl-C it stops at the end of the
present step, and the same call resumes it.

Not covered: functions that use values without a literal, such as sockets and data frames.
"""

from __future__ import annotations

import asyncio
import html
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from meta_agent.composition.arguments import Agent, Arguments, Grade, RunArguments, Settings
from meta_agent.composition.given import config_of, prompt_in
from meta_agent.composition.used import require_used
from meta_agent.core.config import RunConfig
from meta_agent.core.protocols import JSON
from meta_agent.reports import Display, RunState, handover_words, open_display
from meta_agent.reports.terminal.display import Event, TellingDisplay

if TYPE_CHECKING:
    from meta_agent.composition.forecast import Forecast
    from meta_agent.core.history import HarnessRepo
    from meta_agent.policies.training.devices import Device


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a run. Rates are shares from 0 to 1, or None if not measured.

    `before` and `after` are clean success on the vault split, which no search sees.
    """

    run: str
    workspace: Path
    exit_reason: str | None
    before: float | None
    after: float | None
    promoted: tuple[str, ...]
    harness_commit: str
    weights: Path | None
    """The folder of a trained policy's weights; None for a policy behind a server."""
    usd: float | None
    claim: str
    """A sentence on what the evidence proves about the difference of `before` and `after`."""
    state: RunState = field(repr=False)

    def to_json(self) -> dict[str, JSON]:
        """Returns the result as the JSON document that `meta-agent evolve --json` prints."""
        return self.state.to_json()

    @property
    def diff(self) -> str:
        """The patch from the agent that was given to the one that is handed over."""
        return self.state.diff

    @property
    def files(self) -> dict[str, str]:
        """The text of each file of the agent that is handed over, by path."""
        tree = self._repo().tree(self.harness_commit)
        return {path: data.decode("utf-8", "replace") for path, data in tree.files.items()}

    @property
    def prompt(self) -> str | None:
        """The system prompt that is handed over, or None if the agent's files name none."""
        return prompt_in(self.files)

    def adopt(self, into: Path | str, branch: str = "meta-agent") -> None:
        """Writes the merged changes to a new branch of the clone `into`, or files to a new folder.

        Raises ConfigError if nothing was merged, if the folder holds other files, or, for a clone,
        if the branch exists or the commit is missing that the harness began with.
        """
        from meta_agent.core.history import adopt_into

        adopt_into(self._repo(), Path(into), branch)

    def _repo(self) -> HarnessRepo:
        from meta_agent.core.history import HarnessRepo
        from meta_agent.core.workspace import open_workspace

        return HarnessRepo.open(open_workspace(self.workspace).harness_repo)

    def __str__(self) -> str:
        rates = f"{self.run}: clean success {_share(self.before)} -> {_share(self.after)}"
        parts = (f"{rates} on tasks that no search saw", self.claim, self.diff)
        return "\n".join(part.rstrip("\n") for part in parts if part)

    def _repr_html_(self) -> str:
        rows = {
            "run": f"{self.run} ({self.exit_reason})",
            "before": _share(self.before),
            "after": _share(self.after),
            "promoted": ", ".join(self.promoted) or "nothing",
            "harness": f"{self.workspace}/harness_repo at {self.harness_commit[:10]}",
            "weights": str(self.weights or "the policy was not trained"),
            "claim": self.claim,
        }
        changes = f"<pre>{html.escape(self.diff)}</pre>" if self.diff else ""
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in rows.items()
        )
        return f"<table>{cells}</table>{changes}"

    @classmethod
    def of(cls, state: RunState) -> Result:
        """Returns the result for a run's state, which was read from its ledger."""
        product = state.product
        visible = dict(state.visible or {})
        return cls(
            run=state.run,
            workspace=Path(state.workspace),
            exit_reason=state.exit_reason,
            before=state.baseline.clean_success if state.baseline else None,
            after=state.final.clean_success if state.final else None,
            promoted=tuple(
                str(version.candidate)
                for version in state.versions
                if version.candidate and not version.undone
            ),
            harness_commit=str(product["harness_commit"] or ""),
            weights=Path(str(product["weights"])) if product["weights"] else None,
            usd=state.usd,
            claim=handover_words(state) or str(visible.get("words", "")),
            state=state,
        )


def optimize(
    tasks: Path | str | Iterable[Mapping[str, JSON]] | None = None,
    grade: Path | str | Grade | None = None,
    *,
    tools: Callable[..., Any] | None = None,
    agent: Agent | None = None,
    policy: str = "nano",
    meta_model: str = "rules",
    base_url: str | None = None,
    budget: int | None = None,
    threshold: float | None = None,
    workspace: Path | str | None = None,
    on_event: Callable[[Event], None] | None = None,
    **settings: Unpack[Settings],
) -> Result:
    """Runs the loop that improves an agent, or resumes it, and returns its result.

    Raises a `core.errors.MetaAgentError`, such as ConfigError for arguments that do not fit.

    Args:
        tasks: rows (objects with a `prompt`), a file or folder of them, or a name that
            `meta-agent tasks check --list` prints, such as `gsm8k`.
        grade: `grade(task, answer) -> bool | float | Outcome`, or a Python file that defines it.
        tools: `tools(task) -> [function, ...]`, the functions that the agent may call.
        agent: a folder, a command, a prompt, or `agent(prompt, base_url) -> answer`.
        policy: the model that attempts the tasks; see `meta-agent evolve --help`.
        meta_model: the model that improves the agent; `rules` needs none.
        base_url: the address of a server that answers for both models in OpenAI's protocol.
        budget: the largest number of attempts.
        threshold: a task is solved if `grade` returns at least this number.
        workspace: the folder for everything that a run writes.
        on_event: called with each event that the display would show.
        settings: any other setting of `meta-agent evolve`, such as `max_usd`; see `Settings`.
    """
    arguments: RunArguments = {
        "tasks": tasks,
        "grade": grade,
        "tools": tools,
        "agent": agent,
        "policy": policy,
        "meta_model": meta_model,
        "base_url": base_url,
        "budget": budget,
        "threshold": threshold,
        "workspace": workspace,
        **settings,
    }
    stop = threading.Event()
    return _Work(lambda: _run_with_display(stop, on_event, config_of(**arguments))).result(stop)


async def optimize_async(**arguments: Unpack[Arguments]) -> Result:
    """Runs `optimize` with the same arguments in async code, and returns its result.

    If cancelled, the run stops after its current step.
    """
    stop, on_event = threading.Event(), arguments.pop("on_event", None)
    work = _Work(lambda: _run_with_display(stop, on_event, config_of(**arguments)))
    try:
        while work.thread.is_alive():
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        stop.set()
        raise
    return work.result(stop)


def run(config: RunConfig, display: Display, stop: threading.Event | None = None) -> Result:
    """Runs the loop with complete settings, as `meta-agent evolve` does. Returns its result."""
    from meta_agent.composition.evolve import evolve

    require_used(config)
    return Result.of(evolve(config, display, stop))


def train(config: RunConfig, display: Display) -> JSON:
    """Trains once without a search, as `meta-agent train` does. Returns the report."""
    from meta_agent.composition.evolve import train_alone

    require_used(config)
    return train_alone(config, display)


def forecast(config: RunConfig, planned: list[Device] | None = None) -> Forecast:
    """Returns what a run would do and cost, as `evolve --dry-run` does. It contacts no server."""
    from meta_agent.composition.forecast import forecast as forecast_run

    require_used(config)
    return forecast_run(config, planned)


def minutes_of(config: RunConfig) -> tuple[float, float]:
    """Returns the fewest and the most minutes of a staged run, from steps that it makes and times.

    Raises ConfigError if the policy is not trained in legs.
    """
    from meta_agent.composition.timing import minutes_of as timed

    return timed(config)


def _run_with_display(
    stop: threading.Event, on_event: Callable[[Event], None] | None, config: RunConfig
) -> Result:
    display: Display = open_display()
    if on_event is not None:
        display = TellingDisplay(display, on_event)
    try:
        return run(config, display, stop)
    finally:
        display.close()


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


class _Work:
    """Runs a function in a thread, and keeps its result or its error."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._result: Result | None = None
        self._error: BaseException | None = None

        def run() -> None:
            try:
                self._result = work()
            except BaseException as error:
                self._error = error

        self.thread = threading.Thread(target=run, name="meta-agent", daemon=True)
        self.thread.start()

    def result(self, stop: threading.Event) -> Result:
        """Waits for and returns the result, or raises the function's error. Ctrl-C sets `stop`."""
        while self.thread.is_alive():
            try:
                self.thread.join(0.2)
            except KeyboardInterrupt:
                stop.set()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


__all__ = ["Event", "Result", "forecast", "optimize", "optimize_async", "run", "train"]
