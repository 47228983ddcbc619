"""A run on four nodes ends as one on this machine does, whatever dies on the way.

What a cluster may do besides is in `test_cluster`, without Ray.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="needs Ray, an environment of its own: make ray")
pytest.importorskip("trl", reason="needs the train extra")

from meta_agent.core.ledger import Ledger  # noqa: E402
from meta_agent.core.rollouts import RolloutStore, to_json  # noqa: E402
from meta_agent.executors.cluster._ray import PlaceLost, _lost  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.train,
    pytest.mark.timeout(2700),
    pytest.mark.filterwarnings("default"),  # of Ray's own processes and sockets
]
RUN = ("evolve", "--profile", "tiny", "--generations", "1", "--candidates", "1")
RUN += ("--train-steps", "2", "--seed", "1", "--sandbox", "process", "--json")
BEGINNING = ("after_work:clock", "before_work:visible", "after_outcome:start")
UNIT = ("under_way", "announced", "half_published")
MOMENTS = ("after_outcome", "after_work", "before_work")
# A busy machine is slow to answer; a paused one never does.
PATIENCE = {
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 3,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # 15 by default: on a busy machine nodes would starve.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    from ray.cluster_utils import Cluster

    made = Cluster()
    joined(made, num_cpus=0, include_dashboard=False, _system_config=PATIENCE)
    for _ in range(4):
        joined(made, num_cpus=1)
    yield made
    made.shutdown()


def joined(cluster: Any, **told: Any) -> None:
    """A node has 30 s to come up, which a busy machine may not have for it."""
    for tries_left in (2, 1, 0):
        try:
            cluster.add_node(**told)
            return
        except Exception as error:
            if "timed out during startup" not in str(error) or not tries_left:
                raise


class Driver:
    """Lives of `meta-agent evolve` on a workspace, one after the other."""

    def __init__(self, workspace: Path, address: str) -> None:
        self.told, self.notes = workspace.with_suffix(".json"), workspace.with_suffix(".txt")
        argv = (*RUN, "--workspace", str(workspace), "--executor", f"ray:{address}")
        with self.notes.open("a") as notes:
            self._lives = subprocess.Popen(
                [sys.executable, "-m", "tests.backtest._ray_driver", str(self.told), *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=notes,
                text=True,
            )

    def __call__(self, point: str = "") -> int:
        assert self._lives.stdin and self._lives.stdout
        print(point, file=self._lives.stdin, flush=True)
        return int(self._lives.stdout.readline())

    def close(self) -> None:
        self._lives.communicate()


def test_a_run_on_four_nodes_ends_as_on_one_machine_whatever_dies(
    cluster: Any, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    driver = Driver(there, cluster.address)
    assert [driver(point) for point in BEGINNING] == [-signal.SIGKILL] * len(BEGINNING)
    shutil.copytree(there, here)  # both have begun at the same second
    whole = (sys.executable, "-m", "meta_agent", *RUN, "--workspace", str(here), "--jobs", "2")
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as alone:
        ends = {point: driver(point) for point in UNIT}
        result = alone.communicate()[0].decode()
    while kind := next(unkilled(here, there, ends), None):
        point = f"{MOMENTS[len(ends) % 3]}:{kind}"
        with Trouble(cluster) if kind == "checkpoint" else nullcontext():
            ends[point] = driver(point)
    assert ends == dict.fromkeys(ends, -signal.SIGKILL), driver.notes.read_text()
    assert driver() == 0, driver.notes.read_text()
    driver.close()

    assert told(there, driver.told.read_text()) == told(here, result)
    assert driver.notes.read_text().count("is dispatched again") >= 3
    with Ledger.open(there / "ledger.sqlite", owner_lock=False) as ledger:
        assert len(ledger.order()) == len(set(ledger.order())) and ledger.broken() is None


def unkilled(here: Path, there: Path, ends: Mapping[str, int]) -> Iterator[str]:
    """Kinds of steps that are still to come, in their order, if none of a kind was hit yet."""
    ledgers = [Ledger.open(one / "ledger.sqlite", owner_lock=False) for one in (here, there)]
    with ledgers[0] as whole, ledgers[1] as begun:
        hit = {point.partition(":")[2] for point in (*BEGINNING, *ends)}
        done = {step.key for step in begun.steps() if step.is_done}
        for step in whole.steps():
            if step.key not in done and step.kind not in hit:
                yield step.kind


class Trouble(threading.Thread):
    """Kills the first two nodes that are seen to train or roll out, pauses the third for a life."""

    def __init__(self, cluster: Any) -> None:
        super().__init__()
        self._cluster, self._over = cluster, threading.Event()
        self._met: list[Any] = []
        self._paused: list[int] = []

    def __enter__(self) -> None:
        while any(map(working, self._cluster.worker_nodes)):  # for the driver before
            time.sleep(0.05)
        self.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        for pid in self._paused:
            _signal(pid, signal.SIGCONT)
        assert self._paused, f"{len(self._met)} nodes met trouble, not three"
        time.sleep(3)  # what was paused tries to go on

    def run(self) -> None:
        while not self._over.wait(0.05) and len(self._met) < 3:
            for node in self._cluster.worker_nodes - {*self._met}:
                if working(node):
                    self._meets_trouble(node, processes_of(node))
                    break

    def _meets_trouble(self, node: Any, pids: list[int]) -> None:
        self._met.append(node)
        if len(self._met) < 3:
            self._cluster.remove_node(node, allow_graceful=False)
        else:
            self._paused = pids
            for pid in pids:
                _signal(pid, signal.SIGSTOP)


def working(node: Any) -> bool:
    """Whether a policy is loaded there, or about to be."""
    return b"policy-child\n" in map(_name, processes_of(node))


def processes_of(node: Any) -> list[int]:
    """The node's own process and all below it."""
    found = [node.all_processes["raylet"][0].process.pid]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue
    return found


def _name(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes()
    except OSError:
        return b""


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


# --- what a run came to, apart from seconds ----------------------------------------------------


def told(workspace: Path, result: str) -> dict[str, Any]:
    with Ledger.open(workspace / "ledger.sqlite", owner_lock=False) as ledger:
        steps = {step.key: [step.kind, step.intent, step.outcome] for step in ledger.steps()}
    store = RolloutStore(workspace / "rollouts")
    heads = workspace / "harness_repo"
    ran = subprocess.run(
        ["git", "-C", heads, "for-each-ref", "refs/heads"], capture_output=True, check=True
    )
    return {
        "result": timeless(json.loads(result), workspace),
        "steps": timeless(steps, workspace),
        "branches": ran.stdout.decode(),
        "rollouts": {
            name: [
                [timeless(to_json(row), workspace), row.tokens]
                for row in store.iter(name, tokens=True)
            ]
            for name in store.names()
        },
        "weights": {
            path.relative_to(workspace).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((workspace / "checkpoints").rglob("*"))
            if path.is_file()
        },
    }


def timeless(value: Any, workspace: Path) -> Any:
    """Without measured seconds, hashes of shards (which hold some) and the workspace's own name."""
    if isinstance(value, dict):
        shard = {"sha256", "bytes"} if "sha256" in value else set()
        return {
            name: timeless(one, workspace)
            for name, one in value.items()
            if name not in shard and not re.search("time|timings|sec", name)
        }
    if isinstance(value, list):
        return [timeless(one, workspace) for one in value]
    return value.replace(str(workspace), "") if isinstance(value, str) else value


# --- what Ray says -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "wanted"),
    [
        (lambda: ray.exceptions.ActorUnavailableError("gone for now", b"\0" * 16), PlaceLost),
        (lambda: ray.exceptions.ActorDiedError(), PlaceLost),
        (lambda: ray.exceptions.GetTimeoutError("nothing in 60 s"), PlaceLost),
        (lambda: ray.exceptions.RayTaskError("f", "", FileNotFoundError(2, "x")), OSError),
    ],
)
def test_what_ray_says_of_a_lost_actor_is_that_it_is_lost(raised: Any, wanted: Any) -> None:
    with pytest.raises(wanted), _lost(ray):
        raise raised()
