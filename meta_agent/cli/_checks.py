"""Commands that check: doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from meta_agent.cli._flags import takes
from meta_agent.cli._options import JsonOption
from meta_agent.cli._output import emit, stdout_for_data

if TYPE_CHECKING:
    from meta_agent.core.config import RunConfig

PREFLIGHT_EXIT_CODE = 3


@takes(
    *("policy", "meta_model", "models", "base_urls", "key_env", "domain", "tasks", "grade"),
    *("lora_rank", "precision", "tokens_per_pass", "max_staleness", "train_gpus"),
    *("threads", "jobs", "executor"),
    *("engines", "gpus_per_engine", "context_tokens"),
    *("sandbox", "allow_unsafe_process", "workspace"),
)
def doctor(
    config: RunConfig,
    live: Annotated[
        bool,
        typer.Option("--live", help="Also ask servers of --base-url, and a cluster for its nodes."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check what a run needs on this machine; each failing row names its fix."""
    from meta_agent.cli.doctor import examine
    from meta_agent.reports.terminal.text import checks

    with stdout_for_data():
        health = examine(config, live=live)
    emit(as_json, health.to_json, lambda: checks(health.rows()))
    if not health.ok:
        raise typer.Exit(PREFLIGHT_EXIT_CODE)
