"""Rollouts that are made while the trainer trains: what is served to them, and when they run.

With `max_staleness` 1 the rollouts of the next event begin when the rows of this one are handed
over, under the weights that these rows are about to move. So each event but the first is trained on
by weights one event younger than those that sampled it; TRL's correction makes up for that.

Promises: a harness is asked what it would be asked without overlap, in the same order and by one
thread at a time, because an event begins when all before it are over. Work under way is joined at
its event; where the training ends before that, it ends at its next model call. The last event
begins nothing.

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


class Publisher(Protocol):
    """Makes the weights of a training what its engines serve; the gateway samples under them."""

    def publish(self, step: int) -> str:
        """Serves the weights after `step` steps. Returns what is served then, by name."""
        ...


@runtime_checkable
class Keeps(Publisher, Protocol):
    """A publisher that still has what a training that was stopped had published."""

    def publish_again(self, step: int) -> str | None:
        """Serves what was published as `step`; None where it is not there any more."""
        ...


@runtime_checkable
class Measures(Publisher, Protocol):
    """A publisher that measures what it does."""

    metrics: dict[str, float]
    """By metric, of the last version."""


class Begun(NamedTuple):
    """Rollouts of one event, made or under way."""

    version: int  # optimiser steps done by the weights that sample them
    result: Callable[[], list[Rollout]]  # waits for them; raises what making them raised


class Ages(NamedTuple):
    """How many events older than the trained weights those were that sampled each row."""

    stale: Callable[[Rollout], bool]
    metrics: dict[str, float]


class Overlap:
    """What is served to rollouts, and the thread that makes them ahead.

    `most` is how many events old the weights that sampled a row may be when it is trained on;
    `each`, how many of the `steps` optimiser steps are made on an event's rows.
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
        """Makes the weights of now served, those after `step` steps; returns what really is.

        `instead` is an older version that is to be served if it was kept.
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
        """The event that begins with the training on this one's rows; None: nobody trains on it."""
        later = replace(event, step=event.step + self._each)
        return later if self._most and later.step < self._steps else None

    def begin(self, work: Callable[[], list[Rollout]]) -> Callable[[], list[Rollout]]:
        """Begins work on a thread of its own; what this returns waits for it."""
        return self._pool.submit(work).result

    def young(self, version: int, event: RolloutEvent) -> bool:
        """Whether an event may be trained on that this version sampled."""
        return self._age(version, event) <= self._most

    def require_young(self, version: int, event: RolloutEvent) -> None:
        """Attempts are not spent on rows that nobody may train on."""
        if not self.young(version, event):
            raise InfrastructureError(
                f"the weights after step {event.step} could not be published: those after step "
                f"{version} are served, and rows may be {self._most} events old (max_staleness)",
                hint="run the same command again: it goes on from the last seal",
            )

    def require_heard(self, rollouts: Sequence[Rollout]) -> None:
        """An engine that died leaves nothing to train on, also of attempts that had ended."""
        if self._publisher is not None and rollouts and all(map(_unheard, rollouts)):
            why = next((r.error.detail for r in rollouts if r.error), "it told no tokens")
            raise InfrastructureError(
                f"the engine answered for none of {len(rollouts)} attempts: {why}",
                hint="run the same command again: it goes on from the last seal",
            )

    def ages(self, rollouts: Sequence[Rollout], version: int, event: RolloutEvent) -> Ages:
        """Of rows that this version sampled, or another one where a row's policy says so."""

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
        """Waits for work under way, which sees `ended` at its next model call."""
        self.ended = True
        self._pool.shutdown(cancel_futures=True)

    def _age(self, version: int, event: RolloutEvent) -> int:
        return (event.step - version) // self._each


def _unheard(rollout: Rollout) -> bool:
    if rollout.error and rollout.error.kind == "infra":
        return rollout.error.detail.startswith("model: ")
    return rollout.turns > 0 and rollout.tokens is None
