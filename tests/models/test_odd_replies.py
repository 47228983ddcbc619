"""Replies of compatible servers that differ from the vendors' own: each is read whole."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from meta_agent.core.chat import ChatReply, ChatRequest, ToolSpec
from meta_agent.core.errors import ProviderError
from tests.loopback import Call, Fault, Say, anthropic_server, openai_server
from tests.models._providers import open_provider

LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"q": {}}})
USED = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
CALL = {"function": {"name": "look", "arguments": '{"q": 1}'}}
STREAM, WHOLE = "text/event-stream", "application/json"


def chunk(delta: Any = None, ends: Any = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": ends}], **fields}


def used(**more: Any) -> dict[str, Any]:
    return {"choices": [], "usage": {**USED, **more}}


def sse(*events: Any, done: bool = True) -> str:
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return lines + ("data: [DONE]\n\n" if done else "")


def whole(message: Any, ends: Any = "stop", **fields: Any) -> str:
    choice = {"index": 0, "message": message, "finish_reason": ends}
    return json.dumps({"choices": [choice], "usage": USED, **fields}, indent=2)


HI = chunk({"content": "hi"})
END = chunk(ends="stop")
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "hmm"}]}
SAID = {"type": "text", "text": "hi"}
TEXTS = {
    "a stop reason of its own": (STREAM, sse(HI, chunk(ends="eos"), used())),
    "a chunk without choices": (STREAM, sse(HI, END, {**used(), "choices": None})),
    "content in parts": (STREAM, sse(chunk({"content": [THOUGHT, SAID]}), END, used())),
    "parts, then text": (STREAM, sse(chunk({"content": [THOUGHT]}), HI, END, used())),
    "text in pieces of parts": (
        STREAM,
        sse(*(chunk({"content": [{**SAID, "text": text}]}) for text in "hi"), END, used()),
    ),
    "usage that ends in zeros": (
        STREAM,
        sse(HI, END, used(), used(prompt_tokens=0, completion_tokens=0, total_tokens=0)),
    ),
    "usage in the choice": (
        STREAM,
        sse(HI, {"choices": [{"index": 0, "finish_reason": "stop", "usage": USED}]}),
    ),
    "usage with every chunk": (
        STREAM,
        sse({**HI, "usage": {**USED, "completion_tokens": 1}}, END, used()),
    ),
    "no stop reason, but the mark of the end": (STREAM, sse(HI, used())),
    "empty stop reasons before the last": (STREAM, sse(chunk({"content": "hi"}, ""), END, used())),
    "events without their type": ("text/plain", sse(HI, END, used())),
    "events called JSON": (WHOLE, sse(HI, END, used())),
    "events without data": (
        STREAM,
        "retry: 3000\n\nid: 1\n\ndata:\n\n" + sse(HI, END, used()) + "event: ping\n\n",
    ),
    "comments, also as data": (STREAM, ": busy\n\ndata: : busy\n\n" + sse(HI, END, used())),
    "other line ends": (STREAM, sse(HI, END, used()).replace("\n", "\r\n")),
    "no last blank line": (STREAM, sse(HI, used(), done=False) + "data: [DONE]"),
    "no stream": (WHOLE, whole({"role": "assistant", "content": "hi"})),
    "no stream, but its type": (STREAM, whole({"role": "assistant", "content": "hi"})),
    "no stream and no stop reason": (WHOLE, whole({"content": "hi"}, None)),
    "no stream, in parts": (WHOLE, whole({"content": [THOUGHT, SAID]})),
    "a byte order mark and blank lines": (WHOLE, "\ufeff\n\n" + whole({"content": "hi"})),
}


def ask(url: str, messages: Any = None, model: str = "openai/m", **fields: Any) -> ChatReply:
    messages = messages or [{"role": "user", "content": "x"}]
    provider = open_provider(model, base_url=url)
    try:
        return provider.chat(ChatRequest("proposer", model, messages, 64, [LOOK], **fields))
    finally:
        provider.close()


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_read_whole_and_counted(name: str) -> None:
    kind, body = TEXTS[name]
    with openai_server(lambda call: Fault.raw(body, content_type=kind)) as url:
        reply = ask(url)
    counted = (reply.usage.input_tokens, reply.usage.output_tokens, reply.counted)
    assert (reply.content, reply.stop, counted) == ("hi", "stop", (10, 5, True))


def calls(*pieces: Any) -> tuple[str, str]:
    chunks = (chunk({"tool_calls": [piece]}) for piece in pieces)
    return STREAM, sse(*chunks, chunk(ends="tool_calls"), used())


def part(text: str, **fields: Any) -> dict[str, Any]:
    return {"function": {"arguments": text}, **fields}


ONE, TWO = [{"q": 1}], [{"q": 1}, {"q": 1}]
CALLS = {
    "no id": (calls({"index": 0, **CALL}), ONE),
    "an id of null, then empty": (
        calls({"index": 0, "id": None, **CALL}, part("", index=0, id="")),
        ONE,
    ),
    "one id for two": (
        calls({"index": 0, "id": "a", **CALL}, {"index": 1, "id": "a", **CALL}),
        TWO,
    ),
    "no ids, one index": (calls({"index": 0, **CALL}, {"index": 0, **CALL}), TWO),
    "no ids, no index": (calls(CALL, CALL), TWO),
    "no index, in pieces": (
        calls({"id": "a", "function": {"name": "look"}}, part('{"q"'), part(": 1}")),
        ONE,
    ),
    "its id with every piece": (
        calls(
            {"index": 0, "id": "a", "function": {"name": "look", "arguments": '{"q"'}},
            {"index": 0, "id": "a", "function": {"name": "look", "arguments": ": 1}"}},
        ),
        ONE,
    ),
    "arguments as an object": (
        calls({"index": 0, "id": "a", "function": {"name": "look", "arguments": {"q": 1}}}),
        ONE,
    ),
    "no stream": ((WHOLE, whole({"content": None, "tool_calls": [CALL, CALL]})), TWO),
    "a stop for text": (
        (STREAM, sse(chunk({"tool_calls": [{"index": 0, **CALL}]}), END, used())),
        ONE,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_read_whole_and_told_apart(name: str) -> None:
    (kind, body), arguments = CALLS[name]
    with openai_server(lambda call: Fault.raw(body, content_type=kind)) as url:
        reply = ask(url)
    assert [dict(call.arguments) for call in reply.tool_calls] == arguments
    assert len({call.id for call in reply.tool_calls}) == len(arguments)
    assert reply.stop == "tool_calls" and reply.counted


# --- what goes back ------------------------------------------------------------------------------

SIGNED = {"thought_signature": "c2ln"}
DETAIL = {"type": "reasoning.text", "index": 0, "format": "f-v1", "id": "r1"}
ADDED = {
    "reasoning_content": ("let me look", ["let me ", "look"]),
    "reasoning": ("let me look", ["let me ", "look"]),
    "reasoning_details": (
        [{**DETAIL, "text": "let me look", "signature": "c2ln"}],
        [[{**DETAIL, "text": "let me "}], [{**DETAIL, "text": "look", "signature": "c2ln"}]],
    ),
    "extra_content": ({"google": SIGNED}, [{"google": SIGNED}]),
}


@pytest.mark.parametrize("name", ADDED)
def test_a_field_of_the_servers_own_goes_back_as_it_came(name: str) -> None:
    value, pieces = ADDED[name]
    made = {"index": 0, "id": "a", "type": "function", **CALL, "extra_content": {"sig": "eA=="}}
    first = (STREAM, sse(*(chunk({name: piece}) for piece in pieces), chunk({"tool_calls": [made]}),
                         chunk(ends="tool_calls"), used()))  # fmt: skip

    def brain(call: Call) -> Say | Fault:
        return Say("done") if call.number else Fault.raw(first[1], content_type=first[0])

    with openai_server(brain) as url:
        reply = ask(url)
        result = {"role": "tool", "tool_call_id": "a", "content": "1"}
        asked = [{"role": "user", "content": "x"}, reply.message, result]
        assert ask(url, asked).content == "done"
        sent = url.calls[1].raw["messages"][1]
    assert sent[name] == value
    assert sent["tool_calls"][0]["extra_content"] == {"sig": "eA=="}
    assert sent["tool_calls"][0]["function"] == {**CALL["function"]}


def test_a_server_that_refuses_its_own_field_is_asked_without_it() -> None:
    def brain(call: Call) -> Say | Fault:
        if "reasoning_content" in call.messages[-1]:
            return Fault.status(400, "property 'reasoning_content' is unsupported")
        return Say("done", thinking="hmm")

    with openai_server(brain) as url:
        reply = ask(url)
        assert ask(url, [reply.message]).content == "done"
        assert len(url.calls) == 3


REFUSALS = {
    "stream": "Streaming is not supported by this server; set stream to false.",
    "stream_options": "Extra inputs are not permitted, field: 'stream_options'",
    "max_tokens": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
}


@pytest.mark.parametrize("part", REFUSALS)
def test_a_part_of_ours_that_a_model_refuses_is_left_out_from_then_on(part: str) -> None:
    def brain(call: Call) -> Say | Fault:
        return Fault.status(400, REFUSALS[part]) if call.raw.get(part) else Say("done")

    with openai_server(brain) as url:
        provider = open_provider("openai/m", base_url=url)
        request = ChatRequest("proposer", "openai/m", [{"role": "user", "content": "x"}], 64)
        replies = [provider.chat(request) for _ in range(2)]
        provider.close()
        limits = [
            call.raw.get("max_tokens", call.raw.get("max_completion_tokens")) for call in url.calls
        ]
    assert [reply.content for reply in replies] == ["done"] * 2
    assert [bool(call.raw.get(part)) for call in url.calls] == [True, False, False] and set(
        limits
    ) == {64}


# --- Anthropic's protocol ------------------------------------------------------------------------


def events(*blocks: Any, ends: Any = "end_turn", late: Any = None) -> str:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 10}}}
    told: list[Any] = [start]
    for index, block in enumerate(blocks):
        told.append({"type": "content_block_start", "index": index, "content_block": block})
    usage = {"output_tokens": 5, **(late or {})}
    told.append({"type": "message_delta", "delta": {"stop_reason": ends}, "usage": usage})
    told.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told)


THINKS = {"type": "thinking", "thinking": "hmm"}
USE = {"type": "tool_use", "id": "a", "name": "look", "input": {"q": 1}}
COUNTS = {"input_tokens": 10, "output_tokens": 5}
CONTENT = {"content": [THINKS, SAID], "stop_reason": "end_turn"}
MESSAGE = {"type": "message", "usage": COUNTS, **CONTENT}
MESSAGES = {
    "one index for two blocks": (STREAM, events(THINKS, SAID).replace('"index": 1', '"index": 0')),
    "no stop reason": (STREAM, events(THINKS, SAID, ends=None)),
    "no names of events": (STREAM, re.sub("event: .*\n", "", events(THINKS, SAID))),
    "a thought without a signature": (STREAM, events(THINKS, SAID)),
    "a stop reason of another protocol": (STREAM, events(THINKS, SAID, ends="stop")),
    "a late count of nothing": (STREAM, events(THINKS, SAID, late={"input_tokens": 0})),
    "no stream": (
        WHOLE,
        json.dumps({**MESSAGE, "usage": {"input_tokens": 10, "output_tokens": 5}}),
    ),
}
CLAUDE = "anthropic/claude-opus-4-5"


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_read_whole_and_goes_back_as_it_came(name: str) -> None:
    kind, body = MESSAGES[name]

    def brain(call: Call) -> Say | Fault:
        return Say("done") if call.number else Fault.raw(body, content_type=kind)

    with anthropic_server(brain) as url:
        reply = ask(url, model=CLAUDE)
        ask(url, [reply.message, {"role": "user", "content": "y"}], model=CLAUDE)
        sent = url.calls[1].raw["messages"][0]["content"]
    usage = (reply.usage.input_tokens, reply.usage.output_tokens)
    assert (reply.content, reply.reasoning, reply.stop, usage) == ("hi", "hmm", "stop", (10, 5))
    assert sent == [THINKS, SAID]


def test_pieces_may_come_without_the_start_of_their_block() -> None:
    piece = {"type": "content_block_delta", "index": 0}
    said = {**piece, "delta": {"type": "text_delta", "text": "hi"}}
    line = f"event: x\ndata: {json.dumps(said)}\n\n"
    body = events().replace("event: message_delta", line + "event: message_delta")
    with anthropic_server(lambda call: Fault.raw(body, content_type=STREAM)) as url:
        assert ask(url, model=CLAUDE).content == "hi"


@pytest.mark.parametrize("block", [USE, {**USE, "id": None}], ids=["whole input", "no id"])
def test_an_input_that_came_with_the_first_event_is_not_empty(block: Any) -> None:
    body = events(THINKS, block, ends="tool_use")

    def brain(call: Call) -> Say | Fault:
        return Say("done") if call.number else Fault.raw(body, content_type=STREAM)

    with anthropic_server(brain) as url:
        reply = ask(url, model=CLAUDE)
        (made,) = reply.tool_calls
        result = {"role": "tool", "tool_call_id": made.id, "content": "1"}
        ask(url, [reply.message, result], model=CLAUDE)
        sent = url.calls[1].raw["messages"]
    assert made.arguments == {"q": 1} and made.id
    assert sent[0]["content"] == [THINKS, {**USE, "id": made.id}]
    assert sent[1]["content"][0]["tool_use_id"] == made.id


# --- errors in the place of replies --------------------------------------------------------------

WORDS = "model is overloaded"
ERRORS = {
    '{"error": {"message": "model is overloaded", "code": 503}}': "overloaded",
    '{"error": {"message": "model is overloaded", "code": "503"}}': "overloaded",
    '{"error": "model is overloaded"}': "stream",
    '{"object": "error", "message": "model is overloaded", "code": 400}': "refused",
    '{"detail": "model is overloaded"}': "stream",
    '[{"error": {"code": 429, "message": "model is overloaded"}}]': "rate_limited",
    '{"error": {"message": "Provider returned error", "code": 502, '
    '"metadata": {"raw": "model is overloaded"}}}': "server",
    '{"error": {"type": "insufficient_quota", "message": "model is overloaded"}}': "auth",
    '{"choices": [{"index": 0, "error": {"code": 502, "message": "model is overloaded"}, '
    '"finish_reason": "error"}]}': "server",
}


@pytest.mark.parametrize("body", ERRORS)
@pytest.mark.parametrize("form", ["{}", "data: {}\n\n"], ids=["json", "event"])
def test_an_error_with_status_200_keeps_its_words(body: str, form: str) -> None:
    answer = Fault.raw(form.format(body) if form == "{}" else f"data: {body}\n\n")
    with openai_server(lambda call: answer) as url, pytest.raises(ProviderError) as caught:
        ask(url)
    assert WORDS in str(caught.value) and caught.value.kind == ERRORS[body]


def test_an_error_in_the_place_of_a_message_keeps_its_words() -> None:
    body = '{"type": "error", "error": {"type": "overloaded_error", "message": "too busy"}}'
    for text in (body, f"event: error\ndata: {body}\n\n"):
        with (
            anthropic_server(lambda call, text=text: Fault.raw(text)) as url,
            pytest.raises(ProviderError, match="too busy") as caught,
        ):
            ask(url, model=CLAUDE)
        assert (caught.value.kind, caught.value.billed) == ("overloaded", "no")


TOO_LONG = [
    "This model's maximum context length is 8192 tokens",
    "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178",
    "Prompt contains 9000 tokens, too large for model with 8192 maximum context length",
    "The total length of all messages is too long.",
    "Input is too long for requested model.",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "the request exceeds the available context size, try increasing it",
    "prompt is too long: 209303 tokens > 200000 maximum",
    "Please reduce the length of the messages or completion.",
]
NOT_TOO_LONG = [
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
    "max_tokens exceeds the limit of 4096",
    "tools[0].function.name is too long",
    "Unsupported parameter: 'max_tokens'",
]


@pytest.mark.parametrize("text", [*TOO_LONG, *NOT_TOO_LONG])
@pytest.mark.parametrize("code", [400, 500])
def test_a_prompt_that_does_not_fit_is_told_from_other_refusals(text: str, code: int) -> None:
    with (
        openai_server(lambda call: Fault.status(code, text)) as url,
        pytest.raises(ProviderError) as caught,
    ):
        ask(url)
    other = "refused" if code == 400 else "server"
    assert caught.value.kind == ("context" if text in TOO_LONG else other)


WAITS = {
    "Please retry in 34.07s.": 34.07,
    '[{"error": {"message": "quota", "details": [{"retryDelay": "34s"}]}}]': 34,
    "Rate limit reached. Limit 3 / min. Please try again in 1m26.4s. Visit https://x": 86.4,
    "try again in 250ms": 0.25,
    "Please wait 2 minutes before you ask again": 120,
    '{"error": {"retry_after": 34}}': 34,
    '{"error": {"retry_after_ms": 34000}}': 34,
    '{"retry_after_seconds": 34}': 34,
    "please retry after 34 seconds": 34,
    "Limit 30000 tokens per minute, used 29000": None,
    "retry after 2026-11-28T10:00:00Z": None,
    "retry 3 models": None,
}


@pytest.mark.parametrize("text", WAITS)
def test_a_wait_is_read_from_the_words_of_a_refusal(text: str) -> None:
    answer = Fault.raw(text, code=429)
    with openai_server(lambda call: answer) as url, pytest.raises(ProviderError) as caught:
        ask(url)
    expected = WAITS[text]
    assert caught.value.retry_after_sec == (expected and pytest.approx(expected))


def test_a_header_names_the_wait_before_the_words_do() -> None:
    answer = Fault.status(429, "retry in 99s", retry_after="7")
    with openai_server(lambda call: answer) as url, pytest.raises(ProviderError) as caught:
        ask(url)
    assert caught.value.retry_after_sec == 7


def test_a_lack_of_credit_says_what_to_do() -> None:
    text = "This request requires more credits, or fewer max_tokens."
    with (
        openai_server(lambda call: Fault.status(402, text)) as url,
        pytest.raises(ProviderError, match="more credits") as caught,
    ):
        ask(url)
    assert caught.value.halts and "credit" in str(caught.value.hint)
