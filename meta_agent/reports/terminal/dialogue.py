"""Conversations with models, for reading: what an agent was told, what it said, what it did.

Only what is new in an exchange is shown, so a dialogue reads once through. Long outputs are folded
in the middle unless everything is asked for; what the model itself said never is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Message
from meta_agent.reports._format import dollars, duration, visible
from meta_agent.reports.terminal.paint import listed

if TYPE_CHECKING:
    from meta_agent.llm_clients.asking.transcripts import Exchange, Failure, Transcripts
    from meta_agent.reports.state import RunState

_HEAD_LINES: Final = 12
_TAIL_LINES: Final = 4
_LONGEST_LINE: Final = 600
_STYLES: Final = {"system": "dim", "user": "cyan", "assistant": "bold", "tool": "green"}


class Conversation(NamedTuple):
    """One dialogue with its exchanges in order."""

    name: str
    exchanges: Sequence[Exchange]
    failures: Sequence[Failure] = ()

    @property
    def role(self) -> str:
        return self.exchanges[-1].role if self.exchanges else self.name.rpartition("/")[2]

    @property
    def model(self) -> str:
        return self.exchanges[-1].reply.model if self.exchanges else "no reply"

    @property
    def tokens(self) -> int:
        return sum(one.reply.usage.total for one in self.exchanges)

    @property
    def usd(self) -> float | None:
        """None as soon as one reply had no known price."""
        amounts = [one.reply.usd for one in self.exchanges]
        known = [amount for amount in amounts if amount is not None]
        return sum(known) if len(known) == len(amounts) else None

    def told(self) -> str:
        """Its size in words."""
        count = len(self.exchanges)
        plural = "" if count == 1 else "s"
        failed = f", {len(self.failures)} without a reply" if self.failures else ""
        return f"{count} exchange{plural}, {self.tokens:,} tokens, {dollars(self.usd)}{failed}"


def find(transcripts: Transcripts, state: RunState, name: str | None) -> list[Conversation]:
    """The conversations that a person who typed `name` means; without one, all of the agents'.

    A policy has one conversation per rollout: only a name brings those up.
    """
    known = transcripts.conversations()
    chosen = _agents(known) if name is None else _named(known, state, name)
    read = (Conversation(one, transcripts.read(one), transcripts.failures(one)) for one in chosen)
    return [one for one in read if one.exchanges or one.failures]


def _agents(known: Iterable[str]) -> list[str]:
    return [one for one in known if not one.startswith("policy/")]


def _named(known: Sequence[str], state: RunState, name: str) -> list[str]:
    """By its own name, by what it begins with (a candidate, a generation), or by its role."""
    short = name.removeprefix(f"{state.run}/").strip("/")
    for one in state.candidates.values():
        if one.answers_to(name):
            short = one.short_id
    found = [one for one in known if one == short or one.startswith(f"{short}/")]
    found = found or [one for one in known if one.rpartition("/")[2] == short]
    if not found:
        some = ", ".join(_agents(known)[:12]) or "none: no model was asked in this run"
        raise ConfigError(
            f"no conversation of run {state.run} is called {name!r}", hint=f"there are: {some}"
        )
    return found


def listing(conversations: Iterable[Conversation]) -> RenderableType:
    """One row per conversation."""
    if not (rows := list(conversations)):
        return Text("no agent asked a model in this run")
    cells = ((one.name, one.role, one.model, one.told()) for one in rows)
    return listed(("conversation", "role", "model", "size"), (map(visible, row) for row in cells))


def dialogues(conversations: Iterable[Conversation], *, full: bool) -> RenderableType:
    """The conversations from beginning to end."""
    return Group(*(part for one in conversations for part in _dialogue(one, full)))


def listing_json(run: str, conversations: Iterable[Conversation]) -> dict[str, JSON]:
    """`transcript --json` without a name."""
    rows = [
        {
            "conversation": one.name,
            "role": one.role,
            "model": one.model,
            "exchanges": len(one.exchanges),
            "failures": len(one.failures),
            "tokens": one.tokens,
            "usd": one.usd,
        }
        for one in conversations
    ]
    return {"schema_version": 1, "run": run, "conversations": rows}


def dialogues_json(run: str, conversations: Iterable[Conversation]) -> dict[str, JSON]:
    """`transcript NAME --json`: everything, each message once."""
    told = [
        {
            "conversation": one.name,
            "exchanges": [_exchange_json(*pair) for pair in _paired(one)],
            "failures": [failure.to_json() for failure in one.failures],
        }
        for one in conversations
    ]
    return {"schema_version": 1, "run": run, "conversations": told}


def _paired(one: Conversation) -> Iterator[tuple[Exchange | None, Exchange]]:
    yield from zip((None, *one.exchanges), one.exchanges, strict=False)


def _kept(before: Exchange | None, now: Exchange) -> int:
    """How many messages were said before: the same from the start of both."""
    pairs = zip(before.dialogue if before else (), now.messages, strict=False)
    count = 0
    for old, new in pairs:
        if old != new:
            break
        count += 1
    return count


def _exchange_json(before: Exchange | None, now: Exchange) -> dict[str, JSON]:
    kept, reply = _kept(before, now), now.reply
    return {
        "turn": now.turn,
        "role": now.role,
        "at": now.at,
        "attempts": now.attempts,
        "kept_messages": kept,
        "messages": [dict(message) for message in now.messages[kept:]],
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


def _dialogue(one: Conversation, full: bool) -> Iterator[RenderableType]:
    yield Rule(Text(visible(one.name), style="bold"))
    yield Text(one.told(), style="dim")
    for before, now in _paired(one):
        kept = _kept(before, now)
        if before is not None and kept < len(before.dialogue):
            dropped = len(before.dialogue) - kept
            yield Text(
                f"— {dropped} messages were left out or replaced from here on —", style="dim"
            )
        for message in now.messages[kept:]:
            yield from _message(message, full)
        yield from _reply(now, full)
    for failure in one.failures:
        told = f"#{failure.turn} got no whole reply: {failure.kind}: {failure.message}"
        yield Text(visible(told), style="red")


def _message(message: Message, full: bool) -> Iterator[RenderableType]:
    role = str(message.get("role", "?"))
    yield Text(visible(role), style=_STYLES.get(role, ""))
    yield _indented(_folded(_words(message.get("content")), full))


def _reply(now: Exchange, full: bool) -> Iterator[RenderableType]:
    reply = now.reply
    facts = (
        f"{reply.model}, {reply.usage.input_tokens:,} tokens in, {reply.usage.output_tokens:,} out"
    )
    tries = f", {now.attempts} attempts" if now.attempts > 1 else ""
    head = Text.assemble(
        (f"{now.role} #{now.turn}", "bold magenta"),
        (visible(f"  {facts}, {duration(reply.seconds)}, {reply.stop}{tries}"), "dim"),
    )
    yield head
    if reply.reasoning:
        yield _indented(_folded(reply.reasoning, full), style="dim italic")
    if reply.content:
        yield _indented(reply.content)
    for call in reply.tool_calls:
        yield _indented(
            _folded(f"→ {call.name} {_arguments(call.arguments)}", full), style="yellow"
        )


def _arguments(arguments: Mapping[str, JSON]) -> str:
    """Short ones on the line; a text of several lines as a reader of code wants it."""
    short = {k: v for k, v in arguments.items() if not (isinstance(v, str) and "\n" in v)}
    parts = [json.dumps(short, ensure_ascii=False)] if short else []
    parts += [f"\n{k}:\n{v}" for k, v in arguments.items() if k not in short]
    return "".join(parts)


def _words(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _folded(text: str, full: bool) -> str:
    """The beginning and the end; the middle counted."""
    if full:
        return text
    lines = [_cut(line) for line in text.splitlines()]
    hidden = len(lines) - _HEAD_LINES - _TAIL_LINES
    if hidden < 3:  # folding one or two lines would save nothing
        return "\n".join(lines)
    told = f"… {hidden} lines folded (--full shows them) …"
    return "\n".join([*lines[:_HEAD_LINES], told, *lines[-_TAIL_LINES:]])


def _cut(line: str) -> str:
    """A line that a screen can bear."""
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[:_LONGEST_LINE]}… {len(line) - _LONGEST_LINE} characters folded"


def _indented(text: str, style: str = "") -> RenderableType:
    return Padding(Text(visible(text), style=style), (0, 0, 0, 2))
