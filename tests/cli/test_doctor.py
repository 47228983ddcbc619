"""`doctor`: measured rows, named fixes, exit code 3 when a run could not start."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from meta_agent import doctor
from meta_agent.config import resolve
from meta_agent.doctor import Health, Row, examine
from meta_agent.errors import PreflightError
from meta_agent.sandbox import EngineStatus
from meta_agent.workspace import init_workspace


@pytest.fixture(scope="module")
def health(tmp_path_factory: pytest.TempPathFactory) -> Health:
    """One whole examination of this machine, the sandbox probe included."""
    return examine(resolve({"workspace": tmp_path_factory.mktemp("doctor") / "w"}))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the sandbox probe out where it is not what is tested."""
    monkeypatch.setattr(doctor, "_sandbox_reaches_us", lambda: False)


def row(health: Health, name: str) -> Row:
    return next(one for one in health.needs if one.name == name)


def test_there_is_a_row_for_every_need(health: Health) -> None:
    names = [one.name for one in health.needs]
    for name in ("python", "git", "training", "docker engine", "process sandbox", "disk"):
        assert name in names
    assert {"workspace", "keys"} <= set(names)


def test_each_row_that_is_not_ok_names_its_fix(health: Health) -> None:
    for one in health.needs:
        assert (one.level == "ok") == (not one.fix), one


def test_missing_training_packages_fail_for_a_local_policy_only(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    local = examine(resolve({"workspace": tmp_path}))
    assert row(local, "training").level == "fail"
    assert "meta-agent[train]" in row(local, "training").fix
    assert not local.ok
    remote = examine(resolve({"workspace": tmp_path, "policy": "openai/some-model"}))
    assert row(remote, "training").level == "warn"


def test_a_full_disk_fails(quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(total=10, used=5, free=5)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    assert row(examine(resolve({"workspace": tmp_path})), "disk").level == "fail"


def test_docker_is_required_only_where_it_was_asked_for(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import meta_agent.sandbox as sandbox

    gone = EngineStatus(problem="cannot reach the Docker engine", hint="start Docker")
    monkeypatch.setattr(sandbox, "engine_status", lambda: gone)
    auto = examine(resolve({"workspace": tmp_path}))
    docker = examine(resolve({"workspace": tmp_path, "sandbox": "docker"}))
    assert row(auto, "docker engine").level == "warn"
    assert row(docker, "docker engine").level == "fail"
    assert not docker.ok


def test_the_network_row_has_a_positive_control(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe that must fail inside succeeds outside: it can tell the difference."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        done = subprocess.run([sys.executable, "-c", doctor._REACH, port], check=False)
    assert done.returncode == 0


def test_a_damaged_workspace_is_a_failing_row_not_the_end(quick: None, tmp_path: Path) -> None:
    init_workspace(tmp_path / "w", domain="swe", create_repo=lambda path: path.mkdir())
    (tmp_path / "w" / "rollouts").rmdir()
    found = examine(resolve({"workspace": tmp_path / "w"}))
    assert row(found, "workspace").level == "fail"
    assert row(found, "keys")


def test_a_check_that_cannot_be_made_is_a_failing_row(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import meta_agent.history as history

    def missing() -> tuple[int, ...]:
        raise PreflightError("git is not on PATH", hint="apt-get install git")

    monkeypatch.setattr(history, "git_version", missing)
    found = row(examine(resolve({"workspace": tmp_path})), "git")
    assert (found.level, found.fix) == ("fail", "apt-get install git")


def test_keys_are_named_and_never_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "meta_agent", "doctor", "--json"],
        cwd=tmp_path,
        env={**os.environ, "OPENAI_API_KEY": "sk-canary-value"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "OPENAI_API_KEY" in done.stdout
    assert "sk-canary-value" not in done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 3)
