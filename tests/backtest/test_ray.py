"""A cluster of three nodes, simulated, one killed and one paused, ends as one machine does.

What a cluster may do besides is in `test_cluster`, without Ray.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="needs Ray, an environment of its own: make ray")
pytest.importorskip("trl", reason="needs the train extra")

from meta_agent.backtest.cluster import open_cluster  # noqa: E402
from meta_agent.backtest.executor import Executor  # noqa: E402
from meta_agent.backtest.live import Lab  # noqa: E402
from meta_agent.domains import load_domain  # noqa: E402
from meta_agent.ledger import Ledger  # noqa: E402
from meta_agent.protocols import JSON, HarnessTree, Rollout  # noqa: E402
from meta_agent.resources import shipped_harness  # noqa: E402
from meta_agent.rollouts import RolloutStore  # noqa: E402

from ._ray_bench import settings  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.train,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("default"),  # of Ray's own processes and sockets
]
TREE = HarnessTree("c", "t", shipped_harness("nano/swe/seed"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # 15 by default: on a busy machine nodes would starve.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(3):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()


def measured(folder: Path, executor: Executor | None, on_step: Callable[[str], None]) -> JSON:
    """Two trainings and their evaluations: what they came to, without seconds and places."""
    domain = load_domain("swe")
    folder.mkdir(exist_ok=True)
    with Ledger.open(folder / "ledger.sqlite") as ledger:
        ledger.start_run("r", {}, config_hash="h")
        lab = Lab(
            settings(folder),
            ledger=ledger,
            store=RolloutStore(folder / "rollouts"),
            domain=domain,
            on_step=lambda series, *_: on_step(series),
            stopping=lambda: False,
            executor=executor,
        )
        try:
            return [_told(lab, seed) for seed in (0, 1)]
        finally:
            lab.close()


def _told(lab: Lab, seed: int) -> JSON:
    trained = lab.train(TREE, seed=seed, steps=2, keep_every=1)
    seen = lab.evaluate(TREE, trained, split="search", limit=4)
    root = str(lab.settings.checkpoints)
    rows = [_row(one) for shard in (trained.shard, seen.shard) for one in lab.rollouts(shard)]
    steps = [
        {name: value for name, value in row.items() if "time" not in name and "sec" not in name}
        for row in trained.metrics
    ]
    kept = [(one["policy"], one["path"].removeprefix(root)) for one in trained.kept]
    told = [trained.policy, trained.path.removeprefix(root), kept, steps]
    return [*told, seen.solved, seen.clean, seen.rollouts, rows]


def _row(rollout: Rollout) -> str:
    rollout.timings = {}
    return repr(rollout)


def of_node(cluster: Any, node: str) -> Any:
    return next(one for one in cluster.worker_nodes if one.node_id == node)


def processes_of(node: Any) -> list[int]:
    """The node's own process and all below it."""
    found = [node.all_processes["raylet"][0].process.pid]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def test_a_killed_and_a_paused_node_change_no_outcome(cluster: Any, tmp_path: Path) -> None:
    alone = measured(tmp_path / "local", None, lambda _: None)
    notes: list[str] = []
    killed: list[str] = []
    paused: list[int] = []
    folder = tmp_path / "ray"
    executor = open_cluster(
        cluster.address,
        cpus=1,
        gpus=False,
        build="tests.backtest._ray_bench:apparatus",
        told={"folder": str(folder)},
        domain=load_domain("swe"),
        shared=folder / "shared",
        tell=notes.append,
        stopping=lambda: False,
        silence_sec=20.0,
    )
    assert executor.width == 3

    def disturb(series: str) -> None:
        """At the first step of seed 0 its node is killed, at that of seed 1 its node is paused."""
        at = executor._open[-1].node  # type: ignore[attr-defined]
        if "seed 0" in series and not killed:
            killed.append(at)
            cluster.remove_node(of_node(cluster, at), allow_graceful=False)
        elif "seed 1" in series and not paused:
            paused.extend(processes_of(of_node(cluster, at)))
            for pid in paused:
                os.kill(pid, signal.SIGSTOP)

    try:
        disturbed = measured(folder, executor, disturb)
    finally:
        for pid in paused:
            _revived(pid)
    time.sleep(3)  # what was paused tries to go on
    assert disturbed == alone
    assert sum("is dispatched again" in one for one in notes) == 2, notes
    with Ledger.open(folder / "ledger.sqlite", owner_lock=False) as ledger:
        assert len(ledger.order()) == len(set(ledger.order())) == 4


def _revived(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return
