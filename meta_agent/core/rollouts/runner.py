"""The runner makes rollouts: it returns one row for each planned rollout, whatever happened.

Harness code runs in the sandbox and makes calls. This process, which is trusted, answers them: the
gateway generates the policy's replies, the task's environment executes tool calls, and the sealed
grader decides. Promises: rows are in plan order. Ceilings are enforced here. An infrastructure
failure is a typed row with `outcome` None, never a zero and never missing. Harness code that raises
is a failure of the policy. A budget that is exhausted, an integrity error and a bug of this package
stop the run instead.

Does not cover: rewards (the harness computes them, via `HarnessSession`), retries (the gateway's),
and a worker that died: its rows say so, and the caller opens another sandbox.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from meta_agent.core.capabilities import Capabilities, PatientGateway
from meta_agent.core.errors import GuestError, InfrastructureError, SandboxError
from meta_agent.core.protocols import (
    JSON,
    CallServer,
    Domain,
    Gateway,
    PlannedRollout,
    Rollout,
    TokenRecord,
)
from meta_agent.core.rollouts._attempt import HALTING, Attempt, AttemptTerms, Stamp
from meta_agent.core.rollouts._free import FreeRun
from meta_agent.core.rollouts._lockstep import LockStep

LOCK_STEP_BATCH: Final = 512
_log = logging.getLogger(__name__)
GRACE_SEC: Final = 60.0  # on top of an attempt's time limit, before a silent worker is given up


class AgentSession(Protocol):
    """A harness that is loaded in a sandbox and can run its agent on tasks (`items`)."""

    def rollout(
        self,
        items: Sequence[Mapping[str, JSON]],
        serve: CallServer,
        *,
        timeout_sec: float,
        ask_open: bool = False,
    ) -> None: ...


class Runner:
    """Makes rollouts of a harness and a policy on tasks.

    Args:
        domain: gives the tasks' environments, the limits and the sealed grader.
        session: the loaded harness.
        gateway: the way to the policy's model. If its `lock_step` is True, all rollouts wait for
            each other before each model call.
        stamp: the origin that each rollout stores.
        concurrency: the most rollouts at once, unless they run in lock-step.
    """

    def __init__(
        self,
        domain: Domain,
        session: AgentSession,
        gateway: Gateway,
        stamp: Stamp,
        *,
        concurrency: int = 16,
    ) -> None:
        self._domain = domain
        self._session = session
        self._gateway = gateway
        self._stamp = stamp
        self._concurrency = concurrency

    def run(
        self,
        plan: Sequence[PlannedRollout],
        *,
        temperature: float | None = None,
        top_p: float | None = None,
        batch_size: int | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> list[Rollout]:
        """Makes the planned rollouts and returns their records in the plan's order.

        A rollout that fails has a record too. `temperature` and `top_p` default to the domain's.
        `batch_size` is the most rollouts in one batch. Raises Interrupted at the first model call
        after `stopping` returns True. One thread at a time may call this.
        """
        terms = self._terms(temperature, top_p)
        attempts = [
            Attempt(terms, p, i, f"{self._stamp.run}/{p.group_id}/{p.sample_idx}/{i}")
            for i, p in enumerate(plan)
        ]
        size = batch_size or len(plan) or 1
        if batch_size is None and self._gateway.lock_step:  # all of a batch are open
            size = Capabilities.of(self._domain).open_at_once or LOCK_STEP_BATCH
        rows: list[Rollout] = []
        for start in range(0, len(attempts), size):
            rows += self._batch(attempts[start : start + size], stopping)
        return rows

    def _terms(self, temperature: float | None, top_p: float | None) -> AttemptTerms:
        sampling = self._domain.sampling
        return AttemptTerms(
            domain=self._domain,
            stamp=self._stamp,
            policy=self._gateway.policy,
            ceilings=self._domain.ceilings,
            temperature=sampling.temperature if temperature is None else temperature,
            top_p=sampling.top_p if top_p is None else top_p,
        )

    def _batch(self, attempts: Sequence[Attempt], stopping: Callable[[], bool]) -> list[Rollout]:
        try:
            roll_out = self._lock_step if self._gateway.lock_step else self._free
            roll_out(attempts, stopping)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                self._finish(attempts)
            raise
        finally:
            for attempt in attempts:
                attempt.release()
        return [a.finish(row) for a, row in zip(attempts, self._finish(attempts), strict=True)]

    def _lock_step(self, attempts: Sequence[Attempt], stopping: Callable[[], bool]) -> None:
        live = [attempt for attempt in attempts if attempt.open()]
        server = LockStep(self._gateway, live, stopping)
        self._serve(live, server, self._domain.ceilings.wall_sec + GRACE_SEC, ask_open=False)

    def _free(self, attempts: Sequence[Attempt], stopping: Callable[[], bool]) -> None:
        rounds = -(-len(attempts) // self._concurrency)
        timeout_sec = rounds * (self._domain.ceilings.wall_sec + GRACE_SEC)
        if isinstance(self._gateway, PatientGateway):
            timeout_sec += self._gateway.patience_sec
        server = FreeRun(self._gateway, attempts, self._concurrency, stopping)
        self._serve(attempts, server, timeout_sec, ask_open=True)

    def _serve(
        self,
        attempts: Sequence[Attempt],
        server: LockStep | FreeRun,
        timeout_sec: float,
        *,
        ask_open: bool,
    ) -> None:
        items = [attempt.item() for attempt in attempts]
        broken: Exception | None = None
        try:
            if items:
                self._session.rollout(
                    items, server.serve, timeout_sec=timeout_sec, ask_open=ask_open
                )
        except (SandboxError, GuestError) as error:
            broken = error
        finally:
            server.drain(broken=broken is not None)
        if server.fatal is not None and not isinstance(server.fatal, SandboxError):
            raise server.fatal
        _fail_rest(attempts, server.fatal or broken)

    def _finish(self, attempts: Sequence[Attempt]) -> Sequence[TokenRecord | None]:
        try:
            return self._gateway.finish([attempt.key for attempt in attempts])
        except HALTING:
            raise
        except InfrastructureError as error:
            _log.warning("no token rows for %d rollouts: %s", len(attempts), error)
            return [None] * len(attempts)


def _fail_rest(attempts: Sequence[Attempt], error: BaseException | None) -> None:
    """Ends every attempt that is still open, by the reason for which the worker ended."""
    for attempt in attempts:
        if isinstance(error, GuestError):
            attempt.fail("policy", f"{error}\n{error.guest_traceback}")
        elif isinstance(error, SandboxError) and error.kind == "protocol":
            attempt.fail("policy", f"the harness broke the protocol of its worker: {error}")
        elif isinstance(error, SandboxError):
            attempt.fail("infra", f"sandbox {error.kind}: {error}")
        else:
            attempt.fail("policy", "the harness's worker returned before this rollout ended")
