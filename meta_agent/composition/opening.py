"""The start of a run: everything that can be refused is refused here, before any work.

`open_run` makes the workspace where there is none, takes up an unfinished run with the same
settings, opens the models that it asks, and says what is about to happen. A replay takes its name,
clock and settings from the recording. Ctrl-C and SIGTERM drain (the step in flight is finished and
recorded, a training sealed); a second Ctrl-C ends the process at once. Each leaves a run that the
same command resumes.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Final, Literal, NamedTuple

from meta_agent.composition.bring import NO_ANSWERS, Answers, Choose, create_brought, is_brought
from meta_agent.composition.headline import cautions, headline
from meta_agent.composition.placing import executor_of, images_of, placing
from meta_agent.composition.root import extensions_of, sandboxes_of
from meta_agent.composition.served import REPLAY, open_models, policies_of, require_servers
from meta_agent.composition.visible import declare
from meta_agent.core.config import RunConfig
from meta_agent.core.distribution import install
from meta_agent.core.errors import ConfigError, MetaAgentError, PreflightError
from meta_agent.core.harness import CONTRACT_FILE, parse_contract
from meta_agent.core.history import HarnessRepo
from meta_agent.core.lab.live import Lab, LabSettings
from meta_agent.core.ledger import DONE, Ledger
from meta_agent.core.ledger.kinds import Clock
from meta_agent.core.loop.plan import plan_for
from meta_agent.core.loop.records import Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.spending import alpha_of, shared_words
from meta_agent.core.offers import Offered
from meta_agent.core.protocols import JSON, Domain
from meta_agent.core.resources import shipped_harness
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.task_splits import Halves, as_used, lacking, sizes
from meta_agent.core.workspace import Workspace, init_workspace, is_workspace
from meta_agent.domains import Asked, door_of, load_domain, open_domain
from meta_agent.domains.check import repeated_tasks
from meta_agent.llm_clients.asking.client import Client, Recording, recording_of, unasked
from meta_agent.policies.engine_room import ROLLOUTS, engines_for
from meta_agent.policies.training.hub import hf_place
from meta_agent.policies.training.run import MIN_EXACT
from meta_agent.reports import Display, recorded, reduce
from meta_agent.reports.terminal.display import Event, TellingDisplay
from meta_agent.sandboxes import Backend, reap, resolve_backend
from meta_agent.skills import SkillLibrary
from meta_agent.strategies.strategies import STRATEGIES
from meta_agent.trackers import Place, listening, require_trackers

FIRST_COMMIT = "feat: the harness this workspace starts from"


@contextmanager
def open_run(
    config: RunConfig,
    display: Display,
    *,
    purpose: str = "",
    stop: threading.Event | None = None,
) -> Iterator[Run]:
    """Everything a run needs; closes it all, and records why it ended.

    `purpose` keeps runs of other commands apart from those of `evolve` with the same settings.
    `stop` drains several runs at once; without it, this run listens for signals itself.
    """
    asked, recording = _asked(config)
    config = _acting(asked, recording)
    require_supported(config)
    if config.trainable:
        _require_training()
    if config.policy.startswith("hf:"):
        hf_place(config.policy.removeprefix("hf:"))
    require_servers(config)
    require_trackers(config.trackers)
    try:
        backend = backend_of(config)
    except PreflightError:
        load_run_domain(config, sandbox="process")  # what is amiss with the tasks is said first
        raise
    run_id = recording.run_id if recording else name_of(config, purpose)
    domain = load_run_domain(config, sandbox=backend, run=run_id)
    workspace = open_or_create(config)
    drain = nullcontext(stop) if stop else draining()
    with Ledger.open(workspace.ledger_file) as ledger, drain as stopping:
        reap(backends=("docker", backend))
        began = _Began.of(asked, ledger, run_id, recording)
        with (
            _heard(config, ledger, began, workspace, display) as shown,
            _models(asked, ledger, began, workspace, shown) as client,
        ):
            run = _assemble(
                config,
                shown,
                workspace,
                ledger,
                domain,
                backend,
                stopping,
                began,
                client,
                purpose,
            )
            try:
                yield run
            except BaseException as error:
                ledger.finish_run(run.id, _reason(error))
                raise
            finally:
                run.lab.close()
                Offered.by(domain).close()


def name_of(config: RunConfig, purpose: str = "") -> str:
    """A run's name: the same settings are the same run."""
    return "-".join(filter(None, (config.slug, purpose, config.config_hash[:10])))


class _Began(NamedTuple):
    """A run's name, its clock, and how far it had come."""

    run_id: str
    at: int
    config_hash: str
    known: bool
    done: bool

    @classmethod
    def of(
        cls, config: RunConfig, ledger: Ledger, run_id: str, recording: Recording | None
    ) -> _Began:
        row, clock = ledger.run(run_id), ledger.step(f"{run_id}/clock")
        if row is not None and recording and row.config_hash != config.config_hash:
            raise ConfigError(
                f"this workspace holds the run {run_id} itself, which cannot be repeated over it",
                hint="meta-agent evolve --workspace ANOTHER (with the recording as a path)",
            )
        now = recording.clock if recording else int(time.time())
        at = clock.told(Clock)["at"] if clock and clock.done else now
        done = row is not None and row.exit_reason == DONE
        return cls(run_id, at, config.config_hash, row is not None, done)


def _acting(asked: RunConfig, recording: Recording | None) -> RunConfig:
    """The settings to act by. A recording of a frozen policy alone has rules that propose again."""
    if recording is None or recording.settings.get("meta_model") != "rules":
        return asked
    return asked.model_copy(update={"meta_model": "rules"})


def _asked(config: RunConfig) -> tuple[RunConfig, Recording | None]:
    """The settings that are asked for; a replay takes the rest from its recording."""
    if not config.meta_model.startswith(REPLAY):
        return config, None
    recording = recording_of(config.meta_model, config.workspace)
    return recording.effective(config), recording


def settled(config: RunConfig) -> tuple[RunConfig, str]:
    """The settings that a recorded run acted by, without its models; and its name by them."""
    asked, recording = _asked(config)
    acting = _acting(asked, recording)
    if recording:
        acting = acting.model_copy(update={"models": dict(recording.models)})
    return acting, recording.run_id if recording else name_of(acting)


@contextmanager
def _heard(
    config: RunConfig, ledger: Ledger, began: _Began, workspace: Workspace, display: Display
) -> Iterator[Display]:
    """The display, where trackers and a person's URL hear of the run as well."""
    if began.done or not (config.trackers or config.notify):
        yield display
        return
    place = Place.of(began.run_id, workspace.root, config.to_json())
    with listening(place, config.trackers, config.notify, display.note) as tell:
        ended = DONE
        try:
            yield TellingDisplay(display, tell)
        except BaseException as error:
            ended = _reason(error)
            raise
        finally:
            tell(Event("ended", ended, _figures(ledger, began.run_id)))


def _figures(ledger: Ledger, run: str) -> dict[str, JSON]:
    if ledger.run(run) is None:
        return {}
    state = reduce(ledger, run)
    sides = {"before": state.baseline, "after": state.final}
    return {f"clean_success_{name}": one.clean_success for name, one in sides.items() if one}


def _models(
    config: RunConfig, ledger: Ledger, began: _Began, workspace: Workspace, display: Display
) -> AbstractContextManager[Client | None]:
    """The models of a run that has something left to do."""
    if began.done:
        return nullcontext()
    return open_models(
        config, ledger, began.run_id, workspace, started_at=began.at, tell=display.note
    )


def backend_of(config: RunConfig) -> Backend:
    """Where untrusted code runs: edits by language models, and what a policy does to real code."""
    return resolve_backend(
        config.sandbox,
        code_by_llm=config.meta_model != "rules" or config.own_tasks,
        allow_unsafe=config.allow_unsafe_process,
    )


def first_version(run: Run) -> Version:
    """What `main` was at when the run began, also when the run is resumed later."""
    outcome = run.once("start", "start", {}, lambda: {"commit": run.repo.head()})
    return Version("v0", outcome["commit"])


def open_or_create(
    config: RunConfig,
    answers: Answers = NO_ANSWERS,
    *,
    choose: Choose = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
) -> Workspace:
    """The workspace of these settings, made where there is none. The rest is for brought agents."""
    door_of(config.domain)  # nothing is made for a domain that is not there

    def create(path: Path) -> HarnessRepo:
        if is_brought(config.harness):
            return create_brought(path, config.harness, answers, choose=choose, tell=tell)
        return HarnessRepo.create(path, _first_files(config), FIRST_COMMIT)

    return init_workspace(
        config.workspace,
        domain=config.domain,
        harness=config.harness,
        seed=config.seed,
        create_repo=create,
    )


def _first_files(config: RunConfig) -> dict[str, bytes]:
    if not config.own_tasks and config.policy == "nano":
        from meta_agent.domains.nano.planted.seeds import seed_files

        variant: Literal["seed", "competent"] = (
            "competent" if config.harness == "competent" else "seed"
        )
        seed = seed_files(config.domain, config.seed, config.profile, variant=variant)
        return dict(seed.files)
    return shipped_harness(door_of(config.domain)[0].harness)


def load_run_domain(config: RunConfig, *, sandbox: str | None = None, run: str = "tasks") -> Domain:
    """The domain of these settings: built in, or of a task file whose sandboxes belong to `run`."""
    if not config.own_tasks:
        return load_domain(config.domain)
    asked = asked_of(config, sandbox=sandbox or backend_of(config), run=run)
    own = open_domain(asked)
    domain = as_used(own, trainable=config.trainable)
    if told := lacking(sizes(domain), trainable=config.trainable):
        raise ConfigError(
            f"{config.tasks or config.domain} has {told}",
            hint='give its rows a "split" of train, search, confirm or vault',
        )
    if told := repeated_tasks(asked, own):
        raise ConfigError(
            f"{config.tasks or config.domain}: {told}",
            hint="meta-agent tasks check names them all; keep one of each",
        )
    return domain


def asked_of(config: RunConfig, *, sandbox: str, run: str) -> Asked:
    """What these settings ask of a domain."""
    return Asked(
        name=config.domain,
        tasks=config.tasks,
        sandbox=sandbox,
        run=run,
        grade=config.grade,
        threshold=config.threshold,
        mapping=config.map,
        python=config.python,
        judge=config.judge,
    )


def base_policy(config: RunConfig) -> str:
    """`nano` is the warm start of the suite that is asked for; swe's is called plainly that."""
    other_suite = config.policy == "nano" and config.domain != "swe"
    return f"nano:{config.domain}" if other_suite else config.policy


def _require_training() -> None:
    missing = [name for name in ("torch", "transformers", "trl") if find_spec(name) is None]
    if missing:
        raise PreflightError(
            f"training needs {', '.join(missing)}, which this installation does not have",
            hint=f"{install('train')}; the README says how to avoid CUDA wheels",
        )


def require_supported(config: RunConfig) -> None:
    """Raises ConfigError where a name is unknown, or policy and tasks do not fit each other."""
    door_of(config.domain)
    if config.strategy not in STRATEGIES:
        raise ConfigError(
            f"there is no strategy {config.strategy!r}", hint=f"one of {', '.join(STRATEGIES)}"
        )
    if config.policy != "nano" and not config.own_tasks:
        raise ConfigError(
            f"--policy {config.policy} needs tasks: the built-in suites are cut for the nano "
            "policy (a few tokens a turn, a context of a hundred)",
            hint="meta-agent evolve --tasks FILE (meta-agent tasks check FILE explains the format)",
        )
    if config.executor != "local" and not config.trainable:
        raise ConfigError(
            f"--executor {config.executor} is for a policy that is trained here, and "
            f"{config.policy} is asked from one machine, which holds its keys",
            hint="leave it out, or --policy nano or hf:PATH",
        )
    if config.own_tasks and config.policy == "nano":
        raise ConfigError(
            "the nano policy is made for the built-in suites, and these tasks are others",
            hint="--policy provider/model, vllm:PATH or hf:PATH",
        )
    if is_brought(config.harness) and not config.own_tasks and not _says_how(config):
        raise _needs_tasks(config)


def _says_how(config: RunConfig) -> bool:
    """Whether a brought harness has a `harness.toml` of its own, or was taken already."""
    folder = Path(config.harness)
    return is_workspace(config.workspace) or (folder / CONTRACT_FILE).is_file()


def _needs_tasks(config: RunConfig) -> ConfigError:
    return ConfigError(
        f"--harness {config.harness} needs tasks: the nano suites are for harnesses with an entry "
        f"in their {CONTRACT_FILE}",
        hint="meta-agent evolve --tasks FILE --policy provider/model",
    )


def _assemble(
    config: RunConfig,
    display: Display,
    workspace: Workspace,
    ledger: Ledger,
    domain: Domain,
    backend: str,
    stopping: threading.Event,
    began: _Began,
    client: Client | None,
    purpose: str,
) -> Run:
    run_id = began.run_id
    plan = replace(plan_for(config, domain), alpha=alpha_of(ledger, run_id))
    offered = Offered.by(domain)
    domain = Halves(domain) if plan.halved else domain
    if not began.done:
        ledger.start_run(run_id, config.to_json(), config_hash=began.config_hash)
    shown = recorded(display, ledger, run_id)
    clock = ledger.once(f"{run_id}/clock", "clock", {}, lambda: {"at": began.at})["at"]
    repo = HarnessRepo.open(workspace.harness_repo)
    images = {} if began.done else images_of(repo, backend)
    placed = placing(config, domain)
    engines = engines_for(config, base_policy(config), domain, workspace.root / "logs", shown.note)
    lab = Lab(
        lab_settings(config, run_id, workspace, placed.workers),
        ledger=ledger,
        store=RolloutStore(workspace.rollouts),
        domain=domain,
        on_step=shown.metric,
        stopping=stopping.is_set,
        policies=policies_of(config, client, placed.devices, engines),
        open_sandbox=sandboxes_of(backend, run_id, images),
        executor=None
        if began.done
        else executor_of(config, run_id, backend, images, domain, shown, stopping.is_set),
    )
    skills = SkillLibrary(config.skills_library)
    run = Run(
        run_id,
        config,
        plan,
        ledger,
        repo,
        lab,
        skills,
        shown,
        clock,
        stopping.is_set,
        extensions_of(config, run_id, client),
        client,
    )
    if not run.finished:
        shown.begin(headline(config, plan, workspace, backend, began.known, purpose))
        shared = () if purpose else shared_words(ledger, run_id, plan)
        for line in (*cautions(plan, domain), *shared, *unasked(config)):
            shown.note(line)
        if client is not None and offered.judge is not None and offered.judge_by is not None:
            shown.note(offered.judge_by(client))
        contract = parse_contract(repo.tree(repo.head()))
        if contract.command and not config.own_tasks:
            raise _needs_tasks(config)
        if not purpose:
            declare(run)
    return run


def lab_settings(
    config: RunConfig,
    run_id: str,
    workspace: Workspace,
    workers: int,
) -> LabSettings:
    """What a lab of these settings needs to know."""
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


_ASK_TO_STOP: Final = (signal.SIGINT, signal.SIGTERM)
_STOPPING: Final = (
    b"\nstopping: a training that keeps seals makes one after this optimizer step, any other step "
    b"in flight is finished; Ctrl-C again ends it now\n"
)


@contextmanager
def draining() -> Iterator[threading.Event]:
    """SIGINT or SIGTERM: stop where it can be gone on from. Another SIGINT: end the process now."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            if number == signal.SIGTERM:  # schedulers send it to each process, and again
                return
            if os.isatty(2):
                os.write(2, b"\x1b[?25h")  # a live display had hidden the cursor
            os._exit(130)  # children die with us (PR_SET_PDEATHSIG); the journal is durable
        stop.set()
        # Not through the display: it may hold its lock in the very thread that we interrupt.
        os.write(2, _STOPPING)

    before = {number: signal.signal(number, on_signal) for number in _ASK_TO_STOP}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_REASONS: Final = {
    130: "interrupted",
    4: "budget",
    5: "infrastructure",
    6: "parked",
    7: "aborted",
}


def _reason(error: BaseException) -> str:
    if isinstance(error, MetaAgentError):
        return _REASONS.get(error.exit_code, "error")
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "bug"
