"""Money around one exchange: the worst case is reserved before, and the true cost settled after.

Promises: spent and reserved money together never exceed a cap, however many threads ask. An attempt
that may have been billed keeps its reservation; any other frees it. While other calls are under
way, a call that does not fit waits, since they may take less than they reserved. If it waits for
nobody, the cap is reached, and that is a BudgetError.

The worst case counts a byte of text as a token, since no tokenizer makes more. What a conversation
already holds counts as the provider counted it. A reply without token counts keeps its worst case.
Not covered: the first replies of a provider that bills more than it was allowed to generate. The
surplus is recorded as it is, and from then on set aside before each call.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from meta_agent.core.chat import ChatReply
from meta_agent.core.errors import BudgetError
from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import JSON, Role
from meta_agent.llm_clients.asking._digest import ModelQuestion, canonical
from meta_agent.llm_clients.asking._exchange import Exchange
from meta_agent.llm_clients.asking.prices import Price

# What a chat template writes around a message, and a provider around tools (Anthropic: 700).
_AROUND_MESSAGE_TOKENS: Final = 16
_AROUND_TOOLS_TOKENS: Final = 1024


@dataclass(frozen=True, slots=True)
class Bound:
    """The most input and output tokens that one model call can take."""

    input_tokens: int
    output_tokens: int


def bound_of(question: ModelQuestion, before: Exchange | None) -> Bound:
    """Returns the most input and output tokens that a request can take.

    `before` is the conversation's last turn, whose tokens the provider counted; None: no turn yet.
    """
    return Bound(_input_tokens(question, before), int(question.parameters["max_tokens"]))


def _input_tokens(question: ModelQuestion, before: Exchange | None) -> int:
    if before is None or not _continues(question, before):
        tools = _bytes(question.tools) + _AROUND_TOOLS_TOKENS if question.tools else 0
        return tools + sum(_message_tokens(message) for message in question.messages)
    usage = before.reply.usage
    new = sum(_message_tokens(message) for message in question.messages[len(before.dialogue) :])
    around = _AROUND_MESSAGE_TOKENS * (1 + len(before.reply.tool_calls))
    return usage.input_tokens + usage.output_tokens + around + new


def _continues(question: ModelQuestion, before: Exchange) -> bool:
    """Returns True if the question has the same model and tools, and begins with the dialogue."""
    same = ("model", "effort")
    dialogue = before.dialogue
    return (
        all(question.parameters.get(n) == before.question.parameters.get(n) for n in same)
        and question.tools == before.question.tools
        and question.messages[: len(dialogue)] == dialogue
        and before.reply.counted
    )


def _message_tokens(message: JSON) -> int:
    return _bytes(message) + _AROUND_MESSAGE_TOKENS


def _bytes(value: JSON) -> int:
    return len(canonical(value).encode("utf-8", "surrogatepass"))


class Meter:
    """Reserves and settles the money and tokens of one run's model calls. Any thread may use it.

    Each reservation is ended by `settle`, `release` or `keep`; a further `keep` does nothing.
    """

    def __init__(self, ledger: Ledger, run_id: str) -> None:
        self._ledger = ledger
        self._run_id = run_id
        self._changed = threading.Condition()  # guards the two sets below
        self._under_way: set[int] = set()  # reservations of this process that may still shrink
        self._cut_short = set(ledger.open_reservations(run_id))
        self._surplus: dict[Role, int] = {}  # the most output tokens beyond a limit, by role

    def reserve(self, role: Role, bound: Bound, price: Price | None) -> int:
        """Reserves the most that a call can cost, and returns the reservation's number.

        Waits while calls in progress may free money. Raises BudgetError if a cap leaves too little
        and no call is in progress.
        """
        with self._changed:
            while True:
                output_tokens = bound.output_tokens + self._surplus.get(role, 0)
                usd = price.worst_usd(bound.input_tokens, output_tokens) if price else None
                tokens = bound.input_tokens + output_tokens
                try:
                    number = self._ledger.reserve(role, usd, tokens, self._run_id)
                except BudgetError:
                    if not self._under_way:
                        raise
                    self._changed.wait()
                else:
                    self._under_way.add(number)
                    return number

    def settle(self, reservation: int, role: Role, bound: Bound, reply: ChatReply) -> None:
        """Replaces the reserved amounts by the cost and tokens of the recorded reply, if known."""
        surplus = reply.usage.output_tokens - bound.output_tokens
        with self._changed:
            self._surplus[role] = max(self._surplus.get(role, 0), surplus)
        try:
            if reply.counted:
                self._ledger.settle(reservation, reply.usd, reply.usage.total)
        finally:
            self.keep(reservation)

    def release(self, reservation: int) -> None:
        """Frees the reserved amounts of a call that cannot have been billed."""
        try:
            self._ledger.release(reservation)
        finally:
            self.keep(reservation)

    def keep(self, reservation: int) -> None:
        """Ends a reservation and leaves its amounts unchanged; wakes calls that wait for money."""
        with self._changed:
            self._under_way.discard(reservation)
            self._changed.notify_all()

    def settle_recorded(self, exchange: Exchange) -> None:
        """Settles the cost of a recorded reply if a killed process left its reservation open."""
        with self._changed:
            if exchange.reservation not in self._cut_short:
                return
            self._cut_short.remove(exchange.reservation)
        if exchange.reply.counted:
            reply = exchange.reply
            self._ledger.settle(exchange.reservation, reply.usd, reply.usage.total)
