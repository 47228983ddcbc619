"""A frozen model behind a server, as the policy: the `Gateway` that asks a `ModelClient`.

Promises: every call has a place in the record, `policy/<label>/<task>/<sample>`, so repeating a
killed evaluation pays only for calls without a record. Seeds are keyed by (seed, task, sample,
turn), never by arrival. A server's trouble is a failure of kind `infra`, the scaffold's own mistake
one of kind `policy`. An error that dooms every further call (key, budget, breaker) is raised. A
model's refusal is a reply: the scaffold reads it, and the grader decides.
`max_context_tokens` is held by an estimate. Before the first reply four characters count as a
token, later as many as that reply's prompt had.
Not covered: retries, money and the record itself (the client's).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from meta_agent.core.chat import REFUSED, ChatReply, ChatRequest, Effort, ModelClient, ReplyTokens
from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import (
    JSON,
    ErrorKind,
    GenerateReply,
    GenerateRequest,
    Message,
    RolloutFailure,
    TokenRecord,
)
from meta_agent.policies.engines._sessions import Extension, TokenSession
from meta_agent.policies.engines.talks import server_seed
from meta_agent.policies.served._spoken import SpokenError, messages_of, tools_of
from meta_agent.policies.served.dialect import Dialect

CHARS_PER_TOKEN: Final = 4.0
_MAX_THREADS: Final = 32


class ApiGateway:
    """Asks a frozen model for the replies of rollouts, and records the calls under a label.

    Args:
        client: sends, records and pays the requests.
        model: the model string that the client resolves.
        label: where calls are recorded; a measurement with the same label reuses their replies.
        policy: the name of the policy in rollouts; by default the model string.
        logprobs: whether to ask for token ids and log-probabilities.
        effort: the reasoning effort to ask for; None: the model's own.
        dialect: which parts of a request the server refuses.
    """

    lock_step = False

    def __init__(
        self,
        client: ModelClient,
        model: str,
        *,
        label: str,
        policy: str | None = None,
        logprobs: bool = False,
        effort: Effort | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        self.policy = policy or model
        self._client = client
        self._model = model
        self._label = label
        self._logprobs, self._effort, self._dialect = logprobs, effort, dialect or Dialect()
        self._rows = TokenRows()
        self.served: set[str] = set()
        """Every name of the model that the server sent, with its fingerprint."""
        self._lock = threading.Lock()  # guards that and the two below
        self._density: dict[str, float] = {}  # characters per token, by rollout
        self._blocks: dict[str, dict[str, JSON]] = {}  # provider blocks, by rollout and reply

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        """Returns one reply for each request, in order; a failed call gives a failed reply.

        Raises ProviderError if all further calls would fail too, as with a wrong key.
        """
        if len(requests) == 1:
            return [self._answer(requests[0])]
        with ThreadPoolExecutor(min(_MAX_THREADS, len(requests) or 1)) as pool:
            return list(pool.map(self._answer, requests))

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        """Ends the rollouts `keys`; returns each one's tokens, or None if the server sent none."""
        with self._lock:
            for key in keys:
                self._density.pop(key, None)
                self._blocks.pop(key, None)
        return [self._rows.finish(key) for key in keys]

    def _answer(self, request: GenerateRequest) -> GenerateReply:
        try:
            question = self._chat_request(request)
        except SpokenError as error:
            return _failed("policy", f"the scaffold's call cannot be sent: {error}")
        if self._too_long(request, question):
            return _ended("context")
        conversation = f"policy/{self._label}/{request.task_key}/{request.sample_idx}"
        try:
            reply = self._client.chat(question, conversation=conversation, turn=request.turn)
        except ProviderError as error:
            return _outcome_of(error)
        self._note(request, question, reply)
        return _reply(reply)

    def _chat_request(self, request: GenerateRequest) -> ChatRequest:
        """Returns the question to the model. Raises SpokenError if the scaffold sent none."""
        question = ChatRequest(
            role="policy",
            model=self._model,
            messages=self._with_blocks(request.key, messages_of(request.messages)),
            max_tokens=request.max_tokens,
            tools=tools_of(request.tools),
            temperature=request.temperature,
            # Some servers take one of the two; 1 means the whole distribution anyway.
            top_p=None if request.top_p == 1.0 else request.top_p,
            seed=server_seed(request),
            logprobs=self._logprobs,
            effort=self._effort,
            lenient_tools=True,
        )
        return self._dialect.adapt(question)

    def _too_long(self, request: GenerateRequest, question: ChatRequest) -> bool:
        with self._lock:
            density = self._density.get(request.key, CHARS_PER_TOKEN)
        return _size(question) / density >= request.max_context_tokens

    def _note(self, request: GenerateRequest, question: ChatRequest, reply: ChatReply) -> None:
        """Stores what later calls of the rollout need."""
        self._rows.add(request.key, reply.tokens)
        with self._lock:
            self.served.add(" ".join(filter(None, (reply.model, reply.fingerprint))))
            if reply.usage.input_tokens:
                self._density[request.key] = _size(question) / reply.usage.input_tokens
            if reply.provider_blocks is not None:
                blocks = self._blocks.setdefault(request.key, {})
                blocks[_reply_key(reply.message)] = reply.provider_blocks

    def _with_blocks(self, key: str, messages: list[Message]) -> list[Message]:
        """Puts a provider's own blocks back into the messages; scaffolds do not see them."""
        with self._lock:
            blocks_of = dict(self._blocks.get(key, {}))
        for message in messages if blocks_of else ():
            if message["role"] == "assistant" and (blocks := blocks_of.get(_reply_key(message))):
                message["provider_blocks"] = blocks
        return messages


def _size(question: ChatRequest) -> int:
    """Returns how many characters the model reads, at least 1."""
    texts = sum(len(message["content"]) for message in question.messages)
    called = sum(len(str(message.get("tool_calls", ""))) for message in question.messages)
    return texts + called + sum(len(str(tool)) for tool in question.tools) or 1


def _reply_key(message: Message) -> str:
    """Returns a key for an assistant's message, as a scaffold sends it back."""
    calls = [call["id"] for call in message.get("tool_calls", ())]
    return "\0".join([message["content"].strip(), *calls])


def _reply(reply: ChatReply) -> GenerateReply:
    return GenerateReply(
        content=reply.content,
        finish_reason="stop" if reply.stop == "refusal" else reply.stop,
        prompt_tokens=reply.usage.input_tokens,
        completion_tokens=reply.usage.output_tokens,
        tool_calls=reply.message.get("tool_calls", ()),
        usd=reply.usd,
    )


def _outcome_of(error: ProviderError) -> GenerateReply:
    """Returns the reply that records a failed call. Raises the error if it dooms the whole run."""
    if error.halts:
        raise error
    if error.kind == "context":
        return _ended("context")
    if error.kind == "refused":
        return _failed("policy", f"{REFUSED}: {error}")
    return _failed("infra", f"model: {error.kind}: {error}")


def _ended(reason: str) -> GenerateReply:
    return GenerateReply("", reason, 0, 0)


def _failed(kind: ErrorKind, detail: str) -> GenerateReply:
    return GenerateReply("", "error", 0, 0, failure=RolloutFailure(kind, detail))


class TokenRows:
    """Collects the tokens (ids, mask, log-probabilities) of all rollouts in progress.

    If a call's prompt begins with the rollout's tokens so far, the call extends them. Otherwise
    they begin anew with that call. A rollout with a call without token ids ends without tokens.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the two below
        self._rows: dict[str, TokenSession] = {}
        self._unknown: set[str] = set()

    def add(self, key: str, tokens: ReplyTokens | None) -> None:
        """Adds a reply's tokens to the rollout `key`; None makes the rollout end without tokens."""
        with self._lock:
            if tokens is None:
                self._unknown.add(key)
            elif key not in self._unknown:
                _extend(self._rows.setdefault(key, TokenSession()), tokens)

    def finish(self, key: str) -> TokenRecord | None:
        """Ends a rollout; returns its tokens, or None if any reply came without token ids."""
        with self._lock:
            session = self._rows.pop(key, None)
            complete = key not in self._unknown
            self._unknown.discard(key)
        return session.record() if session and complete else None


def _extend(session: TokenSession, tokens: ReplyTokens) -> None:
    prompt, length = list(tokens.prompt_ids), len(session.ids)
    restart = not session.ids or prompt[:length] != session.ids
    new = prompt if restart else prompt[length:]
    session.apply(Extension("", new, len(prompt), restart))
    session.add_sampled(list(tokens.ids), list(tokens.logprobs), "")
