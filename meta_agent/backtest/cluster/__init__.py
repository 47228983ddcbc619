"""Units on several machines: dispatching, what a node does, and the one file that speaks to Ray."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from meta_agent.backtest.executor import Executor
from meta_agent.protocols import JSON, Domain


def open_cluster(
    address: str,
    *,
    cpus: int,
    gpus: bool,
    build: str,
    told: JSON,
    domain: Domain,
    shared: Path,
    tell: Callable[[str], None],
    silence_sec: float = 60.0,
) -> Executor:
    """Units on the nodes at a Ray address; empty: this machine as a cluster of one.

    Args:
        cpus: what a unit takes of its node; with `gpus` one GPU as well, where there are any.
        build: `module:function` that makes a node's apparatus of `told`.
        shared: a folder that all nodes see at this path.
    """
    from meta_agent.backtest.cluster._ray import Cluster, Needs
    from meta_agent.backtest.cluster.dispatch import ClusterExecutor

    cluster = Cluster(address)
    needs = Needs(cpus, 1 if gpus and cluster.gpus else 0)
    try:
        return ClusterExecutor(
            cluster,
            needs,
            build=build,
            told=told,
            domain=domain,
            shared=shared,
            tell=tell,
            silence_sec=silence_sec,
        )
    except BaseException:
        cluster.close()
        raise
