"""Opens a run: `open_run` calls the steps in order, and each step is one function.

`open_run` creates the workspace if there is none, resumes an unfinished run with the same settings,
opens the run's models, and prints its first lines. A replay takes its name, clock and settings from
its recording, which is an earlier run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple

from meta_agent.composition.draining import draining, exit_reason
from meta_agent.composition.headline import cautions, headline
from meta_agent.composition.inputs import (
    base_policy,
    first_harness,
    load_run_domain,
    open_or_create,
)
from meta_agent.composition.placing import executor_of, images_of, placing
from meta_agent.composition.preflight import (
    backend_of,
    needs_tasks,
    preflight,
    require_limits,
    require_needs,
)
from meta_agent.composition.root import extensions_of, sandboxes_of
from meta_agent.composition.served import REPLAY, open_models, policies_of
from meta_agent.composition.visible import declare
from meta_agent.core.capabilities import Capabilities
from meta_agent.core.config import RunConfig, slug_of
from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.core.harness import no_recipe, parse_contract, recipe_of
from meta_agent.core.harness.judge import RewardJudge
from meta_agent.core.history import HarnessRepo
from meta_agent.core.lab.live import Lab, LabSettings
from meta_agent.core.ledger import DONE, WAIT, Ledger
from meta_agent.core.ledger.kinds import Clock
from meta_agent.core.ledger.waiting import Wait, Watch
from meta_agent.core.loop.plan import plan_for
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.spending import alpha_of, shared_words
from meta_agent.core.protocols import JSON, Domain
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.task_splits import Halves, WithGenerated
from meta_agent.core.workspace import Workspace
from meta_agent.llm_clients.asking.client import Client, Recording, recording_of, unasked
from meta_agent.policies.engine_room import ROLLOUTS, engines_for
from meta_agent.policies.training.run import MIN_EXACT
from meta_agent.proposers import AGENT
from meta_agent.readers.formats import read_rollouts
from meta_agent.reports import Display, recorded, reduce, wait_note, wait_words
from meta_agent.reports.terminal.display import Event, TellingDisplay
from meta_agent.sandboxes import build_missing_image, reap
from meta_agent.skills import SkillLibrary
from meta_agent.trackers import Place, listening


@contextmanager
def open_run(
    config: RunConfig, display: Display, *, purpose: str = "", stop: threading.Event | None = None
) -> Iterator[Run]:
    """Yields an opened run with everything it needs. On exit, closes it and records why it ended.

    `purpose` is empty for `evolve`; another command is named and becomes part of the run's name.
    `stop` is an event that stops the run; without it, Ctrl-C and SIGTERM do.
    """
    requested, recording = _requested(config)
    config = _effective(requested, recording)
    preflight(config)
    backend = _backend(config, display.note)
    run_id = recording.run_id if recording else name_of(config, purpose)
    domain = load_run_domain(config, sandbox=backend, run=run_id)
    require_limits(config, domain)
    workspace = open_or_create(config, domain=domain, tell=display.note)
    require_needs(config, first_harness(config), domain)
    drain = nullcontext(stop) if stop else draining()
    with Ledger.open(workspace.ledger_file) as ledger, drain as stopping:
        reap(backends=("docker", backend))
        began = _Began.of(requested, ledger, run_id, recording)
        with (
            _with_listeners(config, ledger, began, workspace, display) as run_display,
            _watching(ledger, began, run_display),
            _models(requested, ledger, began, workspace, run_display) as client,
        ):
            place = _Place(config, purpose, workspace, ledger, domain, backend, stopping, began)
            run = _assemble(place, run_display, client)
            if not run.finished:
                _announce(run, place, client)
            try:
                yield run
            except BaseException as error:
                ledger.finish_run(run.id, exit_reason(error))
                raise
            finally:
                run.lab.close()
                Capabilities.of(domain).close()


def _backend(config: RunConfig, tell: Callable[[str], None]) -> str:
    """Returns the sandbox backend. An engine that lacks only the base image gets it: minutes.

    If there is no backend, an error in the task file is raised first.
    """
    try:
        return backend_of(config)
    except PreflightError:
        load_run_domain(config, sandbox="process")
        if not build_missing_image(config.sandbox, tell):
            raise
        return backend_of(config)


def name_of(config: RunConfig, purpose: str = "") -> str:
    """Returns the name of the run with these settings, for `evolve` or the command `purpose`."""
    return "-".join(filter(None, (slug_of(config.domain), purpose, config.config_hash[:10])))


class _Began(NamedTuple):
    """A run's name, its clock, and whether it was begun or done before."""

    run_id: str
    at: int
    config_hash: str
    resumed: bool
    done: bool

    @classmethod
    def of(
        cls, config: RunConfig, ledger: Ledger, run_id: str, recording: Recording | None
    ) -> _Began:
        row, clock = ledger.run(run_id), ledger.step(f"{run_id}/clock")
        if row is not None and recording and row.config_hash != config.config_hash:
            raise ConfigError(
                f"this workspace already holds the run {run_id}, so it cannot be replayed here",
                hint="use --workspace NEW, and --meta-model replay:FOLDER with the folder of the "
                "recorded run in transcripts/",
            )
        now = recording.clock if recording else int(time.time())
        at = clock.outcome_as(Clock)["at"] if clock and clock.is_done else now
        done = row is not None and row.exit_reason == DONE
        return cls(run_id, at, config.config_hash, row is not None, done)


def _effective(requested: RunConfig, recording: Recording | None) -> RunConfig:
    """Returns the settings that the run uses. If the recorded run used rules, they propose again.

    Raises ConfigError if a coding agent proposed in the recorded run: its sessions have no replay.
    """
    author = str(recording.settings.get("meta_model", "")) if recording else ""
    if author.startswith(AGENT):
        raise ConfigError(
            f"--meta-model {requested.meta_model}: the coding agent {author} proposed the edits "
            "of that run, and its sessions cannot be replayed",
            hint="check that run in the recording's workspace instead: meta-agent verify",
        )
    if author != "rules":
        return requested
    return requested.model_copy(update={"meta_model": "rules"})


def _requested(config: RunConfig) -> tuple[RunConfig, Recording | None]:
    """Returns the requested settings, and the recording of a replay, which completes them."""
    if not config.meta_model.startswith(REPLAY):
        return config, None
    recording = recording_of(config.meta_model, config.workspace)
    return recording.effective(config), recording


def settled(config: RunConfig) -> tuple[RunConfig, str]:
    """Returns a run's effective settings and name; `replay:RUN` takes both from the run RUN."""
    requested, recording = _requested(config)
    acting = _effective(requested, recording)
    if recording:
        acting = acting.model_copy(update={"models": dict(recording.models)})
    return acting, recording.run_id if recording else name_of(acting)


@contextmanager
def _with_listeners(
    config: RunConfig, ledger: Ledger, began: _Began, workspace: Workspace, display: Display
) -> Iterator[Display]:
    """Yields a display that also reports to trackers and to the URL of `--notify`."""
    if began.done or not (config.trackers or config.notify):
        yield display
        return
    place = Place.of(began.run_id, workspace.root, config.to_json())
    with listening(place, config.trackers, config.notify, display.note) as tell:
        ended = DONE
        try:
            yield TellingDisplay(display, tell)
        except BaseException as error:
            ended = exit_reason(error)
            raise
        finally:
            tell(Event("ended", ended, _figures(ledger, began.run_id)))


def _figures(ledger: Ledger, run: str) -> dict[str, JSON]:
    if ledger.run(run) is None:
        return {}
    state = reduce(ledger, run)
    sides = {"before": state.baseline, "after": state.final}
    return {f"clean_success_{name}": side.clean_success for name, side in sides.items() if side}


def _watching(
    ledger: Ledger, began: _Began, display: Display
) -> AbstractContextManager[Watch | None]:
    """Writes down what the run waits for, and shows the waits that last, unless it is done."""

    def tell(wait: Wait) -> None:
        ledger.event(WAIT, {"text": wait_words(wait)}, began.run_id)
        display.note(wait_note(wait))

    return nullcontext() if began.done else Watch(ledger, began.run_id, tell)


def _models(
    config: RunConfig, ledger: Ledger, began: _Began, workspace: Workspace, display: Display
) -> AbstractContextManager[Client | None]:
    """Opens the models of a run, unless it is done."""
    if began.done:
        return nullcontext()
    return open_models(
        config, ledger, began.run_id, workspace, started_at=began.at, tell=display.note
    )


class _Place(NamedTuple):
    """The parts of a run that are known before its lab is opened."""

    config: RunConfig
    purpose: str
    workspace: Workspace
    ledger: Ledger
    domain: Domain
    backend: str
    stopping: threading.Event
    began: _Began


def _assemble(place: _Place, display: Display, client: Client | None) -> Run:
    """Puts a run together: its plan, its journal, its lab and its extensions."""
    config, ledger, run_id = place.config, place.ledger, place.began.run_id
    plan = replace(plan_for(config, place.domain), alpha=alpha_of(ledger, run_id))
    repo = HarnessRepo.open(place.workspace.harness_repo)
    if not place.began.done:
        ledger.start_run(run_id, config.to_json(), config_hash=place.began.config_hash)
    run_display = recorded(display, ledger, run_id)
    clock = ledger.once(f"{run_id}/clock", "clock", {}, lambda: {"at": place.began.at})["at"]
    domain = Halves(place.domain) if plan.halved else place.domain
    return Run(
        run_id,
        config,
        plan,
        ledger,
        repo,
        _lab(place, domain, repo, run_display, client),
        SkillLibrary(config.skills_library),
        run_display,
        clock,
        place.stopping.is_set,
        extensions_of(config, run_id, client, ledger),
        client,
    )


def _lab(
    place: _Place, domain: Domain, repo: HarnessRepo, display: Display, client: Client | None
) -> Lab:
    """Opens the lab of a run. A run that is done gets one that only reads."""
    config, workspace, began = place.config, place.workspace, place.began
    run_id, backend, stopping = began.run_id, place.backend, place.stopping.is_set
    images = {} if began.done else images_of(repo, backend)
    placed = placing(config, domain)
    engines = engines_for(config, base_policy(config), domain, workspace.root / "logs")
    judge = None
    if client is not None and config.reward_judge is not None:
        judge = RewardJudge(client, client.model_of("reward"))
    executor = None
    if not began.done:
        executor = executor_of(config, run_id, backend, images, domain, display, stopping)
    return Lab(
        lab_settings(config, run_id, workspace, placed.workers),
        ledger=place.ledger,
        store=RolloutStore(workspace.rollouts),
        domain=domain,
        on_step=display.metric,
        stopping=stopping,
        policies=policies_of(config, client, placed.devices, engines, display.note),
        open_sandbox=sandboxes_of(backend, run_id, images),
        executor=executor,
        ask_judge=judge,
    )


def _announce(run: Run, place: _Place, client: Client | None) -> None:
    """Prints the first lines of a run. Raises ConfigError if the harness does not fit the tasks."""
    config, purpose = place.config, place.purpose
    resumed = place.began.resumed
    run.display.begin(headline(config, run.plan, place.workspace, place.backend, resumed, purpose))
    shared = () if purpose else shared_words(run.ledger, run.id, run.plan)
    for line in (*cautions(run.plan, run.lab.domain), *shared, *unasked(config)):
        run.note(line)
    capabilities = Capabilities.of(place.domain)
    if client is not None and capabilities.judge is not None and capabilities.judge_by is not None:
        run.note(capabilities.judge_by(client))
    contract = parse_contract(run.repo.tree(run.repo.head()))
    if contract.command and not config.own_tasks:
        raise needs_tasks(config)
    if config.trainable and not contract.factors.get("recipe"):
        raise no_recipe(contract.name)
    if config.trainable:
        recipe = recipe_of(run.repo.tree(run.repo.head()))
        if recipe.generate:
            count = len(WithGenerated(place.domain, recipe.generate).generated)
            run.note(f"generate = {recipe.generate!r} makes {count} further training tasks")
        _choose_warmup(run)
    if not purpose:
        declare(run)


def _choose_warmup(run: Run) -> None:
    """Chooses the rows for warm-ups: of `--warmup`, or of an earlier run if the recipe needs some.

    Raises ConfigError if no row is left.
    """
    source = run.config.warmup
    needs = recipe_of(run.repo.tree(run.repo.head())).sft_steps
    if source is None and not needs:
        return
    reading = read_rollouts(source) if source else run.lab.earlier_warmup()
    chosen = run.lab.choose_warmup(reading, replay=source is not None)
    words = ", ".join(f"{count} {reason}" for reason, count in chosen.get("left_out", {}).items())
    if not chosen["rows"]:
        raise ConfigError(
            f"{source or 'the workspace'} holds no clean success on a training task to imitate"
            + (f": {words}" if words else ""),
            hint="give --warmup FILE with solved attempts at training tasks, or leave --warmup and "
            "the recipe's sft_steps out",
        )
    run.note(f"warm-up: {chosen['rows']} rows" + (f"; left out: {words}" if words else ""))


def lab_settings(config: RunConfig, run_id: str, workspace: Workspace, workers: int) -> LabSettings:
    """Returns the settings of a run's lab, which trains and evaluates `workers` jobs at a time."""
    return LabSettings(
        run=run_id,
        base_policy=base_policy(config),
        workers=workers,
        concurrency=ROLLOUTS if config.engines else config.concurrency,
        checkpoint_every=config.checkpoint_every if config.policy.startswith("hf:") else 0,
        min_exact=MIN_EXACT if config.policy.startswith("hf:") else 0.0,
        checkpoints=workspace.checkpoints,
        seed=config.seed,
    )
