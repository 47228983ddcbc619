"""A process that trains beside the policy child and only follows it; the child is rank 0.

Only `_spawn` starts `python -m meta_agent.policies.training.passes.other_rank`. Its output and its
last error go to the child's stderr.
Not covered: how work is divided among ranks (`ranks`, `_trainer`).
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.protocols import JSON
from meta_agent.policies.training import _wire
from meta_agent.policies.training.child import prepare


def main() -> NoReturn:
    """Joins the other ranks of a training, and trains whenever rank 0 does. Never returns."""
    prepare()
    from meta_agent.policies.training import _local
    from meta_agent.policies.training.passes.ranks import Ranks

    place = json.loads(sys.argv[1])
    ranks = Ranks(place["rank"], place["count"])
    ranks.find(place["port"])
    ranks.meet()
    while True:
        command = ranks.receive()
        settings = _wire.TrainSettings(**command["settings"])
        policy = _local.load(Path(command["path"]), settings, foreign=True)
        job = _wire.job_from_json(command["job"])
        with suppress(CandidateError, ConfigError):  # rank 0 finds the same, and tells it
            _local.train(policy, job, _asks_nobody, _says_nothing, ranks)
        del policy  # what it holds is free until the next training


def _asks_nobody(*_: Any) -> NoReturn:
    raise RuntimeError("only rank 0 may ask the host for rows; this is a bug to report")


def _says_nothing(_: JSON) -> None:
    """Does nothing, because rank 0 sends the events."""


if __name__ == "__main__":
    main()
