"""Opens the model that writes tasks (`tasks synth --author`), recorded and capped like a run's.

Promises: questions, replies and costs are stored beside the task file (`NAME.asked`). A search that
was interrupted asks nothing twice. The cap on money counts all searches for that file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from meta_agent.composition.served import open_models, require_servers
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import Ledger
from meta_agent.core.workspace import Workspace
from meta_agent.domains.tasks import Author

_RUN: Final = "author"


def asked_folder(out: Path) -> Path:
    """Returns the folder for the questions and replies by which a model wrote the tasks `out`."""
    return out.absolute().with_name(f"{out.stem}.asked")


@contextmanager
def open_author(config: RunConfig, out: Path, tell: Callable[[str], None]) -> Iterator[Author]:
    """Yields the model that writes tasks, which `config.meta_model` names.

    Its calls are recorded in a ledger beside `out`. Raises ConfigError before the first call if the
    named model cannot write tasks.
    """
    model = config.meta_model
    if not config.team_is_asked or model.startswith("replay:"):
        raise ConfigError(
            f"--author {model} is not a model that can write tasks",
            hint="give --author PROVIDER/MODEL, vllm:PATH or scripted:FILE",
        )
    # Only the settings that say how models are asked matter here.
    config = config.model_copy(update={"policy": "nano", "models": {}, "grade": None})
    require_servers(config)
    folder = asked_folder(out)
    folder.mkdir(parents=True, exist_ok=True)
    workspace = Workspace(folder, config.domain, config.harness, config.seed)
    with Ledger.open(workspace.ledger_file) as ledger:
        ledger.start_run(_RUN, config.to_json(), config_hash=_RUN)
        opened = open_models(
            config, ledger, _RUN, workspace, started_at=int(time.time()), tell=tell
        )
        with opened as client:
            assert client is not None  # a meta-model is asked
            yield Author(client, model)
        calls = sum(spend.calls for spend in ledger.spend(_RUN).values())
        tell(f"asked {model}: {calls} calls, record: {folder}")
