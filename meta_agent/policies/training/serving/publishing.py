"""Hands the weights of a training to its engines, through files that both can read.

Promises: a version is served whole (`fleet`), and its name holds the number of steps. Files of a
version that an engine may still read stay. If engines refuse an adapter, the version before stays
served, and the refusal is counted. The training stops, and can be resumed, if that version is of no
step of this training, or after `MOST_UNPUBLISHED` refusals in a row.

Not covered: engines that do not share a folder with the trainer.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError, InfrastructureError, IntegrityError
from meta_agent.policies.fleet import EngineGateway, Fleet, Served
from meta_agent.policies.training import adapter
from meta_agent.policies.training._wire import published_folder
from meta_agent.policies.training.handover import room_for
from meta_agent.policies.training.hub import base_place
from meta_agent.policies.training.policy import PolicyChild
from meta_agent.policies.training.serving.untied import untied

MOST_UNPUBLISHED: Final = 3
_UNSERVED: Final = (
    "use_dora",
    "modules_to_save",
    "trainable_token_indices",
    "alora_invocation_tokens",
)


def served_as(name: str, folder: Path, *, adapters: bool, scratch: Path) -> Served:
    """Returns a policy's folder as a version that vLLM servers can serve under the name `name`.

    `adapters` says whether the servers take adapters; `scratch` is a folder for rewritten files.
    Raises ConfigError if vLLM cannot serve the folder.
    """
    rank = require_servable(folder, adapters=adapters)
    if rank:
        return Served(name, base_place(folder), folder, rank)
    return Served(name, folder if adapters else untied(folder, scratch / folder.name))


def require_servable(folder: Path, *, adapters: bool) -> int:
    """Returns the rank that engines reserve for the folder's adapter, or 0 for a whole model.

    Raises ConfigError if vLLM cannot serve the adapter, or if `adapters` is False for an adapter.
    """
    if not adapter.is_adapter(folder):
        return 0
    if not adapters:
        raise ConfigError(
            f"{folder} is an adapter, but the engines of this run take only whole weights",
            hint="merge it into its base model and give that folder, or use --lora-rank 16",
        )
    settings = adapter.settings_of(folder)
    odd = [option for option in _UNSERVED if settings.get(option)]
    odd += ["bias"] * (settings.get("bias", "none") != "none")
    if odd:
        raise ConfigError(
            f"{folder} is an adapter that vLLM cannot serve: it has {odd[0]}",
            hint="merge it into its base model and give that folder, or leave out --engines",
        )
    return room_for(
        max([int(settings["r"]), *map(int, (settings.get("rank_pattern") or {}).values())])
    )


class EnginePublisher:
    """Makes a fleet of vLLM servers serve the current weights of a policy in training."""

    def __init__(
        self, child: PolicyChild, fleet: Fleet, gateway: EngineGateway, output: Path
    ) -> None:
        self._child, self._fleet, self._gateway = child, fleet, gateway
        self._adapters = child.settings.lora_rank > 0
        self._folder = published_folder(output)
        self._names: list[str] = []  # served in this training, newest last
        self._failed = 0  # in a row
        self.metrics: dict[str, float] = {}

    def publish(self, step: int) -> str:
        """Writes the current weights, makes every engine serve them, and returns their name.

        If an engine refuses them, the name is that of the weights served before. Raises
        InfrastructureError if a training's first weights are refused, or three in a row.
        """
        began = time.monotonic()
        path = self._folder / str(step)
        shutil.rmtree(path, ignore_errors=True)  # what a killed training wrote
        self._child.write(path)
        name = f"{self._child.policy.partition('+')[0]}+{step}"
        if adapter.is_adapter(path) != self._adapters:
            raise ConfigError(
                f"adapters cannot extend {self._child.policy}, because its weights were trained "
                "whole",
                hint="use the model that it was trained from, or leave out --engines",
            )
        untied_at = self._folder / "untied"
        weights = served_as(name, path, adapters=self._adapters, scratch=untied_at)
        served = self._fleet.publish(weights)
        self._note(name, served.name)
        self._gateway.policy = served.name
        self._tidy()
        self.metrics = {
            "publish_sec": time.monotonic() - began,
            "unpublished": self._fleet.unpublished,
            "engines_replaced": self._fleet.replaced,
        }
        return served.name

    def _note(self, name: str, served_name: str) -> None:
        self._failed = 0 if name == served_name else self._failed + 1
        if name == served_name:
            self._names.append(name)
        elif served_name not in self._names or self._failed >= MOST_UNPUBLISHED:
            raise InfrastructureError(
                f"the engines refused the weights {name} {self._failed} times in a row: they "
                f"serve {served_name}",
                hint="read logs/engine-N.log in the workspace, then run the same command again",
            )

    def _tidy(self) -> None:
        """Removes files that neither a fresh engine nor a rollout needs."""
        recent = {name.rpartition("+")[2] for name in self._names[-2:]}
        for path in (*self._folder.iterdir(), *(self._folder / "untied").glob("*")):
            if path.name not in (*recent, "untied"):
                shutil.rmtree(path, ignore_errors=True)


class EngineChild:
    """Makes a second child process sample from the weights of a policy in training.

    The second child loads a checkpoint that the trained child writes between two steps, and
    checks its hash. The last published weights stay until the training is done, so a stopped
    training can repeat dropped rollouts under the same weights.
    """

    def __init__(self, trained: PolicyChild, engine: PolicyChild, output: Path) -> None:
        self._trained, self._engine = trained, engine
        self._folder = published_folder(output)

    def publish(self, step: int) -> str:
        """Writes the current weights, makes the second child load them, and returns their name."""
        path = self._folder / str(step)
        shutil.rmtree(path, ignore_errors=True)  # what a killed training wrote
        self._trained.write(path)
        return self._load(step)

    def publish_again(self, step: int) -> str | None:
        """Loads the weights of step `step` again; returns their name, or None if they are gone."""
        try:
            return self._load(step)
        except (ConfigError, IntegrityError):
            return None

    def _load(self, step: int) -> str:
        self._engine.load(self._folder / str(step))
        for path in self._folder.iterdir():
            if path.name != str(step):
                shutil.rmtree(path, ignore_errors=True)
        # The name that the training child gives to rows of these weights.
        self._engine.policy = f"{self._trained.policy.partition('+')[0]}+{step}"
        return self._engine.policy
