"""A second child that samples what the first one trains: an engine without a server.

Weights go through files: the child that trains writes a checkpoint between two steps, the engine
child loads it, and its hash is compared on the way. The last published weights stay until the
training is done. So a stopped training can repeat dropped rollouts under the same weights.

Not covered: many requests at once, and weights that fill a device twice.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from meta_agent.core.errors import ConfigError, IntegrityError
from meta_agent.policies.training._wire import published_folder
from meta_agent.policies.training.policy import PolicyChild


class EngineChild:
    """Publishes what `trained` trains towards `output` to `engine`, the rollouts' gateway."""

    def __init__(self, trained: PolicyChild, engine: PolicyChild, output: Path) -> None:
        self._trained, self._engine = trained, engine
        self._folder = published_folder(output)

    def publish(self, step: int) -> str:
        """Writes the current weights and makes the engine load them."""
        path = self._folder / str(step)
        shutil.rmtree(path, ignore_errors=True)  # what a killed training wrote
        self._trained.write(path)
        return self._load(step)

    def publish_again(self, step: int) -> str | None:
        """Loads the weights that were written after `step` steps, or returns None."""
        try:
            return self._load(step)
        except (ConfigError, IntegrityError):
            return None

    def _load(self, step: int) -> str:
        self._engine.load(self._folder / str(step))
        for path in self._folder.iterdir():
            if path.name != str(step):
                shutil.rmtree(path, ignore_errors=True)
        # As rows are named that the child samples which trains.
        self._engine.policy = f"{self._trained.policy.partition('+')[0]}+{step}"
        return self._engine.policy
