"""Whether a workspace has the rollouts that its journal names: one that was packed may not."""

from __future__ import annotations

from meta_agent.core.errors import ConfigError
from meta_agent.core.lab.arms import parts_of
from meta_agent.core.ledger import Ledger
from meta_agent.core.rollouts import RolloutStore


def require_rollouts(ledger: Ledger, store: RolloutStore, run: str | None = None) -> None:
    """ConfigError where not one of the named files is there.

    Where some are, each that is missing is a difference of its own, for `verify` to name.
    """
    shards = {
        str(part["name"])
        for kind in ("train", "eval")
        for step in ledger.steps(run, kind)
        if step.is_done and step.fields.get("shard")
        for part in parts_of(step.fields["shard"])
    }
    if shards and not any(store.find(name) for name in shards):
        raise ConfigError(
            f"the rollouts of this workspace are left out: of {len(shards)} files that its journal "
            f"names none is in {store.directory}, so nothing can be computed again from them",
            hint="the journal and the history are here: meta-agent status, meta-agent why NAME",
        )
