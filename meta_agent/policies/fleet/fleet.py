"""Several engines that serve one policy, and how they switch to its next version.

Every engine loads an adapter under the version's own name before any call asks for it. Names that
no rollout uses any more are unloaded. If one engine refuses the adapter, none serves it, and the
version before stays. Whole weights replace the served ones engine by engine, while that engine has
no calls. An engine that fails at that is replaced by one that starts on the new weights. So no
engine ever stays between two versions.
The lock guards versions: a version is published, and a fresh engine joins, under it.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import GenerateRequest
from meta_agent.policies.engines.talks import Asked
from meta_agent.policies.fleet._replica import Launch, Patience, Replica, Started
from meta_agent.policies.fleet._routes import Drawn, Routes, Served

T = TypeVar("T")
_log = logging.getLogger(__name__)


class _Seat(NamedTuple):
    """The engine that a rollout stays on, and the policy version that it began with."""

    replica: Replica
    served: Served


class Fleet:
    """Several engines (vLLM servers) that serve the same policy version.

    The constructor starts all and waits for them. Raises ProviderError if one does not start.
    """

    def __init__(
        self,
        launch: Launch,
        count: int,
        served: Served,
        *,
        rank: int = 0,
        patience: Patience | None = None,
    ) -> None:
        """`rank` is the largest rank of adapters that engines can load without a restart."""
        self._launch, self._rank, self.served = launch, rank, served
        self._patience = patience or Patience()
        self.unpublished = 0  # versions that engines could not load
        self._lock = threading.RLock()
        self._seats: dict[str, _Seat] = {}
        self._seating = threading.Lock()  # guards `_seats` and the replicas' counts
        self._numbers = itertools.count()
        self.replicas = [
            Replica(at, partial(self._start, at), self._join, self._patience) for at in range(count)
        ]
        try:
            self._each(Replica.wait_up)
        except BaseException:
            self.close()
            raise

    def draw(self, prompt: Asked, request: GenerateRequest, stops: Collection[int]) -> Drawn:
        """Samples one reply of a rollout. All calls of a rollout use the same engine and version.

        Raises ProviderError if the engine fails.
        """
        seat = self._seat(request.key)
        with seat.replica.call() as routes:
            return routes.draw(seat.served.model, prompt, request, stops, self._patience.call_sec)

    def leave(self, keys: Iterable[str]) -> None:
        """Frees the places of the ended rollouts `keys`, so that engines take on other rollouts."""
        with self._seating:
            for key in keys:
                if seat := self._seats.pop(key, None):
                    seat.replica.seats -= 1

    def publish(self, served: Served) -> Served:
        """Makes all engines serve a policy version, and returns the version that they then serve.

        The earlier version is returned if an engine refused the new adapter. An engine that is just
        starting loads the version that is current once it is up.
        """
        with self._lock:
            if served.adapter is not None:
                served = served._replace(model=f"adapter-{next(self._numbers)}")
            if served.rank > self._rank:
                self._make_room(served)
            elif served.weights != self.served.weights:
                self._replace_weights(served)
            elif not self._add(served):
                self.unpublished += 1
                return self.served
            self.served = served
            self._drop_unused()
            return served

    @property
    def patience_sec(self) -> float:
        """Returns how many seconds one model call may take before it fails."""
        return self._patience.call_sec

    @property
    def failed(self) -> bool:
        """Returns True if an engine (vLLM server) is gone and will not be replaced."""
        return any(replica.failed for replica in self.replicas)

    @property
    def replaced(self) -> int:
        """Returns how many engines failed and were replaced so far."""
        return sum(replica.replaced for replica in self.replicas)

    def close(self) -> None:
        """Ends all engines."""
        self._each(Replica.close)

    # --- inside --------------------------------------------------------------------------------

    def _seat(self, key: str) -> _Seat:
        with self._seating:
            if key not in self._seats:
                free = min(self.replicas, key=lambda replica: (not replica.up, replica.seats))
                free.seats += 1
                self._seats[key] = _Seat(free, self.served)
            return self._seats[key]

    def _start(self, number: int) -> Started:
        weights, rank = self.served.weights, self._rank
        return Started(self._launch(number, weights, rank), weights, rank)

    def _join(self, replica: Replica, started: Started) -> None:
        with self._lock:
            if started.rank < self._rank:
                raise ProviderError(
                    f"the engine takes only adapters of a rank below {self._rank}, so another "
                    "one is started instead",
                    billed="no",
                )
            routes, served = started.engine.routes, self.served
            if started.weights != served.weights:
                routes.take_weights(served.weights, self._patience.update_sec)
            self._take_adapter(replica, routes, served)
            replica.serve(started.engine)

    def _take_adapter(self, replica: Replica, routes: Routes, served: Served) -> None:
        if served.adapter is not None:
            routes.take_adapter(served.model, served.adapter, self._patience.update_sec)
            replica.names.add(served.model)

    def _make_room(self, served: Served) -> None:
        self._rank, self.served = served.rank, served
        why = f"adapters now have rank {served.rank}, and it has room for less"
        self._each(lambda replica: replica.replace(why, lost=False))

    def _replace_weights(self, served: Served) -> None:
        self.served = served  # engines that start from now on start on it

        def take(replica: Replica) -> None:
            with replica.paused() as routes:
                if routes is None:
                    return
                try:
                    routes.take_weights(served.weights, self._patience.update_sec)
                    self._take_adapter(replica, routes, served)
                except ProviderError as error:
                    replica.replace(f"it did not load the weights {served.name}: {error}")

        self._each(take)

    def _add(self, served: Served) -> bool:
        """Loads an adapter into every engine, or into none. Returns whether it is loaded."""

        def take(replica: Replica) -> bool:
            routes = replica.routes()
            if routes is None:
                return True
            try:
                self._take_adapter(replica, routes, served)
            except ProviderError as error:
                _log.warning("engine %d did not load %s: %s", replica.number, served.name, error)
                return False
            return True

        if all(self._each(take)):
            return True
        self._each(lambda replica: self._drop(replica, served.model))
        return False

    def _drop_unused(self) -> None:
        with self._seating:
            used = {(seat.replica.number, seat.served.model) for seat in self._seats.values()}
        for replica in self.replicas:
            for name in sorted(replica.names - {self.served.model}):
                if (replica.number, name) not in used:
                    self._drop(replica, name)

    def _drop(self, replica: Replica, name: str) -> None:
        """Unloads an adapter. A failure is ignored, since a name that stays costs only memory."""
        replica.names.discard(name)
        if routes := replica.routes():
            with suppress(ProviderError):
                routes.drop_adapter(name, self._patience.update_sec)

    def _each(self, work: Callable[[Replica], T]) -> list[T]:
        """Calls a function for all engines at the same time and returns the results in order."""
        with ThreadPoolExecutor(len(self.replicas)) as pool:
            return list(pool.map(work, self.replicas))
