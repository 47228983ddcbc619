"""One recorded exchange, and the line of JSON that keeps it.

A line keeps what is new since the exchange before it. Of that one's messages with its reply at the
end, the first `base` are said again; `new` follows. Parameters and tools are kept where they
change, and the token ids of a prompt by the same rule as messages. So a dialogue of n turns takes
n replies and n additions, not n histories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from meta_agent.core.chat import ChatReply, ReplyTokens, ToolCall, Usage
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import JSON, Message, Role
from meta_agent.llm_clients.asking._digest import Question

_LEAST_LOGPROB: Final = -1e9  # JSON has no word for minus infinity


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question and its whole answer."""

    conversation: str
    turn: int
    role: Role
    question: Question
    reply: ChatReply
    at: float  # Unix time, for people
    attempts: int = 1
    reservation: int | None = None  # the ledger's: a crash before settling can be mended

    @property
    def messages(self) -> Sequence[Message]:
        """The whole list of messages that was asked with."""
        return self.question.messages

    @property
    def said(self) -> list[Message]:
        """The messages with the reply at their end: what the next question usually begins with."""
        return [*self.question.messages, self.reply.message]


@dataclass(frozen=True, slots=True)
class Failure:
    """A question that got no whole reply. A replay fails there too; a resume asks again."""

    conversation: str
    turn: int
    digest: str
    kind: str
    message: str
    at: float

    def error(self) -> ProviderError:
        """The failure as it was raised, at no cost this time."""
        return ProviderError(self.message, kind=self.kind, billed="no")

    def to_json(self) -> dict[str, JSON]:
        return {
            "turn": self.turn,
            "digest": self.digest,
            "failure": {"kind": self.kind, "message": self.message},
            "at": round(self.at, 3),
        }

    @classmethod
    def from_json(cls, line: Mapping[str, Any], conversation: str) -> Failure:
        told = line["failure"]
        return cls(
            conversation,
            int(line["turn"]),
            line["digest"],
            told["kind"],
            told["message"],
            float(line["at"]),
        )


def to_line(exchange: Exchange, before: Exchange | None) -> str:
    """One line of JSON, relative to the exchange that stands before it."""
    question = exchange.question
    messages = _plain(question.messages)
    base = _shared(before.said, messages) if before else 0
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
    """The inverse, of a parsed line. Raises ValueError, KeyError or TypeError if it is not ours."""
    said = before.said if before else []
    if not 0 <= line["base"] <= len(said):
        raise ValueError(f"it builds on {line['base']} messages, and {len(said)} are there")
    messages = [*said[: line["base"]], *line["new"]]
    parameters, tools = (_kept(line, name, before) for name in ("parameters", "tools"))
    question = Question(parameters, messages, tools)
    if question.digest != line["digest"]:
        raise ValueError(f"its digest is {line['digest']}, its content's is {question.digest}")
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


def _kept(line: Mapping[str, Any], name: str, before: Exchange | None) -> Any:
    """What the line says, or what still holds because it does not say it."""
    return line[name] if name in line or before is None else getattr(before.question, name)


def reply_to_json(reply: ChatReply, before: ChatReply | None = None) -> dict[str, JSON]:
    """A reply as records keep it; token ids of its prompt relative to the reply before."""
    value: dict[str, JSON] = {
        "content": reply.content,
        "stop": reply.stop,
        "usage": {name: count for name, count in asdict(reply.usage).items() if count},
        "model": reply.model,
        "usd": reply.usd,
        "seconds": round(reply.seconds, 3),
    }
    if reply.tool_calls:
        value["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
            for call in reply.tool_calls
        ]
    for name in ("reasoning", "provider_blocks", "fingerprint", "request_id"):
        if getattr(reply, name):
            value[name] = getattr(reply, name)
    if reply.tokens is not None:
        value["tokens"] = _tokens_to_json(reply.tokens, before.tokens if before else None)
    return value


def reply_from_json(value: Mapping[str, Any], before: ChatReply | None = None) -> ChatReply:
    """The inverse of `reply_to_json`."""
    usage = {"input_tokens": 0, "output_tokens": 0, **value["usage"]}
    return ChatReply(
        content=value["content"],
        stop=value["stop"],
        usage=Usage(**usage),
        model=value["model"],
        tool_calls=tuple(ToolCall(**call) for call in value.get("tool_calls", ())),
        usd=value["usd"],
        reasoning=value.get("reasoning", ""),
        provider_blocks=value.get("provider_blocks"),
        tokens=_tokens_from_json(value.get("tokens"), before.tokens if before else None),
        seconds=value["seconds"],
        fingerprint=value.get("fingerprint", ""),
        request_id=value.get("request_id", ""),
    )


def _tokens_to_json(tokens: ReplyTokens, before: ReplyTokens | None) -> dict[str, JSON]:
    base = _shared(_row(before), tokens.prompt_ids)
    return {
        "base": base,
        "prompt": list(tokens.prompt_ids[base:]),
        "ids": list(tokens.ids),
        "logprobs": [max(one, _LEAST_LOGPROB) for one in tokens.logprobs],
    }


def _tokens_from_json(
    value: Mapping[str, Any] | None, before: ReplyTokens | None
) -> ReplyTokens | None:
    if value is None:
        return None
    prompt = (*_row(before)[: value["base"]], *value["prompt"])
    return ReplyTokens(prompt, tuple(value["ids"]), tuple(value["logprobs"]))


def _row(tokens: ReplyTokens | None) -> tuple[int, ...]:
    return (*tokens.prompt_ids, *tokens.ids) if tokens else ()


def _shared(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many entries two sequences have in common at their start."""
    pairs = zip(before, after, strict=False)
    return next(
        (at for at, (old, new) in enumerate(pairs) if old != new), min(len(before), len(after))
    )


def json_text(value: JSON) -> str:
    """Readable, but for half a surrogate pair (models do write them), which UTF-8 cannot say."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text


def _plain(value: Any) -> Any:
    """What JSON keeps of a value, as objects of its own."""
    return json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False))
