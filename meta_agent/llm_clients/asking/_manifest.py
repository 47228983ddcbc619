"""What a record says about its run: enough to replay it, and to charge the same prices on resume.

It holds the run's name and clock, the settings that change results, the model and the price of each
role, and labels for people. It holds no key, no address of a server and no path of the workspace.
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
    earlier: Mapping[str, Any],
) -> dict[str, JSON]:
    """Returns the manifest of a run: JSON with its settings, models, prices and labels.

    `started_at` is a Unix time in seconds. Labels in `earlier`, the run's manifest so far, stay.
    """
    return {
        "run_id": run_id,
        "clock": started_at,
        "settings": config.hashed,
        "models": {role: config.model_of(role) for role in prices},
        "prices": {role: price.to_json() if price else None for role, price in prices.items()},
        "labels": {**earlier.get("labels", {}), **labels},
    }


def snapshot_of(manifest: Mapping[str, Any]) -> dict[str, Price | None]:
    """Returns the price of each role's model that the manifest of a run recorded at its start.

    A price is None if it was unknown then.
    """
    prices = manifest.get("prices", {})
    return {role: Price.from_json(price) if price else None for role, price in prices.items()}


def clock_of(
    ledger: Ledger, run_id: str, manifest: Mapping[str, JSON], clock: Callable[[], float]
) -> int:
    """Returns the Unix time in seconds at which a run began, from its ledger or its manifest.

    If neither has it, `clock()` gives the time now.
    """
    step = ledger.step(f"{run_id}/clock")
    if step is not None and step.is_done:
        return step.outcome_as(Clock)["at"]
    return int(manifest.get("clock", clock()))


def write_manifest(transcripts: Transcripts, manifest: Mapping[str, JSON]) -> None:
    """Writes a run's manifest if it has changed. Raises IntegrityError over that of another run."""
    earlier = transcripts.manifest()
    if earlier is not None and earlier["run_id"] != manifest["run_id"]:
        raise IntegrityError(
            f"{transcripts.root} records the run {earlier['run_id']}, not {manifest['run_id']}",
            hint="give another workspace: --workspace DIR",
        )
    manifest = {**manifest, "schema_version": SCHEMA_VERSION}
    if earlier != manifest:
        transcripts.write_manifest(manifest)
