"""Which backend is chosen, and what is said when none may be."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import meta_agent
from meta_agent.core.errors import ConfigError, PreflightError, SandboxError
from meta_agent.sandboxes import EngineStatus, _engine, choose_backend, engine_status, open_sandbox
from tests.sandbox._engines import Open, need_backend

READY = EngineStatus(version="20.10", image_id="sha256:1")
NO_IMAGE = EngineStatus(version="20.10", problem="image x is missing", hint="build it")
NO_ENGINE = EngineStatus(problem="no engine", hint="start it")


@pytest.mark.parametrize(
    ("requested", "status", "code_by_llm", "allow_unsafe", "expected"),
    [
        ("auto", READY, False, False, "docker"),
        ("auto", READY, True, False, "docker"),
        ("auto", NO_IMAGE, False, False, "process"),
        ("auto", NO_ENGINE, False, False, "process"),
        ("auto", NO_ENGINE, True, False, PreflightError),
        ("auto", NO_ENGINE, True, True, "process"),
        ("docker", READY, True, False, "docker"),
        ("docker", NO_IMAGE, False, False, PreflightError),
        ("docker", NO_ENGINE, True, True, PreflightError),
        ("process", READY, False, False, "process"),
        ("process", READY, True, False, PreflightError),
        ("process", READY, True, True, "process"),
        ("podman", READY, True, False, "podman"),
        ("podman", NO_IMAGE, False, False, PreflightError),
        ("apptainer", READY, False, False, ConfigError),
    ],
)
def test_choice(
    requested: str, status: EngineStatus, code_by_llm: bool, allow_unsafe: bool, expected: object
) -> None:
    def choose() -> str:
        return choose_backend(
            requested, code_by_llm=code_by_llm, allow_unsafe=allow_unsafe, status=lambda _: status
        ).name

    if isinstance(expected, str):
        assert choose() == expected
    else:
        with pytest.raises(expected):  # type: ignore[call-overload]
            choose()


def test_what_a_model_wrote_never_runs_as_root_nor_sees_the_files_of_the_host() -> None:
    """Not even where it is allowed; edits of the rules still do, where there is no other user."""
    for fence in ("host", "unprivileged"):
        assert choose_where(fence, code_by_llm=False) == "process"
        with pytest.raises(PreflightError):
            choose_where(fence, code_by_llm=True)
    assert choose_where("unprivileged", "host", code_by_llm=True) == "process"


def choose_where(*fences: str, code_by_llm: bool) -> str:
    """The backend on a machine where a process sandbox holds these fences."""
    choice = choose_backend(
        "process", code_by_llm=code_by_llm, allow_unsafe=True, fences=lambda _: frozenset(fences)
    )
    return choice.name


ONLY_ROOT = """
import sys
from meta_agent.core.errors import PreflightError
from meta_agent.sandboxes import choose_backend, open_sandbox
with open_sandbox("process", run="test") as sandbox:
    print(sandbox.exec(["id", "-u"]).stdout.decode().strip(), "unprivileged" in sandbox.fences)
try:
    choose_backend("process", code_by_llm=True, allow_unsafe=True)
except PreflightError:
    print("refused")
"""


def test_a_root_that_can_become_nobody_else_says_so() -> None:
    """Where a namespace knows only root, the rules' edits run and a model's code does not."""
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", ONLY_ROOT],
        capture_output=True,
        text=True,
    )
    if done.returncode and not done.stdout:
        pytest.skip(f"no user namespaces for tests here: {done.stderr[-200:]}")
    assert done.stdout.split() == ["0", "False", "refused"], done.stderr


def test_podman_stands_in_where_docker_is_not_and_what_is_missing_is_named() -> None:
    found = {"docker": NO_ENGINE, "podman": READY}
    assert choose_backend("auto", code_by_llm=True, status=found.__getitem__).name == "podman"
    found["podman"] = NO_IMAGE
    with pytest.raises(PreflightError) as caught:
        choose_backend("auto", code_by_llm=True, status=found.__getitem__)
    assert NO_ENGINE.problem in str(caught.value) and NO_IMAGE.problem in str(caught.value)
    assert str(caught.value.hint).startswith(NO_IMAGE.hint), "the nearest step"
    choice = choose_backend("auto", code_by_llm=False, status=lambda _: NO_ENGINE)
    assert choice.reason == NO_ENGINE.problem


@pytest.mark.parametrize("is_there", [False, True])
def test_a_socket_file_that_nobody_listens_on_is_named(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket that stays open would fail this test as well."""
    # An earlier test of this process may have a client of a true engine, which is kept.
    monkeypatch.setattr(_engine, "engine", _engine.Engine)
    path = tmp_path / "engine.sock"
    if is_there:
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(str(path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with pytest.raises(SandboxError, match=str(path)):
        _ = _engine.Engine("docker").api
    status = engine_status()
    assert not status.ready and str(path) in status.problem and status.hint


def podmans(**native: object) -> _engine.Engine:
    """Podman that says this of itself."""
    asked = _engine.Engine("podman")
    vars(asked)["_native"] = {"security": {"rootless": True}, **native}
    return asked


@pytest.mark.parametrize(
    ("version", "controllers", "bounds"),
    [
        ("v1", [], set()),
        ("v2", [], set()),
        ("v2", None, set()),
        ("v2", ["memory", "pids"], {"memory", "pids"}),
        ("v2", ["cpuset", "cpu", "io", "memory", "pids"], {"cpu", "memory", "pids"}),
    ],
)
def test_what_no_control_group_holds_is_not_promised(
    version: str, controllers: list[str] | None, bounds: set[str]
) -> None:
    asked = podmans(cgroupVersion=version, cgroupControllers=controllers)
    assert asked.bounds == bounds
    limits = _engine.bounded(256, 1.0, 64, asked)
    assert ("mem_limit" in limits, "pids_limit" in limits, "nano_cpus" in limits) == (
        "memory" in bounds,
        "pids" in bounds,
        "cpu" in bounds,
    )


def test_a_user_without_further_users_is_told_how_to_get_some() -> None:
    rows = [{"container_id": 0, "host_id": 1001, "size": 1}]
    with pytest.raises(SandboxError, match="1") as caught:
        _ = podmans(idMappings={"uidmap": rows, "gidmap": rows}).strangers
    assert "usermod --add-subuids" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("podman", "said"),
    [
        (None, "podman is not installed"),
        ("echo cannot clone: user namespaces are not enabled >&2; exit 125", "are not enabled"),
    ],
)
def test_podman_that_cannot_be_used_is_a_status(
    podman: str | None, said: str, tmp_path: Path
) -> None:
    """As the kernel's refusal was, with namespaces forbidden (`docs/log/`)."""
    if podman:
        (tmp_path / "podman").write_text(f"#!/bin/sh\n{podman}\n", encoding="utf-8")
        (tmp_path / "podman").chmod(0o755)
        for name in ("setpriv", "sh"):
            found = shutil.which(name)
            assert found
            (tmp_path / name).symlink_to(found)
    script = (
        "from meta_agent.sandboxes import engine_status; s = engine_status('podman');"
        "print(s.ready, s.problem, '|', s.hint)"
    )
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert done.stdout.startswith("False ") and said in done.stdout, done.stderr
    assert "podman" in done.stdout.partition("|")[2]


@pytest.mark.docker
def test_a_missing_image_is_typed() -> None:
    need_backend("docker")
    assert engine_status(image="no-such-image:1").problem
    with pytest.raises(SandboxError) as caught:
        open_sandbox("docker", run="test", image="no-such-image:1")
    assert caught.value.kind == "image"


@pytest.mark.parametrize("run", ["", "-x", "a b", "../up", "x" * 65])
def test_run_names_are_checked(run: str) -> None:
    with pytest.raises(ConfigError):
        open_sandbox("process", run=run)


def test_importing_the_room_is_light() -> None:
    script = (
        "import sys, meta_agent.sandboxes; print('docker' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr


DEBIAN_PACKAGES = "/lib/python3/dist-packages"  # where it exists, /lib is a link to /usr/lib
IN_THE_SANDBOX = """
import sys
try:
    import project_module
except ModuleNotFoundError:
    import distant_package
    try:
        open(distant_package.__file__, "a")
    except OSError:
        print(distant_package.__file__)
"""
ASK_A_SANDBOX = f"""
import sys
from meta_agent.sandboxes import open_sandbox
with open_sandbox("process", run="test") as box:
    result = box.exec([sys.executable, "-c", {IN_THE_SANDBOX!r}])
    print((result.stdout + result.stderr).decode())
"""


def test_packages_that_a_pth_file_names_are_in_sight_and_projects_are_not(
    tmp_path: Path, open_box: Open
) -> None:
    """The virtual environment reaches others' packages, one's by a link, and a project."""
    if "host" not in open_box().fences:
        pytest.skip("this kernel gives a process sandbox no root of its own")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    distant, project = tmp_path / "other/site-packages", tmp_path / "project"
    for folder, module in ((distant, "distant_package"), (project, "project_module")):
        folder.mkdir(parents=True)
        (folder / f"{module}.py").write_text("")
    ours = [Path(meta_agent.__file__).parents[1], *(path for path in sys.path if path)]
    reachable = [project, distant, DEBIAN_PACKAGES, *ours]
    (packages / "beside.pth").write_text("".join(f"{path}\n" for path in reachable))
    command = [tmp_path / "venv/bin/python", "-c", ASK_A_SANDBOX]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(distant / "distant_package.py")
