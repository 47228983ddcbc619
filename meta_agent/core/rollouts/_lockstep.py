"""Lock-step: the deterministic way to serve many rollouts.

Tool calls are answered at once, in index order. Model calls are held until every live rollout waits
for the model. Then one `gateway.generate` call, in index order, answers them all. So the batches
that the engine receives depend only on the rollouts, never on timing.

Everything runs on the thread that reads the worker's frames, so no lock is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import itemgetter

from meta_agent.core.capabilities import StoppableGateway
from meta_agent.core.errors import InfrastructureError, Interrupted, ProviderError, SandboxError
from meta_agent.core.protocols import (
    Answer,
    Answerer,
    Call,
    Gateway,
    GenerateReply,
    GenerateRequest,
    RolloutFailure,
)
from meta_agent.core.rollouts._attempt import HALTING, Attempt, malformed
from meta_agent.core.rollouts.away import HostCall
from meta_agent.core.rollouts.away import serve as serve_away


class LockStep:
    """Answers the calls of a batch of rollouts, which wait for each other before a model call.

    After the sandbox has ended, `fatal` is the error to raise, or None.
    """

    def __init__(
        self, gateway: Gateway, attempts: Sequence[Attempt], stopping: Callable[[], bool]
    ) -> None:
        self._gateway, self._stopping = gateway, stopping
        self._attempts = attempts
        self._live = len(attempts)
        self._waiting: dict[int, GenerateRequest] = {}
        self._model_sec = 0.0  # of whole batches
        self.fatal: BaseException | None = None

    def serve(self, calls: list[Call], answer: Answerer) -> None:
        """Answers calls from the sandbox through `answer`, model calls of all rollouts together.

        An error of this process is stored in `fatal` and ends every rollout. Raises SandboxError
        if a call breaks the protocol, which ends the sandbox.
        """
        before = self._model_sec
        try:
            answers = self._answers(calls)
        except SandboxError:
            raise
        except BaseException as error:
            self.fatal = self.fatal or error
            answers = [{"cid": index, "ok": None} for index in self._unanswered(calls)]
            self._waiting.clear()
        if answers:
            answer(answers, excused_sec=self._model_sec - before)

    def drain(self, *, broken: bool) -> None:
        """Does nothing, since no call is under way once `serve` has returned."""

    def _unanswered(self, calls: list[Call]) -> list[int]:
        call_ids = {call["cid"] for call in calls if call.get("kind") != "end"}
        return sorted({*call_ids, *self._waiting})

    def _answers(self, calls: list[Call]) -> list[Answer]:
        if self.fatal is not None:
            return [{"cid": index, "ok": None} for index in self._unanswered(calls)]
        answers: list[Answer] = []
        for call in sorted(calls, key=itemgetter("cid")):
            self._serve_one(call, answers)
        if self._waiting and len(self._waiting) == self._live:
            self._generate(answers)
        return answers

    def _serve_one(self, call: Call, answers: list[Answer]) -> None:
        index, kind = call["cid"], call["kind"]
        if isinstance(kind, HostCall):
            attempt = self._attempts[index]
            was_over = attempt.over
            answers.append({"cid": index, "ok": serve_away(attempt, call)})
            self._live -= attempt.over and not was_over
            return
        attempt = self._attempt(index)
        if kind == "model":
            request = attempt.ask(call)
            if request is not None:
                self._waiting[index] = request
                return
            answers.append({"cid": index, "ok": None})
        elif kind == "tool":
            answers.append({"cid": index, "ok": attempt.use_tool(call)})
        elif kind == "end":
            attempt.end(call)
        else:
            raise malformed(f"its kind {kind!r:.40} is unknown")
        self._live -= attempt.over

    def _attempt(self, index: object) -> Attempt:
        if type(index) is int and 0 <= index < len(self._attempts) and index not in self._waiting:
            attempt = self._attempts[index]
            if not attempt.over:
                return attempt
        raise malformed(f"rollout {index!r:.40} is over, or waits for the model")

    def _generate(self, answers: list[Answer]) -> None:
        indices = sorted(self._waiting)
        requests = [self._waiting.pop(index) for index in indices]
        began = time.monotonic()
        try:
            replies = generate(self._gateway, requests, self._stopping)
        except BaseException:
            self._waiting = dict(zip(indices, requests, strict=True))
            raise
        seconds = time.monotonic() - began
        self._model_sec += seconds
        for index, reply in zip(indices, replies, strict=True):
            attempt = self._attempts[index]
            attempt.excused_sec += seconds  # of the whole batch: a slow machine is nobody's failure
            answers.append({"cid": index, "ok": attempt.take(reply, seconds)})
            self._live -= attempt.over


def generate(
    gateway: Gateway, requests: Sequence[GenerateRequest], stopping: Callable[[], bool]
) -> Sequence[GenerateReply]:
    """Returns the policy's reply to each request; if the model server fails, failed replies.

    Raises Interrupted once `stopping` returns True. Raises errors that must stop the run, such as
    BudgetError, and RuntimeError if the gateway returns another number of replies.
    """
    if stopping():
        raise Interrupted
    replies: Sequence[GenerateReply]
    try:
        if isinstance(gateway, StoppableGateway):
            replies = gateway.generate_until(requests, stopping)
        else:
            replies = gateway.generate(requests)
    except HALTING:
        raise
    except InfrastructureError as error:
        if isinstance(error, ProviderError) and error.halts:
            raise
        return [failed_reply(error)] * len(requests)
    if len(replies) != len(requests):
        raise RuntimeError(
            f"the model gateway returned {len(replies)} replies to {len(requests)} requests; it "
            "must return one for each"
        )
    return replies


def failed_reply(error: Exception) -> GenerateReply:
    """Returns a reply that says that the model server failed with `error`."""
    failure = RolloutFailure("infra", f"model: {type(error).__name__}: {error}")
    return GenerateReply("", "error", 0, 0, failure=failure)
