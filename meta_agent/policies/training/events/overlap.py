"""Rollouts that run while the trainer trains: their weights, and when they start.

With `max_staleness` 1 the rollouts of the next event begin when the rows of this one
go to the trainer, under the weights that these rows are about to change. So each event
but the first is trained on by weights one event younger than those that sampled it.
TRL's correction makes up for that.
Promises: a harness gets the same calls as without overlap, in the same order and by one thread
at a time, because an event begins when all before it are over. The trainer waits for an
event's work at that event. If the training ends before, the work ends at its next model call.
The last event starts no further work.
Not covered: how weights reach an engine (`Publisher`), and the loop itself (`run`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.protocols import Rollout
from meta_agent.policies.training._wire import RolloutEvent
from meta_agent.policies.training.events.groups import Batch


class Publisher(Protocol):
    """Hands the current weights of a training to the engines that sample its rollouts."""

    def publish(self, step: int) -> str:
        """Makes the engines serve the weights after `step` steps; returns the weights' name."""
        ...


@runtime_checkable
class Keeps(Publisher, Protocol):
    """A publisher that keeps a stopped training's last weights as files, to serve them again."""

    def publish_again(self, step: int) -> str | None:
        """Serves the weights after `step` steps again; returns their name, or None if lost."""
        ...


@runtime_checkable
class Measures(Publisher, Protocol):
    """A publisher of weights that reports metrics of its own work."""

    metrics: dict[str, float]
    """The metrics of publishing the last version, by name."""


class Begun(NamedTuple):
    """Rollouts that were begun, and may still run, for one request of the trainer (event)."""

    version: int  # optimiser steps done by the weights that sample them
    result: Callable[[], Batch]  # waits for them; raises what making them raised


class Ages(NamedTuple):
    """Which rollouts of an event are too old to train on, and metrics of their age.

    A rollout's age is how many events old the weights are that sampled it.
    """

    stale: Callable[[Rollout], bool]
    metrics: dict[str, float]


class Overlap:
    """Chooses the weights that sample rollouts, and runs the thread that makes rollouts ahead.

    `most` is how old the weights that sampled a row may be, in events (requests of the trainer for
    rollouts). `each` of the training's `steps` optimiser steps are made on one event's rows.
    """

    def __init__(
        self, publisher: Publisher | None = None, most: int = 0, each: int = 1, steps: int = 0
    ) -> None:
        self._publisher, self._most = publisher, most if publisher else 0
        self._each, self._steps = each, steps
        self.versions: dict[str, int] = {}  # optimiser steps by served name
        self.ended = False
        self._served: int | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rollouts-ahead")

    def serve(self, step: int, *, instead: int | None = None) -> int:
        """Makes engines serve the weights after `step` steps; returns the step that they serve.

        The weights after `instead` steps are served in their place if they still exist.
        """
        if self._publisher is None:
            return step
        again = self._publisher.publish_again if isinstance(self._publisher, Keeps) else None
        if again and instead is not None and (name := again(instead)) is not None:
            self.versions[name] = self._served = instead
        elif self._served != step:
            self._served = self.versions.setdefault(self._publisher.publish(step), step)
        return self._served

    def next_after(self, event: RolloutEvent) -> RolloutEvent | None:
        """Returns the next request for rollouts if made while `event` is trained on; else None."""
        later = replace(event, step=event.step + self._each)
        return later if self._most and later.step < self._steps else None

    def begin(self, work: Callable[[], Batch]) -> Callable[[], Batch]:
        """Starts `work` on a thread. Returns a function that waits for its rollouts."""
        return self._pool.submit(work).result

    def young(self, version: int, event: RolloutEvent) -> bool:
        """Returns True if weights after `version` steps may still sample rollouts for an event."""
        return self._age(version, event) <= self._most

    def require_young(self, version: int, event: RolloutEvent) -> None:
        """Raises InfrastructureError if weights after `version` steps are too old for an event."""
        if not self.young(version, event):
            raise InfrastructureError(
                f"the weights after step {event.step} did not reach the engine: it still samples "
                f"with those after step {version}, which --max-staleness {self._most} forbids",
                hint="run the same command again: it resumes from the last saved step",
            )

    def require_heard(self, rollouts: Sequence[Rollout]) -> None:
        """Raises InfrastructureError if the inference engine answered none of the rollouts."""
        if self._publisher is not None and rollouts and all(map(_unheard, rollouts)):
            why = next((r.error.detail for r in rollouts if r.error), "it sent no token ids")
            raise InfrastructureError(
                f"the inference engine answered none of {len(rollouts)} attempts: {why}",
                hint="run the same command again: it resumes from the last saved step",
            )

    def ages(self, rollouts: Sequence[Rollout], version: int, event: RolloutEvent) -> Ages:
        """Returns which rollouts are too old to train on, and metrics of their age in events.

        A rollout whose policy was not published counts as sampled after `version` steps.
        """

        def age(rollout: Rollout) -> int:
            return self._age(self.versions.get(rollout.policy, version), event)

        row_ages = [age(rollout) for rollout in rollouts]
        metrics = {
            "staleness": sum(row_ages) / len(row_ages),
            "stale_ratio": sum(rollout_age > self._most for rollout_age in row_ages)
            / len(row_ages),
        }
        if isinstance(self._publisher, Measures):
            metrics |= self._publisher.metrics
        return Ages(
            lambda rollout_age: age(rollout_age) > self._most, metrics if self._publisher else {}
        )

    def end(self) -> None:
        """Makes running rollouts stop at their next model call, and waits for them to stop."""
        self.ended = True
        self._pool.shutdown(cancel_futures=True)

    def _age(self, version: int, event: RolloutEvent) -> int:
        return (event.step - version) // self._each


def _unheard(rollout: Rollout) -> bool:
    if rollout.error and rollout.error.kind == "infra":
        return rollout.error.detail.startswith("model: ")
    return rollout.turns > 0 and rollout.tokens is None
