"""One new exchange, asked of a provider: the only place where money is spent.

The order is: reserve, ask, record, settle. Between any two of them the process may die; `client.py`
says what each gap leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from meta_agent.core.chat import ChatReply, ChatRequest, ToolSpec
from meta_agent.core.errors import ConfigError, ProviderError
from meta_agent.core.ledger import crash_point
from meta_agent.llm_clients.asking._digest import Question
from meta_agent.llm_clients.asking._exchange import (
    Exchange,
    Failure,
    reply_from_json,
    reply_to_json,
)
from meta_agent.llm_clients.asking._meter import Meter, Reservation, bound_of
from meta_agent.llm_clients.asking._roles import Route, Routes
from meta_agent.llm_clients.asking._secrets import Scrubber
from meta_agent.llm_clients.asking.transcripts import Transcripts
from meta_agent.llm_clients.providers._failures import reworded


class Live:
    """Answers model calls by asking providers: reserves the money, retries, and records replies."""

    def __init__(
        self,
        routes: Routes,
        meter: Meter,
        transcripts: Transcripts,
        scrubber: Scrubber,
        clock: Callable[[], float],
    ) -> None:
        self._routes = routes
        self._meter = meter
        self._transcripts = transcripts
        self._scrubber = scrubber
        self._clock = clock

    def reuse(self, recorded: Exchange) -> None:
        """Settles the cost of a recorded reply if a killed process left its reservation open."""
        self._meter.settle_recorded(recorded)

    def answer(
        self, request: ChatRequest, question: Question, conversation: str, turn: int
    ) -> ChatReply:
        """Sends a request to the model of its role, records and pays the reply, and returns it.

        `turn` is the request's number in its conversation. Raises ProviderError, which is recorded.
        """
        try:
            return self._ask(request, question, conversation, turn)
        except ProviderError as error:
            text = self._scrubber.error(str(error))
            self._transcripts.append_failure(
                Failure(conversation, turn, question.digest, error.kind, text, self._clock())
            )
            if text == str(error):
                raise
            raise reworded(error, text) from None  # the cause would still hold the secret

    def close(self) -> None:
        self._routes.close()

    def _ask(
        self, request: ChatRequest, question: Question, conversation: str, turn: int
    ) -> ChatReply:
        route = self._routes[request.role]
        # What goes out is what is recorded, under the name that the server knows.
        tools = tuple(ToolSpec(**tool) for tool in question.tools)
        sent = replace(request, model=route.sent_as, messages=question.messages, tools=tools)
        bound = bound_of(question, self._transcripts.before(conversation, turn))
        paid: list[tuple[int, Reservation]] = []

        def attempt(number: int) -> ChatReply:
            reservation = self._meter.reserve(request.role, bound, route.price)
            try:
                reply = route.ask(sent, conversation, turn)
            except BaseException as error:
                _end_unanswered(reservation, error)
                raise
            paid.append((number, reservation))
            return reply

        reply = route.retrying.call(attempt)
        crash_point("model:replied")
        (number, reservation), *_ = paid
        try:
            exchange = Exchange(
                conversation=conversation,
                turn=turn,
                role=request.role,
                question=question,
                reply=self._priced(reply, route),
                at=self._clock(),
                attempts=number,
                reservation=reservation.number,
            )
            recorded = self._transcripts.append(exchange)
            crash_point("model:recorded")
            reservation.settle(recorded.reply)
            return recorded.reply
        finally:
            reservation.keep()  # if it was not settled, it stays reserved, and nobody waits for it

    def _priced(self, reply: ChatReply, route: Route) -> ChatReply:
        """Returns the reply with its price, and without keys, which a server might have echoed."""
        usd = route.price.usd(reply.usage) if route.price else None
        plain = reply_from_json(self._scrubber.json(reply_to_json(reply)))
        return replace(plain, usd=usd)


def _end_unanswered(reservation: Reservation, error: BaseException) -> None:
    unasked = isinstance(error, ConfigError)  # a script without a line for this turn, for example
    if unasked or (isinstance(error, ProviderError) and error.billed == "no"):
        reservation.release()
    else:
        reservation.keep()
