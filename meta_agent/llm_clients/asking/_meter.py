"""Money around one exchange: the worst case set aside before, the truth recorded after.

Promises: what is spent and what is set aside never exceed a cap together, however many threads
ask. An attempt that may have been billed keeps its reservation, one that cannot have been frees
it. While other calls are under way, a call that does not fit waits: what they do not use may make
room. Only when it waits for nobody is the cap reached, and that is a BudgetError.

The worst case counts a byte of text as a token, since no tokenizer makes more; what a conversation
has already said is counted as the provider counted it. Not covered: a provider that bills more
than it was allowed to generate; the surplus is recorded as it is, and the next call refused.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from meta_agent.core.chat import ChatReply
from meta_agent.core.errors import BudgetError
from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import JSON, Role
from meta_agent.llm_clients.asking._digest import Question, canonical
from meta_agent.llm_clients.asking._exchange import Exchange
from meta_agent.llm_clients.asking.prices import Price

# What a chat template writes around a message, and a provider around tools (Anthropic: 700).
_AROUND_MESSAGE_TOKENS: Final = 16
_AROUND_TOOLS_TOKENS: Final = 1024


@dataclass(frozen=True, slots=True)
class Bound:
    """The most tokens that one exchange can take."""

    input_tokens: int
    output_tokens: int


def bound_of(question: Question, before: Exchange | None) -> Bound:
    """The worst case of a question, given the exchange that came before it."""
    # Thinking is a part of `max_tokens` with every provider.
    return Bound(_input_tokens(question, before), int(question.parameters["max_tokens"]))


def _input_tokens(question: Question, before: Exchange | None) -> int:
    if before is None or not _goes_on(question, before):
        tools = _bytes(question.tools) + _AROUND_TOOLS_TOKENS if question.tools else 0
        return tools + sum(_message_tokens(message) for message in question.messages)
    usage, known = before.reply.usage, len(before.said)
    new = sum(_message_tokens(message) for message in question.messages[known:])
    around = _AROUND_MESSAGE_TOKENS * (1 + len(before.reply.tool_calls))
    return usage.input_tokens + usage.output_tokens + around + new


def _goes_on(question: Question, before: Exchange) -> bool:
    """The same model and tools, and everything said so far at the start of the messages."""
    same = ("model", "thinking_tokens")
    said = before.said
    return (
        all(question.parameters.get(n) == before.question.parameters.get(n) for n in same)
        and question.tools == before.question.tools
        and question.messages[: len(said)] == said
        and before.reply.usage.input_tokens > 0
    )


def _message_tokens(message: JSON) -> int:
    return _bytes(message) + _AROUND_MESSAGE_TOKENS


def _bytes(value: JSON) -> int:
    return len(canonical(value).encode("utf-8", "surrogatepass"))


class Held:
    """One reservation of a call under way. Ends once: `settle`, `release` or `keep`."""

    def __init__(self, meter: Meter, reservation: int) -> None:
        self.reservation = reservation
        self._meter = meter
        self._ended = False

    def settle(self, reply: ChatReply) -> None:
        """The call is recorded, and this is what it took."""
        try:
            self._meter.ledger.settle(self.reservation, reply.usd, reply.usage.total)
        finally:
            self.keep()

    def release(self) -> None:
        """Nothing can have been billed."""
        try:
            self._meter.ledger.release(self.reservation)
        finally:
            self.keep()

    def keep(self) -> None:
        """Leaves a reservation that is still open as it is. Does nothing after another ending."""
        if not self._ended:
            self._ended = True
            self._meter.ended()


class Meter:
    """The purse of one run. Any thread may use it."""

    def __init__(self, ledger: Ledger, run_id: str) -> None:
        self.ledger = ledger
        self._run_id = run_id
        # Guards `_under_way`: calls of this process whose reservation may yet shrink or go.
        self._changed = threading.Condition()
        self._under_way = 0
        self._cut_short = set(ledger.open_reservations(run_id))

    def hold(self, role: Role, bound: Bound, price: Price | None) -> Held:
        """Sets the worst case aside. Raises BudgetError when no call under way can make room."""
        usd = price.worst_usd(bound.input_tokens, bound.output_tokens) if price else None
        tokens = bound.input_tokens + bound.output_tokens
        with self._changed:
            while True:
                try:
                    reservation = self.ledger.reserve(role, usd, tokens, self._run_id)
                except BudgetError:
                    if not self._under_way:
                        raise
                    self._changed.wait()
                else:
                    self._under_way += 1
                    return Held(self, reservation)

    def ended(self) -> None:
        """A call under way is over: those that wait may look again."""
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def mend(self, exchange: Exchange) -> None:
        """Settles an exchange that was recorded by a process which then died."""
        with self._changed:
            if exchange.reservation not in self._cut_short:
                return
            self._cut_short.remove(exchange.reservation)
        self.ledger.settle(exchange.reservation, exchange.reply.usd, exchange.reply.usage.total)
