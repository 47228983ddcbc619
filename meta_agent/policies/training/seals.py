"""Seals: saved states of child and host after a step, from which a killed training resumes.

Beside a training's output lies `OUTPUT.seals/`. The child writes `checkpoint-STEP` there, as
transformers' trainer does (weights or adapter, optimiser, schedule, random generators). The host
adds `host-STEP.json`, the state of its loop, and the rollouts that it holds. The host's file is
written last and names every file of the seal by its hash. Without that file there is no seal.
Promises: a resumed training ends on the same bits as one that was never killed, if the harness
keeps nothing in memory between calls. A seal of another training, or one that is not whole, is
never used. At most two seals lie there, the newest and the one being written.
Not covered: variables of the harness, which starts anew with its sandbox.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.durable import sync, write_whole
from meta_agent.core.errors import IntegrityError
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.core.rollouts import RolloutStore
from meta_agent.policies.training._wire import TrainJob, seals_folder

_log = logging.getLogger(__name__)
_ROLLOUTS: Final = "rollouts"


class Sealed(NamedTuple):
    """The saved state from which a training resumes, read from disk."""

    step: int
    state: Mapping[str, JSON]
    """The state of the host's loop, as it was given to `Seals.write`."""
    rollouts: list[Rollout]


class Seals:
    """The saved states (seals) of the training that `facts` describe; others are never used."""

    def __init__(self, job: TrainJob, facts: Mapping[str, JSON]) -> None:
        self._folder = seals_folder(job.output)
        self._job, self._facts = job, dict(facts)

    def write(self, step: int, state: Mapping[str, JSON], rollouts: Sequence[Rollout]) -> None:
        """Completes the seal (saved state) after `step` steps with the host's state and rollouts.

        The policy's process must have saved its weights before. All earlier seals are removed.
        """
        RolloutStore(self._rollouts(step)).write(_ROLLOUTS, rollouts)
        for place in (self._child(step), self._rollouts(step)):
            for path in place.rglob("*"):
                sync(path)
            sync(place)
        whole = {"facts": self._facts, "state": state, "files": self._hashes(step)}
        write_whole(self._host(step), json.dumps(whole, sort_keys=True))
        self._keep_only(step)

    def newest(self) -> Sealed | None:
        """Returns the newest complete seal (saved state), or None. Removes all other seals."""
        for step in sorted(self._steps(), reverse=True):
            try:
                sealed = self._open(step)
                self._keep_only(step)
                return sealed
            except (IntegrityError, OSError, ValueError, KeyError, TypeError) as error:
                _log.warning(
                    "the saved state after step %d is not used and is removed: %s", step, error
                )
                self._forget(step)
        shutil.rmtree(self._folder, ignore_errors=True)
        return None

    def clear(self) -> None:
        """Removes all seals (saved states), because the training is over."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self, step: int) -> Sealed:
        whole = document(self._host(step).read_bytes())
        if whole["facts"] != self._facts:
            raise IntegrityError("the saved state is of another training; nothing is to be done")
        if whole["files"] != self._hashes(step):
            raise IntegrityError("the saved files have changed; the training repeats those steps")
        rollouts = list(RolloutStore(self._rollouts(step)).iter(_ROLLOUTS, tokens=True))
        return Sealed(step, whole["state"], rollouts)

    def _steps(self) -> list[int]:
        names = [path.stem.removeprefix("host-") for path in self._folder.glob("host-*.json")]
        return [int(name) for name in names if name.isdecimal()]

    def _keep_only(self, step: int) -> None:
        """Removes every other seal, and files of a seal that was never completed."""
        for other in self._steps():
            if other != step:
                self._host(other).unlink()
        for place in self._folder.iterdir():
            if place.is_dir() and place not in (self._child(step), self._rollouts(step)):
                shutil.rmtree(place, ignore_errors=True)

    def _forget(self, step: int) -> None:
        self._host(step).unlink(missing_ok=True)
        for place in (self._child(step), self._rollouts(step)):
            shutil.rmtree(place, ignore_errors=True)

    def _hashes(self, step: int) -> dict[str, str]:
        hashes = {}
        for place in (self._child(step), self._rollouts(step)):
            for path in sorted(place.rglob("*")):
                if path.is_file():
                    with path.open("rb") as stream:
                        digest = hashlib.file_digest(stream, "sha256").hexdigest()
                    hashes[str(path.relative_to(self._folder))] = digest
        return hashes

    def _child(self, step: int) -> Path:
        return self._job.sealed_at(step)

    def _rollouts(self, step: int) -> Path:
        return self._folder / f"rollouts-{step}"

    def _host(self, step: int) -> Path:
        return self._folder / f"host-{step}.json"
