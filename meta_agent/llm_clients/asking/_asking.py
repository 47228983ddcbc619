"""One new exchange, asked of a provider: the only place where money is spent.

The order is: reserve, ask, record, settle. Between any two of them the process may die; `client.py`
says what each gap leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from meta_agent.core.chat import ChatReply, ChatRequest, ToolSpec
from meta_agent.core.errors import ConfigError, ProviderError
from meta_agent.core.ledger import crash_point
from meta_agent.llm_clients.asking._digest import ModelQuestion
from meta_agent.llm_clients.asking._exchange import (
    Exchange,
    FailedRequest,
    reply_from_json,
    reply_to_json,
)
from meta_agent.llm_clients.asking._meter import Meter, bound_of
from meta_agent.llm_clients.asking._roles import RoleRoutes
from meta_agent.llm_clients.asking.transcripts import Transcripts
from meta_agent.llm_clients.scrubber import Scrubber


@dataclass(frozen=True, slots=True)
class LiveModels:
    """Answers model calls by asking providers: reserves the money, retries, and records replies."""

    routes: RoleRoutes
    meter: Meter
    transcripts: Transcripts
    scrubber: Scrubber
    clock: Callable[[], float]
    """Returns the Unix time in seconds."""

    def reuse(self, recorded: Exchange) -> None:
        """Settles the cost of a recorded reply if a killed process left its reservation open."""
        self.meter.settle_recorded(recorded)

    def answer(
        self, request: ChatRequest, question: ModelQuestion, conversation: str, turn: int
    ) -> ChatReply:
        """Sends a request to the model of its role, records and pays the reply, and returns it.

        `turn` is the request's number in its conversation. Raises BudgetError if a cap leaves too
        little, and ProviderError if no complete reply comes, which is recorded too.
        """
        try:
            return self._ask(request, question, conversation, turn)
        except ProviderError as error:
            self.transcripts.append_failure(
                FailedRequest(
                    conversation, turn, question.digest, error.kind, str(error), self.clock()
                )
            )
            raise

    def close(self) -> None:
        self.routes.close()

    def _ask(
        self, request: ChatRequest, question: ModelQuestion, conversation: str, turn: int
    ) -> ChatReply:
        route = self.routes[request.role]
        # What goes out is what is recorded, under the name that the server knows.
        tools = tuple(ToolSpec(**tool) for tool in question.tools)
        sent = replace(request, model=route.sent_as, messages=question.messages, tools=tools)
        bound = bound_of(question, self.transcripts.before(conversation, turn))

        def attempt(number: int) -> tuple[ChatReply, int, int]:
            reservation = self.meter.reserve(request.role, bound, route.price)
            try:
                return route.ask(sent, conversation, turn), number, reservation
            except BaseException as error:
                self._end_unanswered(reservation, error)
                raise

        reply, attempts, reservation = route.retrying.call(attempt)
        crash_point("model:replied")
        try:
            usd = route.price.usd(reply.usage) if route.price and reply.counted else None
            # A server might have echoed a key.
            plain = reply_from_json(self.scrubber.json(reply_to_json(reply)))
            exchange = Exchange(
                conversation=conversation,
                turn=turn,
                role=request.role,
                question=question,
                reply=replace(plain, usd=usd),
                at=self.clock(),
                attempts=attempts,
                reservation=reservation,
            )
            recorded = self.transcripts.append(exchange)
            crash_point("model:recorded")
            self.meter.settle(reservation, request.role, bound, recorded.reply)
            return recorded.reply
        finally:
            self.meter.keep(reservation)  # if it was not settled, nobody waits for it any more

    def _end_unanswered(self, reservation: int, error: BaseException) -> None:
        # A script without a line for this turn is a ConfigError: nobody was asked.
        unasked = isinstance(error, ConfigError)
        if unasked or (isinstance(error, ProviderError) and error.billed == "no"):
            self.meter.release(reservation)
        else:
            self.meter.keep(reservation)
