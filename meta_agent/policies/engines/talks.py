"""Conversations in progress: the tokens that an engine reads for a call, and the parsed reply.

An engine reads `Asked.ids` and samples up to `Asked.budget` tokens. Its tokens are added here, and
`finish` returns the token row of the whole rollout. The engines of the policy child and the vLLM
servers of this project (`fleet`) share this code, so that their rows are alike. It needs no torch.
Not covered: sampling, and the order in which calls come. A rollout has one call in progress at a
time; different rollouts may call from any thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from meta_agent.core.protocols import (
    JSON,
    GenerateReply,
    GenerateRequest,
    Message,
    RolloutFailure,
    TokenRecord,
)
from meta_agent.policies.engines import nano_tokenizer as nano
from meta_agent.policies.engines._sessions import TokenSession
from meta_agent.policies.engines.conversation import Rendering, Talk

_IMITATED: Final = "imitated"
"""The key of the conversation that `imitated` writes."""


class Asked(NamedTuple):
    """The context (token ids) that an engine reads for one call, and the most tokens to sample."""

    ids: list[int]  # the whole context of the call
    budget: int  # the most tokens to sample


class Talks(Protocol):
    """Builds the prompts and parses the replies of all rollouts in progress with one policy."""

    stops: frozenset[int]
    """The token ids that end a reply."""

    def ask(self, request: GenerateRequest) -> Asked | GenerateReply:
        """Returns a context to sample from; an empty reply if messages are too long or invalid."""
        ...

    def settle(
        self, request: GenerateRequest, ids: list[int], logprobs: Sequence[float | None]
    ) -> GenerateReply:
        """Adds sampled token ids to the conversation, and returns them as a parsed reply.

        The reply has no stop token; `ids` may end with one.
        """
        ...

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        """Ends the rollouts `keys`; returns each one's tokens, or None if none were sampled."""
        ...


class Imitates(Talks, Protocol):
    """Conversations that can also give the token ids of a reply that the policy did not write."""

    def reply_ids(self, request: GenerateRequest, reply: Message) -> list[int]:
        """Returns a given reply's token ids. Raises ValueError if they would have no stop token."""
        ...


def imitated(
    talks: Imitates,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, JSON]] | None = None,
    prompt_messages: int = 0,
) -> TokenRecord | None:
    """Returns the tokens of a conversation as if the policy had sampled the replies in it.

    The first `prompt_messages` messages are the prompt, replies included. What exceeds the context
    is left out. Returns None if no reply fits. Raises ValueError if a reply cannot be tokenized.
    """
    context: list[Message] = []
    try:
        for at, message in enumerate(messages):
            if message["role"] == "assistant" and at >= prompt_messages:
                reply = _written(talks, context, message, tools)
                if reply is None:
                    break
                calls = {"tool_calls": list(reply.tool_calls)} if reply.tool_calls else {}
                message = {"role": "assistant", "content": reply.content, **calls}
            context.append(message)
    finally:
        record = talks.finish([_IMITATED])[0]
    return record


def _written(
    talks: Imitates,
    context: list[Message],
    message: Message,
    tools: Sequence[Mapping[str, JSON]] | None,
) -> GenerateReply | None:
    """Makes the policy write a message after this context. Returns None if it does not fit."""
    request = GenerateRequest(
        _IMITATED, "", 0, 0, 0, list(context), max_tokens=1 << 30, temperature=1.0, tools=tools
    )
    prompt = talks.ask(request)
    if isinstance(prompt, GenerateReply):
        return None
    ids = talks.reply_ids(request, message)
    return None if len(ids) > prompt.budget else talks.settle(request, ids, [None] * len(ids))


class NanoTalks:
    """Renders prompts and reads replies of nano policies: a line a message, a token a character."""

    stops = frozenset({nano.EOS_ID})

    def __init__(self, window: int) -> None:
        self._window = window
        self.sessions: dict[str, TokenSession] = {}

    def ask(self, request: GenerateRequest) -> Asked | GenerateReply:
        session = self.sessions.setdefault(request.key, TokenSession())
        extension = session.plan(nano.render(request.messages), nano.encode)
        budget = _budget(request, self._window, extension.total)
        if budget <= 0:
            return _no_room(session)
        session.apply(extension)
        return Asked(session.ids, budget)

    def settle(
        self, request: GenerateRequest, ids: list[int], logprobs: Sequence[float | None]
    ) -> GenerateReply:
        session = self.sessions[request.key]
        read, text = len(session.ids), nano.decode(ids)
        session.add_sampled(ids, logprobs, text)
        if ids[-1] == nano.EOS_ID:
            return GenerateReply(text[:-1], "stop", read, len(ids))
        return GenerateReply(text, "length", read, len(ids))

    def reply_ids(self, request: GenerateRequest, reply: Message) -> list[int]:
        return nano.encode(nano.render([reply]))

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        sessions = [self.sessions.pop(key, None) for key in keys]
        return [session.record() if session else None for session in sessions]


class HfTalks:
    """Prompts and replies of a model with a chat template; a call renders only new messages."""

    def __init__(self, rendering: Rendering, window: int) -> None:
        self.stops = rendering.stops
        self._rendering, self._window = rendering, window
        self._talks: dict[str, Talk] = {}

    def ask(self, request: GenerateRequest) -> Asked | GenerateReply:
        talk = self._talks.setdefault(request.key, Talk())
        try:
            extension = self._rendering.plan(talk, request)
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # messages of strangers
            failure = RolloutFailure(
                "policy", f"the harness's model call cannot be used: {error!r}"
            )
            return GenerateReply("", "error", 0, 0, failure=failure)
        budget = _budget(request, self._window, extension.total)
        if budget <= 0:
            return _no_room(talk.session)
        talk.apply(request, extension)
        return Asked(talk.session.ids, budget)

    def settle(
        self, request: GenerateRequest, ids: list[int], logprobs: Sequence[float | None]
    ) -> GenerateReply:
        talk = self._talks[request.key]
        read = len(talk.session.ids)
        talk.reply = self._rendering.parse_reply(talk.session.ids, ids, request.tools)
        talk.session.add_sampled(ids, logprobs, "")
        talk.stop = ids[-1] if ids[-1] in self.stops else None
        reason = "length" if talk.stop is None else "tool_calls" if talk.reply.calls else "stop"
        return GenerateReply(talk.reply.content, reason, read, len(ids), talk.reply.calls)

    def reply_ids(self, request: GenerateRequest, reply: Message) -> list[int]:
        return self._rendering.reply_ids(request.messages, reply, request.tools)

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        talks = [self._talks.pop(key, None) for key in keys]
        return [talk.session.record() if talk else None for talk in talks]


def server_seed(request: GenerateRequest) -> int:
    """Returns a model call's seed for a server: a hash of its seed, task, attempt and turn."""
    name = f"{request.seed}/{request.task_key}/{request.sample_idx}/{request.turn}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> 1


def _budget(request: GenerateRequest, window: int, read: int) -> int:
    return min(request.max_tokens, min(request.max_context_tokens, window) - read)


def _no_room(session: TokenSession) -> GenerateReply:
    return GenerateReply("", "context", prompt_tokens=len(session.ids), completion_tokens=0)
