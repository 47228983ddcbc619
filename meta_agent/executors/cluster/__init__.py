"""Runs units of work (trainings and evaluations) on the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from meta_agent.core.lab.units import Executor
from meta_agent.core.protocols import JSON, Domain

if TYPE_CHECKING:
    from meta_agent.executors.cluster._ray import Cluster, Needs


def open_cluster(
    address: str,
    *,
    cpus: int,
    gpus: int,
    build: str,
    settings: JSON,
    domain: Domain,
    shared: Path,
    tell: Callable[[str], None],
    stopping: Callable[[], bool],
    silence_sec: float = 60.0,
) -> Executor:
    """Returns an executor that runs units of work on the nodes of a Ray cluster.

    A unit is a training or an evaluation. An empty address makes this machine a cluster of one
    node. Raises PreflightError if there is no such cluster or if no node has room.

    Args:
        cpus, gpus: what a unit takes of its node; no GPU if the cluster has none.
        build: `module:function` that makes what runs units on a node, from `settings`.
        domain: the tasks and their grader, which must be the same on all nodes.
        shared: a folder that all nodes see at this path.
        tell: receives messages about nodes.
        stopping: once it returns True, trainings that can save their state save it and end.
        silence_sec: after so many seconds without an answer, a node counts as lost.
    """
    from meta_agent.executors.cluster.dispatch import ClusterExecutor

    cluster, needs = _reached(address, cpus, gpus)
    try:
        return ClusterExecutor(
            cluster,
            needs,
            build=build,
            settings=settings,
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
    """Returns by node id how many trainings fit. Raises PreflightError without a Ray cluster."""
    cluster, needs = _reached(address, cpus, gpus)
    try:
        return cluster.room(needs)
    finally:
        cluster.close()


def _reached(address: str, cpus: int, gpus: int) -> tuple[Cluster, Needs]:
    from meta_agent.executors.cluster._ray import Cluster, Needs

    cluster = Cluster(address)
    return cluster, Needs(cpus, gpus if cluster.gpus else 0)
