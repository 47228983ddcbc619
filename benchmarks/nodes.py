"""What spreading attempts over nodes costs: scaling, the driver, and queues of 10,000 sandboxes.

    python benchmarks/nodes.py driver [--attempts N] [--tokens N]
    python benchmarks/nodes.py ray [--nodes N] [--attempts N]  # where Ray is: make ray
    python benchmarks/nodes.py queue [--sandboxes N]

`driver` is a lab over a cluster whose nodes are ready at once: what is measured is the one process
that dispatches, hashes, records and reads. `ray` has simulated nodes, the real runner and real
sandboxes; the policy takes two seconds a reply. `queue` measures what a sandbox costs its node in
processor time, and simulates nodes with so many of them. Not covered: a network, a shared folder
over one, containers (their engine's work is in no process of ours).
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import json
import os
import random
import re
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from meta_agent.composition.root import sandboxes_of
from meta_agent.core.lab.live import ArmRef, Lab
from meta_agent.core.lab.measured import LabSettings
from meta_agent.core.lab.units import Apparatus, EvalUnit, Outputs, pack_of
from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import (
    JSON,
    GenerateReply,
    GenerateRequest,
    HarnessTree,
    Rollout,
    Sandbox,
    TokenRecord,
)
from meta_agent.core.resources import shipped_harness
from meta_agent.core.rollouts import RolloutStore
from meta_agent.domains import load_domain
from meta_agent.executors.cluster._ray import Needs
from meta_agent.executors.cluster.dispatch import ClusterExecutor
from meta_agent.executors.cluster.node import RESULT, ROLLOUTS
from meta_agent.sandboxes import open_sandbox

TREE = HarnessTree("c", "t", shipped_harness("nano/swe/seed"))
LATENCY_SEC = 2.0
ACTIONS = ("v", "t", "e00", "t", "s")
A_UNIT = 100
TEST = "import unittest\nclass T(unittest.TestCase):\n def test(self): self.assertEqual(1, 1)\n"


def settings(folder: Path, at_once: int = 1) -> LabSettings:
    return LabSettings("r", "nano", 1, folder / "checkpoints", 0, concurrency=at_once)


# --- the driver --------------------------------------------------------------------------------


def attempt(number: int, tokens: int) -> Rollout:
    """One of so many tokens, half of them written by the policy, in forty turns."""
    draw = random.Random(number)
    ids = [draw.randrange(150_000) for _ in range(tokens)]
    says = ["".join(draw.choices("etaoin shrdlu\n{}()_", k=3 * tokens // 40)) for _ in range(40)]
    names = dict.fromkeys(("run", "version", "domain", "policy", "evaluator_hash"), "x")
    where = {"split": "search", "task_key": f"t{number}", "task_hash": "h", "group_id": "g"}
    return Rollout(
        **{**names, **where, "sample_idx": 0, "seed": 0, "harness_commit": "c"},  # type: ignore[arg-type]
        messages=[
            {"role": ("assistant", "tool")[at % 2], "content": said} for at, said in enumerate(says)
        ],
        tokens=TokenRecord(
            ids[:200],
            ids,
            [at // 800 % 2 for at in range(tokens)],
            [round(-draw.expovariate(3), 4) for _ in range(tokens)],
        ),
        outcome=bool(number % 2),
        turns=20,
        rewards={"solved": float(number % 2)},
    )


class Ready:
    """Nodes and places in one: a unit's files are there as soon as it begins."""

    node = "n"

    def __init__(self, template: RolloutStore, shard: JSON) -> None:
        self._template, self._shard = template, shard
        self.spent_sec, self.sent_bytes = 0.0, 0
        self.here: dict[str, str] = {}

    def room(self, needs: Needs) -> dict[str, int]:
        return {"n": 1}

    def place(self, node: str, needs: Needs, build: str, settings: JSON) -> Ready:
        return self

    def facts(self, probe: str, timeout_sec: float) -> dict[str, str]:
        return self.here

    def start(self, folder: str) -> str:
        """What a node would have written, by links to one shard; its time is not the driver's."""
        began = time.process_time()
        unit = json.loads((Path(folder) / "unit.json").read_bytes())["name"]
        store = Path(folder) / ROLLOUTS / "r"
        store.mkdir(parents=True)
        for path in (self._template.directory / "r").iterdir():
            target = store / path.name.replace("eval-T", f"eval-{unit}")
            if path.suffix == ".json":
                target.write_text(path.read_text().replace("eval-T", f"eval-{unit}"))
            else:
                os.link(path, target)
        shard = {**self._shard, "name": f"r/eval-{unit}"}
        counts = {"planned": A_UNIT, "solved": A_UNIT // 2, "clean": A_UNIT // 2, "seed": 0}
        text = json.dumps({"outcome": {"shard": shard, **counts, "served": []}})
        (Path(folder) / RESULT).write_text(text)
        self.sent_bytes += len(text)
        self.spent_sec += time.process_time() - began
        return hashlib.sha256(text.encode()).hexdigest()

    def finished(self, begun: str, within_sec: float) -> str:
        return begun

    def metrics_since(self, count: int, timeout_sec: float) -> list[tuple[int, JSON]]:
        return []

    def end(self) -> None: ...
    def close(self) -> None: ...


def rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


class Peak(threading.Thread):
    """The most memory that this process held while it ran."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before, self.most, self._over = rss_mib(), 0.0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._over.wait(0.01):
            self.most = max(self.most, rss_mib())

    def more(self) -> float:
        self._over.set()
        self.join()
        return self.most - self.before


def driver(attempts: int, tokens: int) -> None:
    """Evaluations of a hundred attempts each through a lab, then their rows for the gate."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        template = RolloutStore(folder / "template")
        shard = template.write("r/eval-T", (attempt(n, tokens) for n in range(A_UNIT)))
        ready = Ready(template, {"name": shard.name, "sha256": shard.sha256})
        size = shard.bytes + (shard.tokens.bytes if shard.tokens else 0)
        print(f"{tokens} tokens an attempt: {size / A_UNIT / 1024:.0f} KiB on disk")
        with lab_over(folder, ready) as lab:
            base = lab.untrained()
            peak, began = Peak(), time.process_time()
            seen = [
                lab.evaluate(TREE, base, split="search", limit=A_UNIT, samples=range(n, n + 1))
                for n in range(attempts // A_UNIT)
            ]
            told(
                "dispatched, hashed, recorded",
                time.process_time() - began - ready.spent_sec,
                attempts,
                peak.more(),
            )
            journal = sum(path.stat().st_size for path in folder.glob("ledger*"))
            held = (ready.sent_bytes + journal) / attempts
            print(f"  {held:8.0f} bytes an attempt, sent and kept")
            peak, began = Peak(), time.process_time()
            arms = [lab.rows(ArmRef("a", A_UNIT, "h", {0: one.shard})) for one in seen]
            assert len(arms) == attempts // A_UNIT
            told("read by the gate", time.process_time() - began, attempts, peak.more())


@contextmanager
def lab_over(folder: Path, ready: Ready) -> Iterator[Lab]:
    domain = load_domain("swe")
    with Ledger.open(folder / "ledger.sqlite") as ledger:
        ledger.start_run("r", {}, config_hash="h")
        executor = ClusterExecutor(
            ready,
            Needs(1),
            build="",
            settings={},
            domain=domain,
            shared=folder / "shared",
            tell=print,
        )
        ready.here = executor._here
        yield Lab(
            settings(folder),
            ledger=ledger,
            store=RolloutStore(folder / "rollouts"),
            domain=domain,
            on_step=lambda *_: None,
            stopping=lambda: False,
            policies=Slow(),
            open_sandbox=sandboxes_of("process", "r"),
            executor=executor,
        )


def told(what: str, cpu_sec: float, attempts: int, mib: float) -> None:
    print(f"{what}\n  {cpu_sec / attempts * 1e3:8.3f} ms of processor time an attempt")
    print(f"  {mib:8.1f} MiB more at the peak")


# --- nodes -------------------------------------------------------------------------------------


class Slow:
    """Policies and gateway in one: every reply takes two seconds, whoever else asks."""

    policy, lock_step = "slow@0", False

    @contextmanager
    def acting(self, path: str, label: str) -> Iterator[Slow]:
        yield self

    def training(self, *_: Any) -> Any:
        raise NotImplementedError

    sampling = training

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        time.sleep(LATENCY_SEC)
        turns = (min(one.turn, len(ACTIONS) - 1) for one in requests)
        return [GenerateReply(ACTIONS[at] + "\n", "stop", 40, 4) for at in turns]

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        return [None] * len(keys)

    def close(self) -> None: ...


def apparatus(asked: Any) -> Apparatus:
    """For `build`: what a node of this benchmark carries units out with."""
    return Apparatus(
        settings(Path(asked["folder"]), asked["at_once"]),
        load_domain("swe"),
        Slow(),
        sandboxes_of("process", "r"),
    )


def spread(most: int, attempts: int) -> None:
    """One to `most` simulated nodes, each with units of so many attempts, all of them at once."""
    from ray.cluster_utils import Cluster

    from meta_agent.executors.cluster import open_cluster

    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(most):
        cluster.add_node(num_cpus=1)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        executor = open_cluster(
            cluster.address,
            cpus=1,
            gpus=False,
            build="benchmarks.nodes:apparatus",
            settings={"folder": made, "at_once": attempts},
            domain=load_domain("swe"),
            shared=folder / "shared",
            tell=print,
            stopping=lambda: False,
        )
        outputs = Outputs(folder / "checkpoints", RolloutStore(folder / "rollouts"))
        try:
            side_by_side(executor, outputs, most, 1, "warm")
            alone = 0.0
            for nodes in range(1, most + 1):
                began, cpu = time.perf_counter(), time.process_time()
                side_by_side(executor, outputs, nodes, attempts, f"n{nodes}")
                rate = nodes * attempts / (time.perf_counter() - began)
                alone = alone or rate
                spent = (time.process_time() - cpu) / (nodes * attempts) * 1e3
                print(
                    f"{nodes} nodes: {rate:6.2f} attempts/s, {rate / nodes / alone:.2f} of "
                    f"scaling, driver {spent:.2f} ms of processor time an attempt, load "
                    f"{os.getloadavg()[0]:.0f}"
                )
        finally:
            executor.close()
            cluster.shutdown()


def side_by_side(executor: Any, outputs: Outputs, nodes: int, attempts: int, name: str) -> None:
    pack = hashlib.sha256(pack_of(TREE)).hexdigest()

    def one(at: int) -> None:
        named = f"{name}-{at}"
        unit = EvalUnit(named, pack, 0, "search", attempts, range(1), None, "nano", "slow", 0, "")
        outcome = executor.run(unit, TREE, outputs, lambda *_: None)
        assert outcome["planned"] == attempts

    threads = [threading.Thread(target=one, args=(at,)) for at in range(nodes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- queues ------------------------------------------------------------------------------------


class Costs(NamedTuple):
    """Seconds of processor time that an attempt takes of its node."""

    start: float
    call: float
    grade: float


def measured(count: int = 8) -> Costs:
    """Of process sandboxes: a start, a tool call that starts an interpreter, a run of unittest.

    What a command itself takes its shell tells; the worker's part is in what a sandbox's life does.
    """
    start = statistics.median(lived(0) for _ in range(count))
    around = (statistics.median(lived(20) for _ in range(count)) - start) / 20
    sandbox = open_sandbox("process", run="bench")
    try:
        sandbox.write({"test_it.py": TEST.encode()})
        inside = [
            told_by_shell(sandbox, f"python3 {what}") for what in ("-c pass", "-m unittest -q")
        ]
    finally:
        sandbox.close()
    return Costs(start, *(max(around, 0.0) + one for one in inside))


def lived(commands: int) -> float:
    """Processor time of a sandbox's life: of this process and of the worker."""
    before = sum(os.times()[:4])
    sandbox = open_sandbox("process", run="bench")
    try:
        for _ in range(commands):
            sandbox.exec(["true"])
    finally:
        sandbox.close()
    return sum(os.times()[:4]) - before


def told_by_shell(sandbox: Sandbox, command: str, times: int = 20) -> float:
    loop = f"for n in $(seq {times}); do {command} 2>/dev/null; done; times"
    last = sandbox.exec(["bash", "-c", loop]).stdout.decode().split("\n")[-2]
    found = re.findall(r"(\d+)m([\d.]+)s", last)
    return sum(60 * int(minutes) + float(sec) for minutes, sec in found) / times


class Site(NamedTuple):
    """Nodes and what an attempt does on them: `turns` replies, each followed by a tool call."""

    nodes: int
    cores: int
    sandboxes: int  # under way at once, over all nodes
    turns: int
    latency_sec: float  # of a reply, exponential: the model's queue is its own matter


class Queued(NamedTuple):
    """What came of a simulated site."""

    attempts_sec: float
    busy: float
    waited_sec: float  # of an attempt for a processor
    late_sec: float  # the same at the 99th percentile


def simulate(site: Site, costs: Costs, attempts: int, seed: int = 0) -> Queued:
    """Attempts on nodes whose processors are queued for in turn, a new one for each that ends."""
    draw = random.Random(seed)
    free = [[0.0] * site.cores for _ in range(site.nodes)]  # when each processor is next free
    whole = costs.start + site.turns * costs.call + costs.grade
    # The first ones begin as spread as they would be later on.
    spread = max(site.turns * site.latency_sec, site.sandboxes * whole / site.nodes / site.cores)
    events = [(draw.uniform(0, spread), n, n % site.nodes, 0, 0.0) for n in range(site.sandboxes)]
    heapq.heapify(events)  # when, which attempt, its node, its step, how long it waited so far
    begun_at, lasted, waits = dict[int, float](), list[float](), list[float]()
    while len(waits) < attempts:
        now, which, node, step, waited = heapq.heappop(events)
        begun_at.setdefault(which, now)
        needs = costs.start if step == 0 else costs.call if step <= site.turns else costs.grade
        begins = max(now, heapq.heappop(free[node]))
        done, waited = begins + needs, waited + begins - now
        heapq.heappush(free[node], done)
        if step <= site.turns:
            reply = draw.expovariate(1 / site.latency_sec) if step < site.turns else 0.0
            heapq.heappush(events, (done + reply, which, node, step + 1, waited))
            continue
        lasted.append(done - begun_at.pop(which))
        waits.append(waited)
        heapq.heappush(events, (done, which + site.sandboxes, node, 0, 0.0))
    late = len(waits) // 2  # what ended before had not seen the queues as they become
    rate = site.sandboxes / statistics.mean(lasted[late:])
    ordered = sorted(waits[late:])
    return Queued(
        rate,
        rate * whole / site.nodes / site.cores,
        statistics.mean(ordered),
        ordered[len(ordered) * 99 // 100],
    )


def queue(sandboxes: int) -> None:
    costs = measured()
    print(*(f"{name} {sec * 1e3:.1f} ms" for name, sec in costs._asdict().items()), sep=", ")
    for times in (1, 20):
        heavy = Costs(costs.start, costs.call * times, costs.grade * times)
        print(f"calls and tests {times} times as dear; 20 turns, replies of 2 s")
        for nodes in (2, 4, 8, 16, 32, 64):
            site = Site(nodes, 16, sandboxes, 20, LATENCY_SEC)
            found = simulate(site, heavy, 3 * sandboxes)
            print(
                f"  {nodes:3} nodes of 16 cores: {found.attempts_sec:7.1f} attempts/s, "
                f"{found.busy:4.0%} busy, waits {found.waited_sec:6.2f} s an attempt "
                f"(99th percentile {found.late_sec:6.2f} s)"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    alone = what.add_parser("driver")
    alone.add_argument("--attempts", type=int, default=10_000)
    alone.add_argument("--tokens", type=int, default=32_768)
    nodes = what.add_parser("ray")
    nodes.add_argument("--nodes", type=int, default=4)
    nodes.add_argument("--attempts", type=int, default=64)
    what.add_parser("queue").add_argument("--sandboxes", type=int, default=10_000)
    args = parser.parse_args()
    if args.what == "driver":
        driver(args.attempts, args.tokens)
    elif args.what == "ray":
        spread(args.nodes, args.attempts)
    else:
        queue(args.sandboxes)


if __name__ == "__main__":
    main()
