"""The only file that speaks to Ray. It uses Ray Core alone, without Ray's retries.

A *place* is an actor that is bound to one node. It holds the processors, and the GPUs if any, that
a unit needs. Trainer and engines are its child processes, so they share its node. Places end with
the driver. Every Ray error about a lost actor, also `ActorUnavailableError`, becomes `PlaceLost`.
An exception that the code on the node raised is raised here unchanged.

Not covered: which place gets a unit, and what happens after a loss (`dispatch`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

from meta_agent.core.distribution import install
from meta_agent.core.errors import PreflightError
from meta_agent.core.protocols import JSON
from meta_agent.executors.cluster.node import Node


class PlaceLost(Exception):  # noqa: N818 - an event, not a mistake
    """Raised when an actor on a cluster node died, hung or cannot be reached."""


class Needs(NamedTuple):
    """The processors and GPUs that a training or evaluation takes of its node."""

    CPU: int  # named as Ray names them
    GPU: int = 0


class Place:
    """An actor on a node, for one training or evaluation at a time. Calls may raise PlaceLost."""

    def __init__(self, ray: Any, actor: Any, node: str) -> None:
        self._ray, self._actor, self.node = ray, actor, node

    def facts(self, probe: str, timeout_sec: float) -> dict[str, str]:
        """Returns the node's versions and hashes, by name, and the text of the shared file `probe`.

        Raises PlaceLost if the node cannot be reached.
        """
        with _lost(self._ray):
            return dict(self._ray.get(self._actor.facts.remote(probe), timeout=timeout_sec))

    def start(self, folder: str) -> Any:
        """Starts the work that `folder` describes; returns Ray's handle. May raise PlaceLost."""
        with _lost(self._ray):
            return self._actor.carry_out.remote(folder)

    def finished(self, begun: Any, within_sec: float) -> str | None:
        """Returns the hash of what `begun` made, None after `within_sec`. May raise PlaceLost."""
        with _lost(self._ray):
            done, _ = self._ray.wait([begun], timeout=within_sec)
            return str(self._ray.get(begun)) if done else None

    def metrics_since(self, count: int, timeout_sec: float) -> list[tuple[int, JSON]]:
        """Returns the metrics after the first `count` rows, with steps. May raise PlaceLost."""
        with _lost(self._ray):
            return list(self._ray.get(self._actor.metrics_since.remote(count), timeout=timeout_sec))

    def end(self) -> None:
        """Kills the actor. Ray does so later if it cannot reach the actor now."""
        with suppress(Exception):
            self._ray.kill(self._actor, no_restart=True)


@contextmanager
def _lost(ray: Any) -> Iterator[None]:
    try:
        yield
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
        raise PlaceLost(f"{type(error).__name__}: {str(error).strip()[:300]}") from error
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error


class Cluster:
    """A Ray cluster at an address ("": this machine). Raises PreflightError if there is none."""

    def __init__(self, address: str) -> None:
        if find_spec("ray") is None:
            raise PreflightError(
                "--executor ray needs the package ray, which is not installed", hint=install("ray")
            )
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # 15 by default: beside other work on this machine, what Ray starts would starve.
        os.environ.setdefault("RAY_worker_niceness", "0")
        import ray  # noqa: TID251

        self._ray = ray
        try:
            ray.init(
                address=address or "local",
                include_dashboard=None if address else False,
                log_to_driver=False,
                configure_logging=False,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise PreflightError(
                f"no Ray cluster at {address or 'this machine'}: {str(error).strip()[:300]}",
                hint="check it: ray status --address ADDRESS; Python and Ray must be the same "
                "on both sides",
            ) from error

    def room(self, needs: Needs) -> dict[str, int]:
        """Returns by node id how many actors, each with `needs`, every living node can hold."""
        needed = {name: count for name, count in needs._asdict().items() if count}
        return {
            node["NodeID"]: int(min(node["Resources"].get(n, 0) // c for n, c in needed.items()))
            for node in self._ray.nodes()
            if node["Alive"]
        }

    @property
    def gpus(self) -> int:
        """Returns the number of GPUs of all nodes together."""
        return int(self._ray.cluster_resources().get("GPU", 0))

    def place(self, node: str, needs: Needs, build: str, settings: JSON) -> Place:
        """Starts and returns an actor on a node. It works with the object of `build(settings)`."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: TID251

        actor = self._ray.remote(Node).options(
            num_cpus=needs.CPU,
            num_gpus=needs.GPU,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=2,  # a unit, and `metrics_since` beside it
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        return Place(self._ray, actor.remote(build, settings), node)

    def close(self) -> None:
        self._ray.shutdown()
