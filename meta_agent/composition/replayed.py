"""Records in the ledger that a run is a replay, of which recording, and how far it differed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from meta_agent.core.loop.run import Run
from meta_agent.llm_clients.asking.client import Client


@contextmanager
def telling_replay(run: Run) -> Iterator[None]:
    """Records in the ledger, after the block, how a replay's calls differed from the recording."""
    try:
        yield
    finally:
        _tell(run)


def _tell(run: Run) -> None:
    client = run.models
    if not isinstance(client, Client) or not client.replaying:
        return
    manifest = client.transcripts.manifest() or {}
    run.ledger.event(
        "replay",
        {
            "recording": str(manifest.get("run_id", run.id)),
            "labels": manifest.get("labels") or {},
            "drift": client.drifted,
        },
    )
