"""Conversations of agents with models: prompts, replies and tool calls.

An exchange shows only its new messages, so a reader sees each message once. No text is cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON
from meta_agent.reports._format import dollars, duration
from meta_agent.reports._money import total_usd
from meta_agent.reports.sections import Block, Message, Section, Words
from meta_agent.reports.terminal.paint import painted
from meta_agent.reports.terminal.text import rows_table

if TYPE_CHECKING:
    from meta_agent.llm_clients.asking.transcripts import Exchange, FailedRequest, Transcripts
    from meta_agent.reports.state import RunState


class Conversation(NamedTuple):
    """A conversation of an agent with its model: requests with replies in order, then failures."""

    name: str
    exchanges: Sequence[Exchange]
    failures: Sequence[FailedRequest] = ()

    @property
    def role(self) -> str:
        return self.exchanges[-1].role if self.exchanges else self.name.rpartition("/")[2]

    @property
    def model(self) -> str:
        return self.exchanges[-1].reply.model if self.exchanges else "no reply"

    @property
    def tokens(self) -> int:
        return sum(exchange.reply.usage.total for exchange in self.exchanges)

    @property
    def usd(self) -> float | None:
        """Returns the cost of all replies in US$; None if the price of one is unknown."""
        return total_usd(exchange.reply.usd for exchange in self.exchanges)

    def size_text(self) -> str:
        """Returns how many exchanges and tokens the conversation took and its cost, in words."""
        count = len(self.exchanges)
        plural = "" if count == 1 else "s"
        failed = f", {len(self.failures)} without a reply" if self.failures else ""
        return f"{count} exchange{plural}, {self.tokens:,} tokens, {dollars(self.usd)}{failed}"


def find(transcripts: Transcripts, state: RunState, name: str | None) -> list[Conversation]:
    """Returns the conversations of one name, candidate, generation or role (None: all agents').

    Those of the policy, one for each rollout, have to be named. Raises ConfigError without a match.
    """
    names = transcripts.conversations()
    chosen = _agents(names) if name is None else _names_meant(names, state, name)
    read = (
        Conversation(chosen_name, transcripts.read(chosen_name), transcripts.failures(chosen_name))
        for chosen_name in chosen
    )
    return [chosen_name for chosen_name in read if chosen_name.exchanges or chosen_name.failures]


def _agents(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("policy/")]


def _names_meant(every: Sequence[str], state: RunState, name: str) -> list[str]:
    """Returns the names that are `name`, or begin with it, or else end in it as a role."""
    short = name.removeprefix(f"{state.run}/").strip("/")
    for candidate in state.candidates.values():
        if candidate.answers_to(name):
            short = candidate.short_id
    chosen = [other for other in every if f"{other}/".startswith(f"{short}/")]
    chosen = chosen or [other for other in every if other.rpartition("/")[2] == short]
    if not chosen:
        some = ", ".join(_agents(every)[:12]) or "none: no model was asked in this run"
        raise ConfigError(
            f"run {state.run} has no conversation {name!r}", hint=f"name one of: {some}"
        )
    return chosen


def listing(run: str, conversations: Iterable[Conversation]) -> RenderableType:
    """Returns a table of conversations, or words that there are none."""
    rows = listing_json(run, conversations)["conversations"]
    return rows_table(rows) if rows else Text("no agent asked a model in this run")


def dialogues(conversations: Iterable[Conversation]) -> RenderableType:
    """Returns all messages of the conversations, each once."""
    return painted(Section(list(_blocks(part)), part.name) for part in conversations)


def listing_json(run: str, conversations: Iterable[Conversation]) -> dict[str, Any]:
    """Returns the document of `why --transcript --json`: one row for each conversation."""
    rows = [
        {
            "conversation": conversation.name,
            "role": conversation.role,
            "model": conversation.model,
            "exchanges": len(conversation.exchanges),
            "failures": len(conversation.failures),
            "tokens": conversation.tokens,
            "usd": conversation.usd,
        }
        for conversation in conversations
    ]
    return {"schema_version": 1, "run": run, "conversations": rows}


def dialogues_json(run: str, conversations: Iterable[Conversation]) -> dict[str, JSON]:
    """Returns the document of `why NAME --transcript --json`, without repeated messages."""
    rows = [
        {
            "conversation": conversation.name,
            "exchanges": [_exchange_json(*pair) for pair in _paired(conversation)],
            "failures": [failure.to_json() for failure in conversation.failures],
        }
        for conversation in conversations
    ]
    return {"schema_version": 1, "run": run, "conversations": rows}


def _paired(conversation: Conversation) -> Iterator[tuple[Exchange | None, Exchange]]:
    yield from zip((None, *conversation.exchanges), conversation.exchanges, strict=False)


def _repeated(before: Exchange | None, now: Exchange) -> int:
    """Returns how many messages at the start of both exchanges are the same."""
    pairs = zip(before.dialogue if before else (), now.messages, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _exchange_json(before: Exchange | None, now: Exchange) -> dict[str, JSON]:
    count, reply = _repeated(before, now), now.reply
    return {
        "turn": now.turn,
        "role": now.role,
        "at": now.at,
        "attempts": now.attempts,
        "kept_messages": count,
        "messages": [dict(message) for message in now.messages[count:]],
        "reply": {
            **reply.message,
            "stop": reply.stop,
            "model": reply.model,
            "reasoning": reply.reasoning,
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
            "usd": reply.usd,
            "seconds": reply.seconds,
        },
    }


def _blocks(conversation: Conversation) -> Iterator[Block]:
    yield Words(conversation.size_text(), "dim")
    for before, now in _paired(conversation):
        count = _repeated(before, now)
        if before is not None and count < len(before.dialogue):
            dropped = len(before.dialogue) - count
            yield Words(f"{dropped} messages were left out or replaced from here on", "dim")
        for message in now.messages[count:]:
            content = message.get("content")
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            yield Message(str(message.get("role", "?")), text)
        yield from _reply(now)
    for failure in conversation.failures:
        words = f"#{failure.turn} got no whole reply: {failure.kind}: {failure.message}"
        yield Words(words, "bad")


def _reply(now: Exchange) -> Iterator[Block]:
    reply, usage = now.reply, now.reply.usage
    tries = f", {now.attempts} attempts" if now.attempts > 1 else ""
    yield Words(
        f"{now.role} #{now.turn}  {reply.model}, {usage.input_tokens:,} tokens in, "
        f"{usage.output_tokens:,} out, {duration(reply.seconds)}, {reply.stop}{tries}",
        "strong",
    )
    if reply.reasoning:
        yield Message("thinks", reply.reasoning)
    if reply.content:
        yield Message("says", reply.content)
    for call in reply.tool_calls:
        yield Message("calls", f"{call.name} {_arguments(call.arguments)}")


def _arguments(arguments: Mapping[str, JSON]) -> str:
    """Returns short arguments on one line, and each text of several lines below its name."""
    short = {k: v for k, v in arguments.items() if not (isinstance(v, str) and "\n" in v)}
    parts = [json.dumps(short, ensure_ascii=False)] if short else []
    parts += [f"\n{k}:\n{v}" for k, v in arguments.items() if k not in short]
    return "".join(parts)
