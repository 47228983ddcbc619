"""Units on several machines: dispatching, what a node does, and the one file that speaks to Ray."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from meta_agent.core.lab.executor import Executor
from meta_agent.core.protocols import JSON, Domain

if TYPE_CHECKING:
    from meta_agent.executors.cluster._ray import Cluster, Needs


def open_cluster(
    address: str,
    *,
    cpus: int,
    gpus: int,
    build: str,
    told: JSON,
    domain: Domain,
    shared: Path,
    tell: Callable[[str], None],
    stopping: Callable[[], bool],
    silence_sec: float = 60.0,
) -> Executor:
    """Units on the nodes at a Ray address; empty: this machine as a cluster of one.

    Args:
        cpus: what a unit takes of its node; `gpus` as well, where there are any.
        build: `module:function` that makes a node's apparatus of `told`.
        shared: a folder that all nodes see at this path.
        stopping: once true, trainings that make seals make one and end.
    """
    from meta_agent.executors.cluster.dispatch import ClusterExecutor

    cluster, needs = _reached(address, cpus, gpus)
    try:
        return ClusterExecutor(
            cluster,
            needs,
            build=build,
            told=told,
            domain=domain,
            shared=shared,
            tell=tell,
            stopping=stopping,
            silence_sec=silence_sec,
        )
    except BaseException:
        cluster.close()
        raise


def room_of(address: str, *, cpus: int, gpus: int) -> dict[str, int]:
    """How many units each node at a Ray address has room for, by the node's id."""
    cluster, needs = _reached(address, cpus, gpus)
    try:
        return cluster.room(needs)
    finally:
        cluster.close()


def _reached(address: str, cpus: int, gpus: int) -> tuple[Cluster, Needs]:
    from meta_agent.executors.cluster._ray import Cluster, Needs

    cluster = Cluster(address)
    return cluster, Needs(cpus, gpus if cluster.gpus else 0)
