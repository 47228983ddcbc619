"""Free running: calls are answered as they come, for slow model servers and environments.

A thread pool serves calls. Every model call, tool call, opening and grading of a rollout occupies
one thread, so at most `concurrency` are under way. At most `concurrency` rollouts are live: the
guest asks before it opens each, and may open the next when one ends. So a thousand planned rollouts
do not start a thousand containers.

A gateway with engines of the run (`PatientGateway`) may be slow. Its time does not count against
the wall limit of an attempt. It does not count against the worker's time limit either, where time
of calls that waited side by side is counted once.

The lock guards `_live`, `_queue`, `_opened`, `_busy`, `_excused_until` and `fatal`. Attempts need
no lock, since each has one call at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from meta_agent.core.capabilities import PatientGateway
from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import JSON, Answerer, Call, Gateway
from meta_agent.core.rollouts import away
from meta_agent.core.rollouts._attempt import Attempt, malformed
from meta_agent.core.rollouts._lockstep import generate

_log = logging.getLogger(__name__)


class FreeRun:
    """Answers the calls of a sandbox that runs many rollouts at once, each as it comes, in threads.

    After the sandbox has ended, `fatal` is the error to raise, or None.
    """

    def __init__(
        self,
        gateway: Gateway,
        attempts: Sequence[Attempt],
        concurrency: int,
        stopping: Callable[[], bool],
    ) -> None:
        self._gateway, self._stopping = gateway, stopping
        self._attempts = attempts
        self._limit = concurrency
        self._lock = threading.Lock()
        self._live = 0
        self._queue: deque[tuple[Call, Answerer]] = deque()
        self._opened: set[int] = set()
        self._busy: set[int] = set()
        self._patient = isinstance(gateway, PatientGateway)
        self._excused_until = 0.0  # of the monotonic clock
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="rollout")
        self.fatal: BaseException | None = None

    def drain(self, *, broken: bool) -> None:
        """Waits for the calls under way; drops calls not begun yet if the sandbox is `broken`."""
        self._pool.shutdown(wait=True, cancel_futures=broken)

    def serve(self, calls: list[Call], answer: Answerer) -> None:
        """Starts to answer calls from the sandbox, in threads, and returns. `answer` sends answers.

        Raises SandboxError if a call breaks the protocol, which ends the sandbox.
        """
        for call in calls:
            if isinstance(self.fatal, SandboxError):
                raise self.fatal
            if isinstance(call.get("kind"), away.HostCall) and self._attempts[call["cid"]].over:
                answer([{"cid": call["cid"], "ok": None}])
                continue
            self._claim(call)
            if call.get("kind") == "open":
                self._enqueue(call, answer)
            else:
                self._pool.submit(self._work, call, answer)

    def _claim(self, call: Call) -> None:
        """Checks that each rollout is opened once, and then has one call under way at a time."""
        index, opens = call["cid"], call.get("kind") == "open"
        with self._lock:
            is_free = 0 <= index < len(self._attempts) and index not in self._busy
            first_or_later = opens != (index in self._opened)
            if is_free and first_or_later and not self._attempts[index].over:
                self._opened.add(index)
                self._busy.add(index)
                return
            fault = malformed(f"rollout {index!r:.40} may not call now")
            self.fatal = self.fatal or fault
        raise fault

    def _enqueue(self, call: Call, answer: Answerer) -> None:
        with self._lock:
            if self._live >= self._limit:
                self._queue.append((call, answer))
                return
            self._live += 1
        self._pool.submit(self._work, call, answer)

    def _admit_next(self) -> None:
        with self._lock:
            self._live -= 1
            waiting = self._queue.popleft() if self._queue else None
        if waiting:
            self._enqueue(*waiting)

    def _work(self, call: Call, answer: Answerer) -> None:
        index, began = call["cid"], time.monotonic()
        attempt = self._attempts[index]
        value = self._value(attempt, call)
        excused_sec = 0.0
        with self._lock:
            self._busy.discard(index)
            if self._patient and call["kind"] == "model":
                now = time.monotonic()
                excused_sec = now - max(began, self._excused_until)
                self._excused_until = now
        if attempt.over or (value is None and self.fatal is not None):
            self._admit_next()
        if call["kind"] != "end":
            _send(answer, index, value, excused_sec)

    def _value(self, attempt: Attempt, call: Call) -> JSON:
        """Returns the answer for the guest: None, which ends rollouts, after a fatal error."""
        if self.fatal is not None:
            return None
        try:
            return self._serve_one(attempt, call)
        except BaseException as error:
            with self._lock:
                self.fatal = self.fatal or error
            return None

    def _serve_one(self, attempt: Attempt, call: Call) -> JSON:
        kind = call.get("kind")
        if kind == "open":
            return attempt.item()["tools"] if attempt.open() else None
        if kind == "model":
            return self._model(attempt, call)
        if kind == "tool":
            return attempt.use_tool(call)
        if kind == "end":
            return attempt.end(call)
        if isinstance(kind, away.HostCall):
            return away.serve(attempt, call)
        raise malformed(f"its kind {kind!r:.40} is unknown")

    def _model(self, attempt: Attempt, call: Call) -> JSON:
        request = attempt.ask(call)
        if request is None:
            return None
        began = time.monotonic()
        (reply,) = generate(self._gateway, [request], self._stopping)
        seconds = time.monotonic() - began
        if self._patient:
            attempt.excused_sec += seconds
        return attempt.take(reply, seconds)


def _send(answer: Answerer, index: int, value: JSON, excused_sec: float) -> None:
    try:
        answer([{"cid": index, "ok": value}], excused_sec=excused_sec)
    except Exception as error:
        # The worker is gone: `request` raises where it is waited for, and says why.
        _log.debug("no answer to rollout %d: %s", index, error)
