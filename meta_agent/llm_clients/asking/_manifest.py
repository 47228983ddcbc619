"""What a record says about its run: enough to replay it, and to charge the same prices on resume.

It holds the run's name and clock, the settings that change results, the model and the price of each
role, and labels for people. No key, no address of a server and no path of the workspace is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import IntegrityError
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Clock
from meta_agent.core.protocols import JSON, Role
from meta_agent.llm_clients.asking.prices import Price
from meta_agent.llm_clients.asking.transcripts import SCHEMA_VERSION, Transcripts


def manifest_of(
    config: RunConfig,
    run_id: str,
    started_at: int,
    prices: Mapping[Role, Price | None],
    labels: Mapping[str, str],
    known: Mapping[str, Any],
) -> dict[str, JSON]:
    """The manifest of a run; labels that it had before stay."""
    return {
        "run_id": run_id,
        "clock": started_at,
        "settings": config.hashed,
        "models": {role: config.model_of(role) for role in prices},
        "prices": {role: price.to_json() if price else None for role, price in prices.items()},
        "labels": {**known.get("labels", {}), **labels},
    }


def snapshot_of(known: Mapping[str, Any]) -> dict[str, Price | None]:
    """The prices that the run began with. What was unknown then may be known now."""
    stored = known.get("prices", {})
    return {role: Price.from_json(price) if price else None for role, price in stored.items()}


def clock_of(
    ledger: Ledger, run_id: str, known: Mapping[str, JSON], clock: Callable[[], float]
) -> int:
    """When the run began, as the ledger has it."""
    step = ledger.step(f"{run_id}/clock")
    if step is not None and step.done:
        return step.told(Clock)["at"]
    return int(known.get("clock", clock()))


def keep(transcripts: Transcripts, told: Mapping[str, JSON]) -> None:
    """Writes a manifest where it says something new. Raises IntegrityError over another run's."""
    known = transcripts.manifest()
    if known is not None and known["run_id"] != told["run_id"]:
        raise IntegrityError(
            f"{transcripts.root} is the record of {known['run_id']}, not of {told['run_id']}"
        )
    told = {**told, "schema_version": SCHEMA_VERSION}
    if known != told:
        transcripts.write_manifest(told)
