"""One recorded exchange, and the line of JSON that holds it.

A line holds what is new since the exchange before it. The first `base` messages of that one, with
its reply at the end, are repeated, and `new` follows. Parameters and tools stand in a line if they
changed, and the token ids of a prompt follow the same rule as messages. So a dialogue of n turns
takes n replies and n additions, not n histories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

from pydantic import TypeAdapter

from meta_agent.core.chat import ChatReply, ReplyTokens
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON, Message, Role
from meta_agent.llm_clients.asking._digest import ModelQuestion

_LEAST_LOGPROB: Final = -1e9  # JSON cannot express minus infinity
_REPLY: Final = TypeAdapter(ChatReply)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn of a conversation with a model: the request and the complete reply."""

    conversation: str
    turn: int
    role: Role
    question: ModelQuestion
    reply: ChatReply
    at: float  # Unix time, for people
    attempts: int = 1
    reservation: int | None = None  # the ledger's: a crash before settling can be mended

    @property
    def messages(self) -> Sequence[Message]:
        """Returns all messages of the request."""
        return self.question.messages

    @property
    def dialogue(self) -> list[Message]:
        """Returns the request's messages with the reply at their end."""
        return [*self.question.messages, self.reply.message]


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """The record of a model request that got no complete reply.

    A replay of the run fails at this request too; a resumed run sends it again.
    """

    conversation: str
    turn: int
    digest: str
    kind: str
    message: str
    at: float

    def error(self) -> ProviderError:
        """Returns the ProviderError with which the request failed, marked as not billed."""
        return ProviderError(self.message, kind=self.kind, billed="no")

    def to_json(self) -> dict[str, JSON]:
        return {
            "turn": self.turn,
            "digest": self.digest,
            "failure": {"kind": self.kind, "message": self.message},
            "at": round(self.at, 3),
        }

    @classmethod
    def from_json(cls, line: Mapping[str, Any], conversation: str) -> FailedRequest:
        failure, turn, at = line["failure"], int(line["turn"]), float(line["at"])
        return cls(conversation, turn, line["digest"], failure["kind"], failure["message"], at)


def to_line(exchange: Exchange, before: Exchange | None) -> str:
    """Returns a turn as a JSON line without what it repeats of the earlier turn `before`."""
    question = exchange.question
    messages = _plain(question.messages)
    base = _shared(before.dialogue, messages) if before else 0
    line: dict[str, JSON] = {
        "turn": exchange.turn,
        "role": exchange.role,
        "digest": question.digest,
        "base": base,
        "new": messages[base:],
        "reply": reply_to_json(exchange.reply, before.reply if before else None),
        "at": round(exchange.at, 3),
        "attempts": exchange.attempts,
        "reservation": exchange.reservation,
    }
    for name in ("parameters", "tools"):
        value = _plain(getattr(question, name))
        if before is None or value != getattr(before.question, name):
            line[name] = value
    return json_text(line)


def from_line(line: Mapping[str, Any], conversation: str, before: Exchange | None) -> Exchange:
    """Returns the turn that a transcript line (parsed JSON) records after the turn `before`.

    Raises ValueError, KeyError or TypeError if the line has another form or digest.
    """
    dialogue = before.dialogue if before else []
    if not 0 <= line["base"] <= len(dialogue):
        raise ValueError(
            f"the line repeats {line['base']} messages, but only {len(dialogue)} precede it; "
            "restore the file"
        )
    messages = [*dialogue[: line["base"]], *line["new"]]
    parameters, tools = (
        line[name] if name in line or before is None else getattr(before.question, name)
        for name in ("parameters", "tools")
    )
    question = ModelQuestion(parameters, messages, tools)
    if question.digest != line["digest"]:
        raise ValueError(
            f"its digest is {question.digest}, not {line['digest']}: restore the changed file"
        )
    return Exchange(
        conversation,
        int(line["turn"]),
        line["role"],
        question,
        reply_from_json(line["reply"], before.reply if before else None),
        float(line["at"]),
        int(line["attempts"]),
        line["reservation"],
    )


def reply_to_json(reply: ChatReply, before: ChatReply | None = None) -> dict[str, JSON]:
    """Returns a reply as JSON, except prompt token ids that it shares with the reply `before`.

    `before` is the previous reply of the same conversation; None: all ids are written.
    """
    reply, tokens = replace(reply, seconds=round(reply.seconds, 3), tokens=None), reply.tokens
    value: dict[str, JSON] = _REPLY.dump_python(reply, exclude_defaults=True, exclude={"replayed"})
    if tokens is not None:
        base = _shared(_token_row(before), tokens.prompt_ids)
        value["tokens"] = {
            "base": base,
            "prompt": list(tokens.prompt_ids[base:]),
            "ids": list(tokens.ids),
            "logprobs": [max(logprob, _LEAST_LOGPROB) for logprob in tokens.logprobs],
        }
    return value


def reply_from_json(value: Mapping[str, Any], before: ChatReply | None = None) -> ChatReply:
    """Returns a reply from its JSON form; token ids that are left out come from `before`.

    Raises ValueError if the value is no such form.
    """
    tokens = value.get("tokens")
    reply = _REPLY.validate_python({**value, "tokens": None})
    if tokens is None:
        return reply
    prompt = (*_token_row(before)[: tokens["base"]], *tokens["prompt"])
    return replace(
        reply, tokens=ReplyTokens(prompt, tuple(tokens["ids"]), tuple(tokens["logprobs"]))
    )


def _token_row(reply: ChatReply | None) -> tuple[int, ...]:
    tokens = reply.tokens if reply else None
    return (*tokens.prompt_ids, *tokens.ids) if tokens else ()


def _shared(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Returns how many entries two sequences have in common at their start."""
    pairs = zip(before, after, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def json_text(value: JSON) -> str:
    """Returns compact JSON text, in ASCII if UTF-8 cannot encode a character of it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text


def _plain(value: Any) -> Any:
    """Returns a copy of a value as JSON holds it."""
    return json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False))
