"""After a kill -9 of the host: nothing runs on, and only our own orphans are removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.durable import remove_folder
from meta_agent.sandboxes import _engine, reap
from meta_agent.sandboxes._owner import holder_is_dead, holder_mark, install_id
from meta_agent.sandboxes._reap import is_orphan, reap_folders

# Opens a sandbox, starts a command in it, and waits to be killed.
HOST = """
import sys, threading
from meta_agent.sandboxes import open_sandbox
box = open_sandbox({backend!r}, run="victim")
threading.Thread(target=lambda: box.exec(["sleep", "98765"], timeout_sec=60), daemon=True).start()
import time
time.sleep(0.3)
print(box.work_dir, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def start_host(backend: str) -> tuple[subprocess.Popen[str], str]:
    host = subprocess.Popen(
        [sys.executable, "-c", HOST.format(backend=backend)], stdout=subprocess.PIPE, text=True
    )
    assert host.stdout
    return host, host.stdout.readline().strip()


def kill_hard(host: subprocess.Popen[str]) -> None:
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    assert host.stdout
    host.stdout.close()


def sleepers() -> int:
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes() == b"sleep\x0098765\0"
        except OSError:
            continue
    return found


def gone_within(limit_sec: float) -> bool:
    deadline = time.monotonic() + limit_sec
    while sleepers() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not sleepers()


def reaped(engine: str, owner: str | None = None) -> list[str]:
    """The containers among it: folders of others may be found as well."""
    return [name for name in reap(owner, [engine]) if name.startswith("ma-")]


def test_processes_die_with_a_killed_host(tmp_path: Path) -> None:
    host, work_dir = start_host("process")
    assert sleepers() == 1
    kill_hard(host)
    assert gone_within(5)
    folder = Path(work_dir).parent
    assert folder.name in reap_folders(folder.parent)
    assert not folder.exists()
    assert folder.name not in reap_folders(folder.parent)


def test_a_living_hosts_folder_is_left_alone() -> None:
    host, work_dir = start_host("process")
    folder = Path(work_dir).parent
    assert folder.name not in reap_folders(folder.parent)
    kill_hard(host)
    assert gone_within(5)
    reap_folders(folder.parent)


def test_containers_die_with_a_killed_host_and_are_reaped(tmp_path: Path, engine: str) -> None:
    host, _ = start_host(engine)
    (row,) = _engine.engine(engine).owned_containers(install_id())
    assert reaped(engine) == [], "its host is alive"
    kill_hard(host)
    assert gone_within(10), "the worker ends when the engine closes its input"
    assert reaped(engine) == [row[1]]
    assert reaped(engine) == []


def test_another_installations_containers_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    host, _ = start_host(engine)
    theirs = install_id()
    kill_hard(host)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert install_id() != theirs
    assert reaped(engine) == []
    assert len(_engine.engine(engine).owned_containers(theirs)) == 1
    assert len(reaped(engine, theirs)) == 1


NEST = "import os\nfor _ in range(1200):\n    os.mkdir('d')\n    os.chdir('d')\n"


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[Path]:
    """A deep tree, removed also if the test fails: pytest's own removal recurses."""
    top = tmp_path / "box"
    top.mkdir()
    try:
        subprocess.run([sys.executable, "-c", NEST], cwd=top, check=True)
        yield top
    finally:
        subprocess.run(["rm", "-rf", "--", top], check=False)


def test_a_folder_is_removed_however_deep_it_is_nested(nested: Path) -> None:
    (nested / "wide/one").mkdir(parents=True)
    (nested / "wide/two").mkdir()
    (nested / "outside").symlink_to(nested.parent)
    (nested / "wide").chmod(0o500)
    remove_folder(nested)
    assert list(nested.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("labels", "orphan"),
    [
        ({"ma.deadline": "99", "ma.holder": holder_mark()}, True),
        ({"ma.deadline": "101", "ma.holder": holder_mark()}, False),
        ({"ma.deadline": "101", "ma.holder": "other-boot:1:1:1"}, True),
        ({"ma.deadline": "junk", "ma.holder": "junk"}, False),
        ({}, False),
    ],
)
def test_orphans(labels: dict[str, str], orphan: bool) -> None:
    assert is_orphan(labels, now=100) is orphan


def test_a_holder_is_dead_only_if_we_can_know() -> None:
    boot, namespace, pid, started = holder_mark().split(":")
    assert not holder_is_dead(holder_mark())
    assert holder_is_dead(f"{boot}:{namespace}:{pid}:{int(started) - 1}"), "a reused PID"
    assert not holder_is_dead(f"{boot}:12345:{pid}:1"), "another PID namespace"


def test_an_installation_keeps_its_name(tmp_path: Path) -> None:
    assert install_id() == install_id()
    assert (tmp_path / "state/meta-agent/install-id").read_text() == install_id()
