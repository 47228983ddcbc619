"""A conversation with an `hf:` policy, which grows by messages and not by rendered text.

Promises: ids that were read or sampled stay. Only new messages are rendered: they follow a short
conversation of our own, and what the template writes after its last reply is appended. So a
template may drop old thoughts when it renders a whole conversation, and a reply that was cut short
keeps its ids. A scaffold may return a reply with or without its thought. Training and
evaluation both go through here: `RENDERING` is part of the identity of such a policy.

Not covered: a scaffold that edits, trims or reorders the past. Its conversation is rendered anew
and opens a new segment (see `_sessions`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from meta_agent.core.protocols import JSON, GenerateRequest, Message
from meta_agent.policies.engines._sessions import Extension, TokenSession
from meta_agent.policies.engines._template import ChatTemplate

RENDERING: Final = "messages-1"
"""The name of these rules. By other rules the same weights would read another conversation."""
_MARK: Final = "q8Zd3mark"  # a word that occurs in no template
_PREFIX_IDS: Final = 64  # a prompt's last ids, which hold the header of the reply
_THOUGHTS: Final = ("reasoning_content", "thinking")
Tools = Sequence[Mapping[str, JSON]] | None


class ParsedReply(NamedTuple):
    """A model's reply as the harness receives it: text and tool calls."""

    content: str
    calls: list[JSON]
    answer: str  # `content` without the thought


@dataclass(slots=True)
class Talk:
    """A rollout's conversation so far: its messages, the model's last reply, and all token ids."""

    session: TokenSession = field(default_factory=TokenSession)
    messages: list[Message] = field(default_factory=list)
    tools: list[JSON] = field(default_factory=list)  # as the policy read them
    reply: ParsedReply = field(default_factory=lambda: ParsedReply("", [], ""))
    stop: int | None = None  # the id that ended the reply; None: it was cut

    def new_messages(self, request: GenerateRequest) -> list[Message] | None:
        """Returns the request's messages after the last reply; None if earlier messages changed."""
        earlier = len(self.messages)
        messages = list(request.messages)
        begins = messages[:earlier] == self.messages and len(messages) > earlier
        same_tools = all(tool in self.tools for tool in request.tools or ())  # fewer are no news
        if not (
            self.session.ids and begins and same_tools and _is_reply(messages[earlier], self.reply)
        ):
            return None
        return messages[earlier + 1 :]

    def apply(self, request: GenerateRequest, extension: Extension) -> None:
        """Records a request's messages, and adds the prompt tokens `extension` to the token ids."""
        self.session.apply(extension)
        self.messages = list(request.messages)
        if extension.restart:
            self.tools = list(request.tools or ())


class Rendering:
    """Turns conversations into token ids by a model folder's chat template, and parses replies.

    Raises ValueError if the template cannot render a conversation.
    """

    def __init__(self, tokenizer: Any, stops: frozenset[int]) -> None:
        self._tokenizer, self.stops = tokenizer, stops
        self._template = ChatTemplate(tokenizer)
        added = tokenizer.added_tokens_decoder
        self._specials = {i for i, token in added.items() if token.special} | stops
        self._marks = [tokenizer.decode([i]) for i in sorted(self._specials)]
        self._heard: set[tuple[str, bool]] = set()

    @cached_property
    def _parser(self) -> Any:
        """The tokenizer that parses replies; made at the first reply, since TRL imports slowly."""
        return _parser_of(self._tokenizer)

    def plan(self, talk: Talk, request: GenerateRequest) -> Extension:
        """Returns the prompt tokens that a model call adds to a conversation, without adding them.

        Raises ValueError if the chat template cannot render the messages.
        """
        news = talk.new_messages(request)
        if news is None:
            text = self._template.render([_plain(m) for m in request.messages], request.tools)
            ids = self._encode(text)
            return Extension("", ids, len(ids), restart=True)
        called = talk.reply.calls[0]["function"]["name"] if talk.reply.calls else ""
        ids = self.ids_after_reply(talk.stop, called, news, request.tools)
        return Extension("", ids, len(talk.session.ids) + len(ids), restart=False)

    def ids_after_reply(
        self, stop: int | None, called: str, news: Sequence[Message], tools: Tools
    ) -> list[int]:
        """Returns ids after a reply: its turn's end, the messages `news`, the generation prompt.

        Raises ValueError if the chat template cannot write the messages after a reply.

        Args:
            stop: the id that ended the reply; None if the reply was cut at the token limit.
            called: the name of the tool that the reply called; empty if it called none.
            news: the messages that follow the reply.
            tools: the JSON schemas of the tools that the model may call.
        """
        for message in news:
            self.require(message["role"], called)
        text, closes = self._behind(called, news, tools)
        ids = self._encode(text)
        if stop is None or not ids:
            return ids
        ends_again = ids[0] == stop or (closes and ids[0] in self._specials)
        return ids[1:] if ends_again else ids

    def require(self, role: str, called: str = "") -> None:
        """Raises ValueError if the chat template cannot write a message of `role` after a reply.

        `called` is the name of the tool that the reply called; empty if it called none.
        """
        if (role, bool(called)) in self._heard:
            return
        word = _MARK[::-1]
        text, _ = self._behind(called, [{"role": role, "content": word}], None)
        if word not in text:
            raise ValueError(
                f"the chat template omits messages of the role {role!r:.40}; change the "
                "scaffold so that it sends none"
            )
        self._heard.add((role, bool(called)))

    def parse_reply(self, prompt_ids: list[int], ids: list[int], tools: Tools) -> ParsedReply:
        """Parses the sampled `ids` into text and tool calls; `prompt_ids` stand before them."""
        text_ids = ids[:-1] if ids[-1] in self.stops else ids
        text = self._tokenizer.decode(text_ids, skip_special_tokens=True)
        parsed = self._parse(prompt_ids, ids, tools)
        thought = next((str(parsed[name]) for name in _THOUGHTS if parsed.get(name)), "").strip()
        calls = [_call(len(prompt_ids), at, c) for at, c in enumerate(parsed.get("tool_calls", ()))]
        answer = str(parsed.get("content") or "").strip()
        if not thought and not calls:
            return ParsedReply(text, [], answer or text)
        cut = not answer and not calls and text_ids == ids
        closed = "" if cut else f"\n</think>\n\n{answer}"
        return ParsedReply(f"<think>\n{thought}{closed}" if thought else answer, calls, answer)

    def reply_ids(self, messages: Sequence[Message], reply: Message, tools: Tools) -> list[int]:
        """Returns the ids of a given reply as the chat template writes it, with its stop token.

        Raises ValueError if the template changes the text before the reply or omits a stop token.
        """
        plain = [_plain(message) for message in messages]
        head = self._template.render(plain, tools)
        whole = self._template.render([*plain, _plain(reply)], tools, prompt=False)
        ids = self._encode(whole.removeprefix(head))
        ends = [at for at, token in enumerate(ids) if token in self.stops]
        if not (whole.startswith(head) and ends):
            raise ValueError(
                "the chat template changes the text before a reply, or ends the reply with no stop "
                "token; use another chat template"
            )
        return ids[: ends[0] + 1]

    def _behind(self, called: str, news: Sequence[Message], tools: Tools) -> tuple[str, bool]:
        """Returns what the template writes after a reply, and whether a token ends its turn."""
        reply: Message = {"role": "assistant", "content": "" if called else _MARK}
        if called:
            function = {"name": called, "arguments": {_MARK: _MARK}}
            reply["tool_calls"] = [{"id": _MARK, "type": "function", "function": function}]
        talk = [{"role": "user", "content": "-"}, reply]
        alone = self._template.render(talk, tools, prompt=False).split(_MARK)
        grown = self._template.render([*talk, *map(_plain, news)], tools).split(_MARK)
        if len(alone) < 2 or len(grown) < len(alone):
            raise ValueError(
                "the chat template omits the assistant's earlier messages; use a model "
                "whose template keeps them"
            )
        tail, rest = alone[-1], _MARK.join(grown[len(alone) - 1 :])
        at = min((tail.find(mark) for mark in self._marks if mark in tail), default=len(tail))
        if not rest.startswith(tail[:at]):
            raise ValueError(
                "the chat template renders a reply differently once messages follow it; "
                "use another chat template"
            )
        return rest[at:], at < len(tail)

    def _parse(self, prompt_ids: list[int], ids: list[int], tools: Tools) -> dict[str, JSON]:
        if self._parser is None:
            return {}
        from trl.chat_template_utils import parse_response

        plain_tools = [dict(tool) for tool in tools or ()]
        head = prompt_ids[-_PREFIX_IDS:]
        parsed: dict[str, JSON] = parse_response(self._parser, ids, prefix=head, tools=plain_tools)
        return parsed

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def _parser_of(tokenizer: Any) -> Any:
    """Returns a tokenizer that parses replies by TRL's patterns; None for an unknown template.

    It is a copy, because a checkpoint saves what is set on a tokenizer. Patterns from the model's
    folder are not used, for they are a stranger's code.
    """
    try:
        from trl.chat_template_utils import add_response_schema

        return add_response_schema(copy.copy(tokenizer))
    except (ImportError, ValueError):
        return None


def _plain(message: Message) -> Message:
    """Returns a message as templates expect it: text, and arguments of calls as an object."""
    plain: Message = {**message, "content": message.get("content") or ""}
    if calls := message.get("tool_calls"):
        plain["tool_calls"] = [_with_object(call) for call in calls]
    return plain


def _with_object(call: JSON) -> JSON:
    function = dict(call["function"])
    if isinstance(arguments := function.get("arguments"), str):
        try:
            function["arguments"] = json.loads(arguments)
        except ValueError:
            function["arguments"] = {"arguments": arguments}
    return {**call, "function": function}


def _call(place: int, at: int, parsed: JSON) -> JSON:
    """Returns a parsed call in the form of servers; `place` makes its id unique."""
    function = parsed.get("function", parsed)
    call = {"name": function["name"], "arguments": json.dumps(function["arguments"])}
    return {"id": f"call_{place}_{at}", "type": "function", "function": call}


def _is_reply(message: Message, reply: ParsedReply) -> bool:
    """Returns True if a scaffold's message is this reply; an empty reply may get any text."""
    if message.get("role") != "assistant" or list(message.get("tool_calls") or ()) != reply.calls:
        return False
    content = str(message.get("content") or "").strip()
    return not reply.answer.strip() or content in (reply.content.strip(), reply.answer.strip())
