"""A frozen model as the policy: what a scaffold's call becomes, and what a reply means."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from meta_agent.core.chat import REFUSED, ChatReply, ChatRequest, ReplyTokens, ToolCall, Usage
from meta_agent.core.errors import BudgetError, ProviderError
from meta_agent.core.protocols import GenerateReply, GenerateRequest, Message
from meta_agent.llm_clients.asking._digest import parameters
from meta_agent.policies.served.api_gateway import ApiGateway
from meta_agent.policies.served.dialect import dialect_of

TOOLS = [{"type": "function", "function": {"name": "view", "parameters": {"type": "object"}}}]
DEEP: dict[str, Any] = {}
for _ in range(200):
    DEEP = {"properties": {"x": DEEP}}
Answer = Callable[[ChatRequest, int], "ChatReply | Exception"]


def said(text: str = "ok", **changes: Any) -> ChatReply:
    return replace(ChatReply(text, "stop", Usage(10, 3), "m", usd=0.5), **changes)


@dataclass
class Asked:
    """A `ModelClient` that answers from a function and keeps what it was asked."""

    answer: Answer = lambda _request, _turn: said()
    requests: list[ChatRequest] = field(default_factory=list)
    places: list[tuple[str, int]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def chat(self, request: ChatRequest, *, conversation: str, turn: int) -> ChatReply:
        with self.lock:
            self.requests.append(request)
            self.places.append((conversation, turn))
        reply = self.answer(request, turn)
        if isinstance(reply, Exception):
            raise reply
        return reply


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def call(turn: int = 0, **changes: Any) -> GenerateRequest:
    facts: dict[str, Any] = {
        "key": "r/g/0/0",
        "task_key": "task-1",
        "sample_idx": 2,
        "seed": 7,
        "turn": turn,
        "messages": [user("repair it")],
        "max_tokens": 100,
        "temperature": 0.7,
    }
    return GenerateRequest(**{**facts, **changes})


def ask(client: Asked, *requests: GenerateRequest, **options: Any) -> list[GenerateReply]:
    gateway = ApiGateway(client, "openai/m", label="abc-search", **options)
    return [gateway.generate([request])[0] for request in requests or (call(),)]


def failing(kind: str, text: str = "no") -> Answer:
    return lambda _request, _turn: ProviderError(text, kind=kind)


def test_a_call_has_its_place_in_the_record_and_its_own_seed() -> None:
    client = Asked()
    ask(client, call(0), call(1), call(0, sample_idx=3))
    assert client.places == [
        ("policy/abc-search/task-1/2", 0),
        ("policy/abc-search/task-1/2", 1),
        ("policy/abc-search/task-1/3", 0),
    ]
    seeds = [request.seed for request in client.requests]
    assert len(set(seeds)) == 3 and all(0 <= seed < 2**31 for seed in seeds if seed is not None)
    again = Asked()
    ask(again, call(0))
    assert again.requests[0] == client.requests[0]
    assert client.requests[0].role == "policy" and client.requests[0].lenient_tools


def test_the_effort_of_the_run_is_part_of_every_question() -> None:
    client = Asked()
    ask(client, call(0), effort="high")
    assert client.requests[0].effort == "high"
    assert parameters(client.requests[0])["effort"] == "high"


def test_what_the_server_calls_the_model_is_kept_with_its_fingerprint() -> None:
    replies = [said(), said(fingerprint="fp_1"), said(model="m-2", fingerprint="fp_2")]
    gateway = ApiGateway(Asked(lambda _request, turn: replies[turn]), "openai/m", label="x")
    for turn in range(3):
        gateway.generate([call(turn)])
    assert gateway.served == {"m", "m fp_1", "m-2 fp_2"}


def test_tool_calls_come_back_in_openai_form_with_tokens_and_price() -> None:
    calls = (ToolCall("c1", "view", {"path": "ü.py"}),)
    (reply,) = ask(
        Asked(lambda *_: said("", stop="tool_calls", tool_calls=calls)), call(tools=TOOLS)
    )
    function = {"name": "view", "arguments": '{"path": "ü.py"}'}
    assert list(reply.tool_calls) == [{"id": "c1", "type": "function", "function": function}]
    assert (reply.finish_reason, reply.prompt_tokens, reply.completion_tokens) == (
        "tool_calls",
        10,
        3,
    )
    assert reply.usd == 0.5 and reply.failure is None


def test_an_unknown_price_stays_unknown() -> None:
    assert ask(Asked(lambda *_: said(usd=None)))[0].usd is None


@pytest.mark.parametrize(
    ("answer", "finish", "kind"),
    [
        (lambda *_: said(stop="length"), "length", None),
        (lambda *_: said("I will not", stop="refusal"), "stop", None),
        (failing("context"), "context", None),
        (failing("rate_limited"), "error", "infra"),
        (failing("overloaded"), "error", "infra"),
        (failing("server"), "error", "infra"),
        (failing("connection"), "error", "infra"),
        (failing("timeout"), "error", "infra"),
        (failing("stream"), "error", "infra"),
        (failing("malformed"), "error", "infra"),
        (failing("deadline"), "error", "infra"),
        (failing("unknown"), "error", "infra"),
        (failing("refused", "messages[3] is odd"), "error", "policy"),
    ],
)
def test_what_a_reply_or_failure_means_for_its_rollout(
    answer: Answer, finish: str, kind: str | None
) -> None:
    (reply,) = ask(Asked(answer))
    assert reply.finish_reason == finish
    assert (reply.failure.kind if reply.failure else None) == kind


@pytest.mark.parametrize("kind", ["auth", "not_found", "breaker"])
def test_what_dooms_every_further_call_stops_the_run(kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        ask(Asked(failing(kind)))
    assert caught.value.kind == kind


def test_a_budget_that_is_used_up_stops_the_run() -> None:
    with pytest.raises(BudgetError):
        ask(Asked(lambda *_: BudgetError("the cap")))


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": []},
        {"messages": [{"role": "wizard", "content": "x"}]},
        {"messages": [{"role": "user", "content": 3}]},
        {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": 1}]}]},
        {"tools": [{"name": "view"}]},
        {"tools": [*TOOLS, *TOOLS]},
        {"tools": [{"type": "function", "function": {"name": "x", "parameters": DEEP}}]},
    ],
)
def test_a_scaffold_that_sends_no_conversation_fails_alone_and_for_nothing(
    changes: dict[str, Any],
) -> None:
    client = Asked()
    (reply,) = ask(client, call(**changes))
    assert reply.failure is not None and reply.failure.kind == "policy"
    assert client.requests == []


def test_half_a_surrogate_pair_does_not_reach_the_server() -> None:
    client = Asked()
    ask(client, call(messages=[user("it printed \ud83d")]))
    assert client.requests[0].messages == [user("it printed \ufffd")]


def test_text_parts_are_joined() -> None:
    client = Asked()
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    ask(client, call(messages=[{"role": "user", "content": parts}]))
    assert client.requests[0].messages == [user("ab")]


def refusing(word: str, has: Callable[[ChatRequest], bool]) -> Answer:
    def answer(request: ChatRequest, _turn: int) -> ChatReply | Exception:
        return ProviderError(f"{word} is not supported", kind="refused") if has(request) else said()

    return answer


@pytest.mark.parametrize(
    ("part", "word", "has"),
    [
        ("temperature", "temperature", lambda request: request.temperature is not None),
        ("top_p", "temperature with top_p", lambda request: request.top_p is not None),
        ("seed", "seed", lambda request: request.seed is not None),
        ("logprobs", "logprobs", lambda request: request.logprobs),
        ("tools", "tool choice", lambda request: bool(request.tools)),
    ],
)
def test_what_a_server_does_not_take_is_found_out_by_one_question_before_the_first_attempt(
    part: str, word: str, has: Callable[[ChatRequest], bool]
) -> None:
    client, told = Asked(refusing(word, has)), list[str]()
    dialect = dialect_of(client, "openai/m", logprobs=True, tell=told.append)
    assert dialect.refused == {part}
    assert [has(request) for request in client.requests] == [True, False]
    assert client.places == [("preflight/policy", 0), ("preflight/policy", 1)]
    assert bool(told) == (part != "logprobs")
    asked = Asked(refusing(word, has))
    (reply,) = ask(asked, call(0, tools=TOOLS, top_p=0.5), logprobs=True, dialect=dialect)
    assert reply.failure is None and len(asked.requests) == 1


@pytest.mark.parametrize("kind", ["auth", "overloaded", "malformed", "refused"])
def test_a_server_that_answers_no_question_ends_the_run_before_it_begins(kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        dialect_of(Asked(failing(kind)), "openai/m")
    assert caught.value.kind == kind


def test_a_script_is_not_asked() -> None:
    client = Asked(failing("auth"))
    dialect_of(client, "scripted:replies.jsonl")
    assert not client.requests


@pytest.mark.parametrize("refusal", ["tools[0].function.name is invalid", "seed is too large"])
def test_a_refusal_is_that_attempts_alone(refusal: str) -> None:
    """Whichever thread is first, the other attempts still send all that they sent before."""

    def answer(request: ChatRequest, _turn: int) -> ChatReply | Exception:
        bad = any(tool.name == "bad name" for tool in request.tools)
        return ProviderError(refusal, kind="refused") if bad else said()

    bad = [{"type": "function", "function": {"name": "bad name"}}]
    client = Asked(answer)
    gateway = ApiGateway(client, "openai/m", label="x")
    replies = [gateway.generate([call(key=str(n), tools=t)])[0] for n, t in enumerate((bad, TOOLS))]
    assert [reply.failure and reply.failure.kind for reply in replies] == ["policy", None]
    assert replies[0].failure and replies[0].failure.detail.startswith(REFUSED)
    assert len(client.requests) == 2 and client.requests[1].tools
    assert client.requests[1].seed is not None


def test_the_context_ceiling_holds_before_and_after_the_first_reply() -> None:
    client = Asked(lambda *_: said(usage=Usage(1000, 3)))
    long = [user("x" * 400)]
    first, second = ask(
        client,
        call(0, messages=long, max_context_tokens=101),
        call(1, messages=long, max_context_tokens=101),  # it was 1000 tokens, as the server counts
    )
    assert (first.finish_reason, second.finish_reason) == ("stop", "context")
    (third,) = ask(client, call(0, messages=long, max_context_tokens=100))
    assert third.finish_reason == "context"
    assert len(client.requests) == 1


def test_a_provider_gets_its_own_blocks_back_with_the_reply_that_had_them() -> None:
    client = Asked(lambda _r, turn: said(f"reply {turn}", provider_blocks=[{"signed": turn}]))
    told = {"role": "assistant", "content": "reply 0"}
    other = {"role": "assistant", "content": "made up by the scaffold"}
    ask(client, call(0), call(1, messages=[user("x"), told, other, user("y")]))
    sent = client.requests[1].messages
    assert [message.get("provider_blocks") for message in sent] == [
        None,
        [{"signed": 0}],
        None,
        None,
    ]


def tokens(prompt: Sequence[int], ids: Sequence[int]) -> ReplyTokens:
    return ReplyTokens(tuple(prompt), tuple(ids), tuple(-0.5 for _ in ids))


def row_of(*turns: ReplyTokens | None) -> Any:
    client = Asked(lambda _request, turn: said(tokens=turns[turn]))
    gateway = ApiGateway(client, "vllm:x", label="l", logprobs=True)
    for turn in range(len(turns)):
        gateway.generate([call(turn)])
    return gateway.finish(["r/g/0/0"])[0]


def test_calls_that_extend_one_prefix_make_one_exact_token_row() -> None:
    row = row_of(tokens([1, 2], [3, 4]), tokens([1, 2, 3, 4, 9], [5]))
    assert (row.prompt_ids, row.completion_ids) == ([1, 2], [3, 4, 9, 5])
    assert (row.mask, row.logprobs) == ([1, 1, 0, 1], [-0.5, -0.5, 0.0, -0.5])
    assert row.exact


def test_a_rewritten_past_keeps_the_last_segment_and_says_so() -> None:
    row = row_of(tokens([1, 2], [3, 4]), tokens([1, 2, 8, 4], [5]))
    assert (row.prompt_ids, row.completion_ids, row.exact) == ([1, 2, 8, 4], [5], False)


@pytest.mark.parametrize("turns", [(None,), (tokens([1], [2]), None), (None, tokens([1], [2]))])
def test_one_call_without_tokens_and_nothing_is_known(turns: tuple[ReplyTokens | None]) -> None:
    assert row_of(*turns) is None


def test_several_requests_are_asked_side_by_side_and_answered_in_order() -> None:
    barrier = threading.Barrier(3)  # passes only if all three are under way at once

    def answer(request: ChatRequest, _turn: int) -> ChatReply:
        barrier.wait(timeout=30)
        return said(str(request.messages[0]["content"]))

    gateway = ApiGateway(Asked(answer), "openai/m", label="l")
    requests = [call(key=str(n), sample_idx=n, messages=[user(str(n))]) for n in range(3)]
    assert [reply.content for reply in gateway.generate(requests)] == ["0", "1", "2"]
