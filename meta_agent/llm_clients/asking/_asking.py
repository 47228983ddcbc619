"""One new exchange, asked of a provider: the only place where money leaves.

The order is: reserve, ask, record, settle. Between any two of them the process may die; what each
gap leaves behind is in `client.py`.
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
from meta_agent.llm_clients.asking._meter import Held, Meter, bound_of
from meta_agent.llm_clients.asking._roles import Line, Lines
from meta_agent.llm_clients.asking._secrets import Scrubber
from meta_agent.llm_clients.asking.transcripts import Transcripts


class Live:
    """Answers from providers."""

    def __init__(
        self,
        lines: Lines,
        meter: Meter,
        transcripts: Transcripts,
        scrubber: Scrubber,
        clock: Callable[[], float],
    ) -> None:
        self._lines = lines
        self._meter = meter
        self._transcripts = transcripts
        self._scrubber = scrubber
        self._clock = clock

    def known(self, recorded: Exchange) -> None:
        """A recorded exchange is used again: its payment may be left to finish."""
        self._meter.mend(recorded)

    def answer(
        self, request: ChatRequest, question: Question, conversation: str, turn: int
    ) -> ChatReply:
        """Asks, pays and records."""
        try:
            return self._ask(request, question, conversation, turn)
        except ProviderError as error:
            text = self._scrubber.error(str(error))
            self._transcripts.append_failure(
                Failure(conversation, turn, question.digest, error.kind, text, self._clock())
            )
            if text == str(error):
                raise
            raise _retold(error, text) from None  # the cause would say what was taken out

    def close(self) -> None:
        self._lines.close()

    def _ask(
        self, request: ChatRequest, question: Question, conversation: str, turn: int
    ) -> ChatReply:
        line = self._lines[request.role]
        sent = _sent(request, question, line)
        bound = bound_of(question, self._transcripts.before(conversation, turn))
        paid: list[tuple[int, Held]] = []

        def attempt(number: int) -> ChatReply:
            held = self._meter.hold(request.role, bound, line.price)
            try:
                reply = line.ask(sent, conversation, turn)
            except BaseException as error:
                _give_back(held, error)
                raise
            paid.append((number, held))
            return reply

        reply = line.retrying.call(attempt)
        crash_point("model:replied")
        (number, held), *_ = paid
        try:
            exchange = Exchange(
                conversation=conversation,
                turn=turn,
                role=request.role,
                question=question,
                reply=self._cleaned(reply, line),
                at=self._clock(),
                attempts=number,
                reservation=held.reservation,
            )
            return self._record(exchange, held)
        finally:
            held.keep()  # where it was not settled, it stays set aside, and nobody waits for it

    def _record(self, exchange: Exchange, held: Held) -> ChatReply:
        recorded = self._transcripts.append(exchange)
        crash_point("model:recorded")
        held.settle(recorded.reply)
        return recorded.reply

    def _cleaned(self, reply: ChatReply, line: Line) -> ChatReply:
        """The reply with its price, and without keys, which a server might have echoed."""
        usd = line.price.usd(reply.usage) if line.price else None
        plain = reply_from_json(self._scrubber.json(reply_to_json(reply)))
        return replace(plain, usd=usd)


def _sent(request: ChatRequest, question: Question, line: Line) -> ChatRequest:
    """What goes out is what is recorded, under the name that the server knows."""
    tools = tuple(ToolSpec(**tool) for tool in question.tools)
    return replace(request, model=line.sent_as, messages=question.messages, tools=tools)


def _give_back(held: Held, error: BaseException) -> None:
    unasked = isinstance(error, ConfigError)  # a script that ran out, say
    if unasked or (isinstance(error, ProviderError) and error.billed == "no"):
        held.release()
    else:
        held.keep()


def _retold(error: ProviderError, text: str) -> ProviderError:
    return ProviderError(
        text,
        kind=error.kind,
        retry_after_sec=error.retry_after_sec,
        billed=error.billed,
        hint=error.hint,
    )
