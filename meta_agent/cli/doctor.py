"""`meta-agent doctor`: does this machine have what a run needs?

Each need is a row. A failing row names its fix; a warning costs something but stops nothing. Rows
rest on trials: the process sandbox tries to reach a port of ours, and free disk space is measured.
Names of keys are shown, never their values.

No server is contacted unless `live` is set. Then each server of a base URL is asked for its list of
models, without a key, and a Ray cluster for its nodes. Not covered: whether a key works or a model
answers, which would cost money; whether a node has the same code, which is checked when it joins.
"""

from __future__ import annotations

import http.client
import platform
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from meta_agent.cli._bring import FIX_HARNESS
from meta_agent.cli._sandbox_rows import Level, Row, sandbox_rows
from meta_agent.cli._trust import programs
from meta_agent.core.config import RunConfig
from meta_agent.core.distribution import RUN_NEEDS, install
from meta_agent.core.errors import ConfigError, MetaAgentError
from meta_agent.core.protocols import JSON
from meta_agent.core.workspace import SETTINGS_FILE

_LEAST_FREE_BYTES: Final = 2 << 30
_OLDEST_PYTHON: Final = (3, 11)
_PATIENCE_SEC: Final = 5.0
_REAL_MODELS: Final = {
    "OPENAI_API_KEY": "openai/gpt-5.1",
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-6",
}
"""One model with a known price for each of the providers whose own SDK we speak."""


@dataclass(frozen=True, slots=True)
class Health:
    """What `meta-agent doctor` found: one row for each thing that a run needs."""

    needs: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Returns True if nothing that a run needs is missing."""
        return all(row.level != "fail" for row in self.needs)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Returns rows for a table: level (such as fail), name, detail and fix."""
        return [(row.level, row.name, row.detail, row.fix) for row in self.needs]

    def to_json(self) -> dict[str, JSON]:
        return {"schema_version": 1, "ok": self.ok, "checks": [asdict(row) for row in self.needs]}


def examine(
    config: RunConfig, *, live: bool = False, harness: bool = False, removed: Sequence[str] = ()
) -> Health:
    """Checks what a run needs of this machine and, if `live`, of servers; returns the results.

    With `harness` it starts the workspace's harness once and checks nothing else. `removed` names
    what was just removed.
    """
    checks: tuple[tuple[str, Callable[[RunConfig], Iterator[Row]]], ...] = (
        ("python", _python),
        ("git", _git),
        ("training", _training),
        ("devices", _devices),
        ("memory", _fits),
        ("sandbox", sandbox_rows),
        ("tasks", _tasks),
        ("disk", _disk),
        ("workspace", _workspace),
        ("keys", _keys),
        ("models", _models),
        ("litellm", _litellm),
        ("executor", _executor),
        ("vllm", _vllm),
        *((("servers", _servers), ("nodes", _nodes)) if live else ()),
        ("start", _start),
        ("real models", _real_thing),
    )
    chosen = (("harness", _harness),) if harness else checks
    rows = tuple(row for name, check in chosen for row in _guarded(name, check, config))
    return Health((*(Row("removed", "ok", name) for name in removed), *rows))


def _guarded(
    name: str, check: Callable[[RunConfig], Iterator[Row]], config: RunConfig
) -> Iterator[Row]:
    """Yields a check's rows. If the check itself fails, it yields one failing row instead."""
    try:
        yield from check(config)
    except MetaAgentError as error:
        yield Row(name, "fail", str(error), error.hint or "")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in RUN_NEEDS:
            raise
        yield Row(name, "fail", f"the package {error.name} is not installed", install("run"))


def _python(config: RunConfig) -> Iterator[Row]:
    version = platform.python_version()
    good = sys.version_info >= _OLDEST_PYTHON
    yield Row(
        "python", "ok" if good else "fail", version, "" if good else "use Python 3.11 or newer"
    )


def _git(config: RunConfig) -> Iterator[Row]:
    from meta_agent.core.history import OLDEST_GIT, git_version

    version = ".".join(map(str, git_version()))
    oldest = ".".join(map(str, OLDEST_GIT))
    good = git_version() >= OLDEST_GIT
    fix = "" if good else f"install git {oldest} or newer"
    yield Row("git", "ok" if good else "fail", version, fix)


def _training(config: RunConfig) -> Iterator[Row]:
    """Checks the packages for training, by their metadata: importing torch would take seconds."""
    local = config.policy == "nano" or config.policy.startswith("hf:")
    needed = ("trl", "torch", "transformers", "accelerate", *(("peft",) * bool(config.lora_rank)))
    missing = [name for name in needed if _version(name) is None]
    if missing:
        level: Level = "fail" if local else "warn"
        fix = f"{install('train')}; on Linux without a GPU see the README first: "
        fix += "the CPU build of torch saves gigabytes"
        yield Row("training", level, f"not installed: {', '.join(missing)}", fix)
        return
    yield Row("training", "ok", ", ".join(f"{name} {_version(name)}" for name in needed))
    if _has_cuda_wheels() and not Path("/dev/nvidiactl").exists():
        fix = "reinstall torch from the CPU index (README, Installing) to save gigabytes"
        yield Row("torch build", "warn", "a CUDA build on a machine without an NVIDIA GPU", fix)


def _devices(config: RunConfig) -> Iterator[Row]:
    """Checks which devices a training would use. Warns if torch cannot use a GPU that is here."""
    from meta_agent.policies.training.devices import devices
    from meta_agent.policies.training.memory import gib

    every_device = devices()
    gpus = [device for device in every_device if device.name]
    summary = ", ".join(
        f"{f'GPU {device.name}' if device.name else 'this machine'}: {gib(device.free_bytes)} free"
        for device in every_device
    )
    of_cpus = (_version("torch") or "").endswith("+cpu")
    if not config.policy.startswith("hf:"):
        yield Row("devices", "ok", summary)
    elif gpus and of_cpus:
        fix = "install torch from an index with CUDA builds (pytorch.org names it)"
        yield Row("devices", "fail", f"{summary}; but torch {_version('torch')} uses none", fix)
    elif not gpus:
        fix = "take a machine with one: here only models of some millions of parameters train well"
        yield Row("devices", "warn", f"no GPU; {summary}", fix)
    else:
        yield Row("devices", "ok", summary)


def _fits(config: RunConfig) -> Iterator[Row]:
    """Estimates a training's memory from the model's files. Loads and downloads nothing."""
    from meta_agent.composition.inputs import load_run_domain
    from meta_agent.composition.placing import placing
    from meta_agent.policies.training.memory import by_part, gib

    if not config.policy.startswith("hf:") or not config.own_tasks or programs(config):
        return
    if not Path(config.policy.removeprefix("hf:")).expanduser().is_dir():
        yield Row("memory", "ok", f"{config.policy} is looked at when it is fetched")
        return
    placed = placing(config, load_run_domain(config, sandbox="process"))
    assert placed.memory is not None
    need = f"a training takes {gib(placed.memory.total)} ({by_part(placed.memory)})"
    yield Row("memory", "ok", f"{need}; {placed.workers} at a time")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _has_cuda_wheels() -> bool:
    return any(
        (package.name or "").lower().startswith("nvidia-") for package in metadata.distributions()
    )


def _start(config: RunConfig) -> Iterator[Row]:
    """Makes the checks that `evolve` makes before it starts. Missing flags are only a warning."""
    from meta_agent.composition.preflight import refusal

    if refused := refusal(config, contacts=True):
        level: Level = "warn" if isinstance(refused, ConfigError) else "fail"
        yield Row("start", level, str(refused), refused.hint or "")
    else:
        yield Row("start", "ok", "evolve would start with these settings")


def _harness(config: RunConfig) -> Iterator[Row]:
    """Starts the promoted harness in a sandbox, without a model."""
    from meta_agent.composition.bring import check_workspace

    for result in check_workspace(config):
        level: Level = "ok" if result.ok else "fail"
        yield Row(f"harness: {result.name}", level, result.detail, "" if result.ok else FIX_HARNESS)


def _tasks(config: RunConfig) -> Iterator[Row]:
    """Reads the task file. It tries no task, as `meta-agent tasks check` does that in sandboxes."""
    from meta_agent.composition.inputs import load_run_domain
    from meta_agent.composition.preflight import require_supported
    from meta_agent.core.protocols import SPLITS

    if not config.own_tasks:
        return
    if settings := programs(config):
        what = f"not opened: {', '.join(settings)} of {SETTINGS_FILE} names code to run"
        yield Row("tasks", "warn", what, "meta-agent tasks check")
        return
    domain = load_run_domain(config, sandbox="process")
    require_supported(config)
    label = config.tasks.name if config.tasks else config.domain
    sizes = ", ".join(f"{split} {len(domain.tasks(split))}" for split in SPLITS)
    yield Row("tasks", "ok", f"{label}: {sizes}; meta-agent tasks check tries them")


def _disk(config: RunConfig) -> Iterator[Row]:
    place = next(path for path in (config.workspace, *config.workspace.parents) if path.exists())
    free = shutil.disk_usage(place).free
    detail = f"{free / (1 << 30):.1f} GiB free at {place}"
    if free < _LEAST_FREE_BYTES:
        yield Row("disk", "fail", detail, "free at least 2 GiB, or choose another --workspace")
    else:
        yield Row("disk", "ok", detail)


def _workspace(config: RunConfig) -> Iterator[Row]:
    from meta_agent.core.history import HarnessRepo
    from meta_agent.core.ledger import Ledger
    from meta_agent.core.workspace import is_workspace, open_workspace

    if not is_workspace(config.workspace):
        yield Row("workspace", "ok", f"none yet at {config.workspace}; evolve makes it")
        return
    workspace = open_workspace(config.workspace)
    head = HarnessRepo(workspace.harness_repo).head()
    runs = 0
    if workspace.ledger_file.exists():
        with Ledger.open(workspace.ledger_file, owner_lock=False) as ledger:
            runs = len(ledger.runs())
    yield Row("workspace", "ok", f"{workspace.root}: {runs} runs, harness at {head[:12]}")


def _keys(config: RunConfig) -> Iterator[Row]:
    from meta_agent.llm_clients.keys import keys_found

    names = ", ".join(f"{name} (environment)" for name in keys_found())
    yield Row("keys", "ok", names or "none found; the built-in suites need none")


def _models(config: RunConfig) -> Iterator[Row]:
    """Yields a row for each model that these settings would ask, with the source of its key."""
    from meta_agent.llm_clients.asking.accounts import accounts

    for account in accounts(config):
        where = f" at {account.base_url}" if account.base_url else ""
        summary = f"{account.model}{where} for {', '.join(account.roles)}"
        if account.refusal:
            yield Row("model", "fail", f"{summary}: {account.refusal}", account.hint)
        else:
            key = (
                f"key from {account.key_name} (environment)"
                if account.key_name
                else "no key is sent"
            )
            yield Row("model", "ok", f"{summary}: {key}")


def _litellm(config: RunConfig) -> Iterator[Row]:
    """Checks that LiteLLM is installed. It is not imported, as that takes seconds."""
    from meta_agent.llm_clients.asking.accounts import accounts

    needing = [account.model for account in accounts(config) if account.via == "litellm"]
    if version := _version("litellm"):
        use = f"for {', '.join(needing)}" if needing else "imported only when a model needs it"
        yield Row("litellm", "ok", f"{version}, {use}")
    elif needing:
        yield Row("litellm", "fail", f"missing, needed for {needing[0]}", "pip install litellm")
    else:
        yield Row("litellm", "ok", "not installed; openai/... and anthropic/... need none of it")


def _executor(config: RunConfig) -> Iterator[Row]:
    """Checks that Ray is installed if the executor needs it. It contacts no cluster."""
    version = _version("ray")
    if config.executor == "local":
        at_once = f"{config.jobs or 'as many as fit'} at a time"
        yield Row("executor", "ok", f"local, {at_once}; ray {version or 'missing'}")
    elif version is None:
        yield Row("executor", "fail", f"{config.executor} needs Ray", install("ray"))
    else:
        yield Row("executor", "ok", f"{config.executor}, Ray {version}")


def _vllm(config: RunConfig) -> Iterator[Row]:
    from meta_agent.llm_clients.asking.accounts import accounts
    from meta_agent.policies.served.vllm_server import require_vllm

    try:
        yield Row("vllm", "ok", f"in the environment of {require_vllm()}")
    except MetaAgentError as error:
        if config.engines or any(account.via == "vllm" for account in accounts(config)):
            raise
        yield Row("vllm", "ok", f"not found ({error}); only vllm:PATH and --engines need it")


def _servers(config: RunConfig) -> Iterator[Row]:
    """Checks that each model server answers. Every HTTP status counts, a refused key too."""
    from meta_agent.llm_clients.asking.accounts import accounts

    for url in dict.fromkeys(account.base_url for account in accounts(config) if account.base_url):
        try:
            yield Row("server", "ok", f"{url} answers (HTTP {_status_of(url)})")
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            yield Row("server", "fail", f"{url}: {reason!s:.200}", "start it, or fix --base-url")


def _nodes(config: RunConfig) -> Iterator[Row]:
    """Yields how many units fit on each node of a cluster. It starts no local cluster."""
    from meta_agent.composition.placing import gpus_of, threads_of
    from meta_agent.executors.cluster import room_of

    address = config.executor.partition(":")[2]
    if not address:
        return
    rooms = room_of(address, cpus=threads_of(config), gpus=gpus_of(config))
    for node, room in rooms.items():
        fix = "" if room else "--threads is what a unit takes; ray status says what there is"
        yield Row("node", "ok" if room else "warn", f"{node[:12]}: room for {room} units", fix)
    if not any(rooms.values()):
        yield Row("nodes", "fail", "no node has room for a unit", "ray status")


def _status_of(base_url: str) -> int:
    """Returns the HTTP status of a server's list of models, asked for without a key."""
    try:
        with urllib.request.urlopen(
            f"{base_url.rstrip('/')}/models", timeout=_PATIENCE_SEC
        ) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def _real_thing(config: RunConfig) -> Iterator[Row]:
    """Suggests a run with real models, for the first API key in the environment."""
    from meta_agent.llm_clients.keys import keys_found

    model = next((_REAL_MODELS[name] for name in keys_found() if name in _REAL_MODELS), None)
    command = "meta-agent evolve --tasks tasks.jsonl --policy {0} --meta-model {0}"
    if model:
        suggestion = f"{command.format(model)} --max-usd 5 --dry-run"
        yield Row("real models", "ok", f"{suggestion} (without --dry-run it starts)")
        return
    suggestion = (
        command.format("openai/MODEL") + " --base-url http://localhost:8000/v1 --max-tokens 1000000"
    )
    keys = " or ".join(_REAL_MODELS)
    yield Row("real models", "ok", f"export {keys}, or with a server of your own: {suggestion}")
