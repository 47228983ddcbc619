"""`doctor`: measured rows, named fixes, exit code 3 when a run could not start."""

import json
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.cli import _sandbox_rows, doctor
from meta_agent.cli._sandbox_rows import Row
from meta_agent.cli.doctor import Health, examine
from meta_agent.composition import inputs, placing
from meta_agent.core.distribution import install
from meta_agent.core.errors import PreflightError
from meta_agent.core.settings import resolve
from meta_agent.core.workspace import init_workspace
from meta_agent.executors.cluster import _ray
from meta_agent.llm_clients.keys import KEY_VARIABLES
from meta_agent.policies.training import devices
from meta_agent.policies.training.devices import Device
from meta_agent.sandboxes import EngineStatus, _engine

from ..steps._kit import write_tasks
from ..training._shapes import folder as folder
from ._command import meta_agent as meta_agent


@pytest.fixture(scope="module")
def health(tmp_path_factory: pytest.TempPathFactory) -> Health:
    """One whole examination of this machine, the sandbox probe included."""
    return examine(resolve({"workspace": tmp_path_factory.mktemp("doctor") / "w"}))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the sandbox probe out where it is not what is tested."""
    monkeypatch.setattr(_sandbox_rows, "_tried_sandbox", lambda: (False, False))


def row(health: Health, name: str) -> Row:
    return next(one for one in health.needs if one.name == name)


def test_there_is_a_row_for_every_need_with_its_fix(health: Health) -> None:
    names = {one.name for one in health.needs}
    needs = {"python", "git", "training", "devices", "docker engine", "process sandbox", "disk"}
    assert names >= needs | {"workspace", "keys", "litellm", "vllm", "real models"}
    for one in health.needs:
        assert (one.level == "ok") == (not one.fix), one


def test_missing_training_packages_fail_for_a_local_policy_only(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    local = examine(resolve({"workspace": tmp_path}))
    assert row(local, "training").level == "fail"
    assert install("train") in row(local, "training").fix
    assert not local.ok
    remote = examine(resolve({"workspace": tmp_path, "policy": "openai/some-model"}))
    assert row(remote, "training").level == "warn"


def with_devices(monkeypatch: pytest.MonkeyPatch, *found: Device) -> None:
    for module in (devices, placing):
        monkeypatch.setattr(module, "devices", lambda: list(found))


@pytest.mark.parametrize(
    ("build", "found", "level", "told"),
    [
        ("2.9.0+cpu", Device("0", 80 << 30), "fail", "2.9.0+cpu"),
        ("2.9.0+cu128", Device("0", 80 << 30), "ok", "80.00 GiB"),
        ("2.9.0+cpu", Device("", 16 << 30), "warn", "16.00 GiB"),
    ],
)
def test_a_gpu_that_would_lie_idle_is_told(
    quick: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    build: str,
    found: Device,
    level: str,
    told: str,
) -> None:
    with_devices(monkeypatch, found)
    monkeypatch.setattr(doctor, "_version", lambda name: build)
    one = row(examine(resolve({"workspace": tmp_path, "policy": "hf:none"})), "devices")
    assert one.level == level and told in one.detail and bool(one.fix) == (level != "ok")
    nano = row(examine(resolve({"workspace": tmp_path})), "devices")
    assert nano.level == "ok"


@pytest.mark.parametrize("free", [80, 4])
def test_whether_a_training_fits_is_told_by_part(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path, free: int
) -> None:
    with_devices(monkeypatch, Device("0", free << 30))
    domain = SimpleNamespace(ceilings=SimpleNamespace(max_context_tokens=8192), tasks=lambda _: ())
    monkeypatch.setattr(inputs, "load_run_domain", lambda *_, **__: domain)
    settings = {"workspace": tmp_path, "policy": f"hf:{folder}", "tasks": tmp_path / "t.jsonl"}
    settings |= {"lora_rank": 16, "precision": "bfloat16"}
    one = row(examine(resolve(settings)), "memory")
    assert one.level == ("ok" if free == 80 else "fail")
    assert "GiB" in one.detail


def test_the_nodes_of_a_cluster_are_asked_live(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Cluster:
        gpus = 2

        def __init__(self, address: str) -> None:
            asked.append(address)

        def room(self, needs: _ray.Needs) -> dict[str, int]:
            return {"head": 0, "worker": 8 // needs.CPU * needs.GPU}

        def close(self) -> None:
            asked.append("closed")

    monkeypatch.setattr(_ray, "Cluster", Cluster)
    settings = {"workspace": tmp_path, "policy": "hf:none", "executor": "ray:10.0.0.1:6379"}
    config = resolve({**settings, "threads": 2})
    assert not named(examine(config), "node") and not asked
    found = named(examine(config, live=True), "node")
    assert [(one.level, one.detail.partition(":")[0]) for one in found] == [
        ("warn", "head"),
        ("ok", "worker"),
    ]
    assert " 4 " in found[1].detail
    assert asked == ["10.0.0.1:6379", "closed"]


def test_docker_is_required_only_where_it_was_asked_for(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import meta_agent.sandboxes as sandbox

    gone = EngineStatus(problem="cannot reach the Docker engine", hint="start Docker")
    monkeypatch.setattr(sandbox, "engine_status", lambda name="docker": gone)
    auto = examine(resolve({"workspace": tmp_path}))
    docker = examine(resolve({"workspace": tmp_path, "sandbox": "docker"}))
    assert row(auto, "docker engine").level == "warn"
    assert row(docker, "docker engine").level == "fail"
    assert not docker.ok


@pytest.mark.parametrize(
    ("version", "runc", "cgroup", "named"),
    [
        ("27.3.1", "v1.1.14-0-g2c9f560", "2", []),
        ("23.0.0", "1.1.12+ds1", "2", []),
        ("27.3.1", "51d5e94601ceffbbd85688df1c928ecccbfa4685", "2", []),
        ("27.3.1", "1.1.11", "2", ["runc 1.1.11"]),
        ("20.10.24+dfsg1", "1.1.5+ds1-1", "1", ["Docker 20.10.24", "runc 1.1.5", "cgroup v2"]),
    ],
)
def test_an_old_engine_an_old_runc_and_old_control_groups_are_named(
    version: str, runc: str, cgroup: str, named: list[str]
) -> None:
    says = {"ServerVersion": version, "DockerRootDir": "/", "RuncCommit": {"ID": runc}}
    says |= {"CgroupVersion": cgroup} if cgroup == "2" else {}  # the engines before v2 say nothing
    asked = _engine.Engine("docker")
    vars(asked)["api"] = SimpleNamespace(info=lambda: says)
    facts = asked.facts()
    found = _sandbox_rows._engine(EngineStatus(facts.version, runc=facts.runc, cgroup=facts.cgroup))
    assert found.level == ("warn" if named else "ok")
    assert all(name in found.fix for name in named)
    assert [name in found.fix for name in ("Docker", "runc", "cgroup v2")] == [
        any(one.startswith(name) for one in named) for name in ("Docker", "runc", "cgroup v2")
    ]
    assert f"cgroup v{cgroup}" in found.detail


def test_the_network_row_has_a_positive_control(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe that must fail inside succeeds outside: it can tell the difference."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        done = subprocess.run([sys.executable, "-c", _sandbox_rows._REACH, port], check=False)
    assert done.returncode == 0


def test_a_damaged_workspace_and_a_full_disk_are_failing_rows_not_the_end(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(total=10, used=5, free=5)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    init_workspace(tmp_path / "w", domain="swe", create_repo=lambda path: path.mkdir())
    (tmp_path / "w" / "rollouts").rmdir()
    found = examine(resolve({"workspace": tmp_path / "w"}))
    assert row(found, "workspace").level == row(found, "disk").level == "fail"
    assert row(found, "keys")


def test_a_check_that_cannot_be_made_is_a_failing_row(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import meta_agent.core.history as history

    def missing() -> tuple[int, ...]:
        raise PreflightError("git is not on PATH", hint="apt-get install git")

    monkeypatch.setattr(history, "git_version", missing)
    found = row(examine(resolve({"workspace": tmp_path})), "git")
    assert (found.level, found.fix) == ("fail", "apt-get install git")


def test_keys_are_named_and_never_shown(quick: None, tmp_path: Path, meta_agent: Any) -> None:
    done = meta_agent("doctor", "--json", cwd=tmp_path, OPENAI_API_KEY="sk-canary-value")
    assert "OPENAI_API_KEY" in done.stdout
    assert "sk-canary-value" not in done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 3)


def named(health: Health, name: str) -> list[Row]:
    return [one for one in health.needs if one.name == name]


def test_each_model_says_whose_key_it_would_use_and_lacks(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-value")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    settings = {
        "workspace": tmp_path,
        "policy": "openai/some-model",
        "meta_model": "anthropic/some-model",
    }
    team, policy = named(examine(resolve(settings)), "model")
    assert "OPENAI_API_KEY" in policy.detail
    assert team.level == "fail" and "ANTHROPIC_API_KEY" in team.detail
    assert "analyst, proposer" in team.detail
    # A server of one's own is not given the provider's key.
    monkeypatch.setenv("MY_KEY", "secret")
    theirs = served(tmp_path, "http://127.0.0.1:1/v1")
    (found,) = named(examine(resolve(theirs)), "model")
    assert "OPENAI_API_KEY" not in found.detail
    (found,) = named(examine(resolve({**theirs, "key_env": {"policy": "MY_KEY"}})), "model")
    assert "MY_KEY" in found.detail


def served(tmp_path: Path, url: str) -> dict[str, Any]:
    policy = {"policy": "openai/some-model", "base_urls": {"policy": url}}
    return {"workspace": tmp_path, **policy}


@pytest.mark.parametrize("live", [False, True])
def test_servers_are_contacted_only_live(quick: None, tmp_path: Path, live: bool) -> None:
    """A real server counts: none without `live`, one request without a key with it."""
    seen: list[str | None] = []

    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization"))
            self.send_response(401)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        found = examine(resolve(served(tmp_path, url)), live=live)
        server.shutdown()
    assert seen == ([None] if live else [])
    rows = named(found, "server")
    assert len(rows) == live and all(url in one.detail and "401" in one.detail for one in rows)


def test_a_port_that_speaks_something_else_or_is_closed_fails_live(
    quick: None, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-none\r\n")

        Thread(target=greet, daemon=True).start()
        settings = resolve(served(tmp_path, f"http://127.0.0.1:{server.getsockname()[1]}/v1"))
        found = row(examine(settings, live=True), "server")
    assert found.level == "fail" and "SSH-2.0" in found.detail
    # And one that is not there any more.
    assert row(examine(settings, live=True), "server").level == "fail"


@pytest.mark.parametrize(
    ("variable", "command"),
    [
        ("ANTHROPIC_API_KEY", "--policy anthropic/"),
        ("OPENAI_API_KEY", "--policy openai/gpt"),
        ("", "--base-url http://localhost"),
    ],
)
def test_the_command_for_real_models_fits_the_key_that_is_here(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, command: str
) -> None:
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "x")
    assert command in row(examine(resolve({"workspace": tmp_path})), "real models").detail


def test_what_refuses_a_run_is_said_by_doctor_too(tmp_path: Path, meta_agent: Any) -> None:
    tasks = write_tasks(tmp_path / "tasks")
    asked = ("--tasks", str(tasks), "--policy", "openai/x", "--sandbox", "process")
    server = ("--base-url", "http://127.0.0.1:9/v1")
    for command in ("doctor", "evolve"):
        done = meta_agent(command, *asked, *server, cwd=tmp_path)
        assert done.returncode != 0 and "--allow-unsafe" in done.stdout + done.stderr
