"""What a tool call must be before anybody acts on it."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.core.chat import ChatReply, ChatRequest, ToolSpec, Usage
from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.providers._anthropic_form import Events
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from meta_agent.llm_clients.providers._openai_form import Chunks
from meta_agent.llm_clients.providers._reply import (
    RawCall,
    RawReply,
    accept,
    arguments_of,
    keep_largest,
    read_reply,
    stop_of,
    usage_of,
)
from meta_agent.llm_clients.scrubber import Scrubber

BREAKS = {
    "$: 'path' is a required property": {},
    "$.path: 1 is not of type 'string'": {"path": 1},
    "$.lines[1]: '2' is not of type 'integer'": {"path": "a", "lines": [1, "2"]},
}
VIEW = ToolSpec(
    "view",
    "",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "lines": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["path"],
    },
)


@pytest.mark.parametrize(("words", "arguments"), BREAKS.items(), ids=list(BREAKS))
def test_arguments_that_break_the_schema_are_refused_with_their_place(
    words: str, arguments: object
) -> None:
    strict = ChatRequest("judge", "openai/m", [], 9, [VIEW])
    with pytest.raises(ProviderError) as caught:
        accept(raw(calls=[RawCall("1", "view", json.dumps(arguments))]), strict)
    assert words in str(caught.value) and caught.value.kind == "malformed"
    fits = accept(raw(calls=[RawCall("1", "view", '{"path": "a", "lines": [1]}')]), strict)
    assert fits.tool_calls[0].arguments == {"path": "a", "lines": [1]}


TOO_DEEP = '{"a": ' + "[" * 200 + "]" * 200 + "}"
NO_OBJECTS = ["{", '{"a": NaN}', '{"a": 1e999}', "[]", "1", '"a"', '{"a": 1} x', "[" * 100_000]


@pytest.mark.parametrize("text", [*NO_OBJECTS, TOO_DEEP])
def test_arguments_that_are_no_json_object_are_refused(text: str) -> None:
    with pytest.raises(ProviderError) as caught:
        arguments_of(text, "view")
    assert caught.value.kind == "malformed" and len(str(caught.value)) < 500


def test_no_arguments_are_an_empty_object() -> None:
    assert arguments_of("", "submit") == arguments_of("null", "submit") == {}


def test_an_object_may_come_as_a_text() -> None:
    assert arguments_of(json.dumps('{"a": 1}'), "view") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"a": "x\ud83d"}', "x\ufffd"),
        (r'{"a": "\ud83d\ude00"}', "\U0001f600"),
        ('{"a": "é"}', "é"),
    ],
)
def test_arguments_are_text_that_can_be_sent_back(text: str, value: str) -> None:
    assert arguments_of(text, "edit") == {"a": value}
    assert accept(raw(text="\ud83d"), request()).content == "\ufffd"


@pytest.mark.parametrize("figure", [-1, 1.5, "3", None, True, 10**20])
def test_what_is_no_count_is_unknown(figure: object) -> None:
    counts: dict[str, int] = {}
    keep_largest(counts, input=figure, output=1)
    keep_largest(counts, input=0, output=0)
    assert (usage_of(counts).input_tokens, usage_of(counts).output_tokens) == (0, 1)


USAGES = [  # what a server counts, and what it bills: input and output
    ({"input": 10, "output": 5, "total": 15}, (10, 5)),
    ({"input": 32, "output": 103, "total": 135, "reasoning": 94}, (32, 103)),  # within
    ({"input": 32, "output": 9, "total": 135, "reasoning": 94}, (32, 103)),  # beside, in the total
    ({"input": 32, "output": 9, "total": 41, "reasoning": 94}, (32, 103)),  # beside, in no sum
    ({"input": 32, "output": 9, "reasoning": 94}, (32, 103)),
    ({"input": 32, "output": 9, "total": 135}, (32, 103)),  # beside, and named nowhere
    ({"input": 10, "output": 5, "total": 3}, (10, 5)),
    ({"input": 100, "output": 5, "total": 105, "cached": 90}, (100, 5)),  # cached within
    ({"input": 10, "output": 5, "total": 105, "cached": 90}, (100, 5)),  # beside, in the total
    ({"input": 10, "output": 5, "total": 15, "cached": 90, "written": 20}, (120, 5)),
]


@pytest.mark.parametrize(("counts", "billed"), USAGES)
def test_what_a_server_counts_beside_is_counted_too(
    counts: dict[str, int], billed: tuple[int, int]
) -> None:
    usage = usage_of(counts)
    assert (usage.input_tokens, usage.output_tokens) == billed


STOPS = {
    "stop": "stop end_turn eos eos_token STOP stop_sequence COMPLETE done finished bored",
    "length": "length max_tokens MAX_TOKENS max_output_tokens model_length token_limit "
    "model_context_window_exceeded",
    "tool_calls": "tool_calls tool_use function_call TOOL_CALL tool-calls",
    "refusal": "content_filter refusal SAFETY PROHIBITED_CONTENT guardrail_intervened RECITATION",
}


@pytest.mark.parametrize(("stop", "words"), STOPS.items())
def test_a_stop_reason_is_sorted_by_its_words(stop: str, words: str) -> None:
    assert {stop_of(word, said_something=True) for word in words.split()} == {stop}


BROKEN_OFF = ["error", "abort", "network_error", "cancelled", "insufficient_system_resource"]


@pytest.mark.parametrize("word", [*BROKEN_OFF, "MALFORMED_FUNCTION_CALL", "timeout"])
def test_a_stop_reason_may_say_that_the_reply_is_not_whole(word: str) -> None:
    with pytest.raises(ProviderError) as caught:
        stop_of(word, said_something=True)
    assert caught.value.kind == "stream"


def test_an_empty_reply_needs_a_known_reason() -> None:
    assert accept(raw(text="", stop="eos"), request()).content == ""
    with pytest.raises(ProviderError) as caught:
        accept(raw(text="", stop="bored"), request())
    assert caught.value.kind == "malformed"


def request(**fields: object) -> ChatRequest:
    tools = [ToolSpec("view", "", {"type": "object"})]
    return ChatRequest("proposer", "openai/m", [], 9, tools, **fields)  # type: ignore[arg-type]


def raw(**fields: object) -> RawReply:
    whole = {"text": "hi", "stop": "stop", "usage": Usage(1, 1), **fields}
    return RawReply(**whole)  # type: ignore[arg-type]


def test_calls_make_the_stop_reason() -> None:
    reply = accept(raw(calls=[RawCall("1", "view", "{}")]), request())
    assert reply.stop == "tool_calls" and reply.tool_calls[0].name == "view"


def test_a_stop_for_calls_needs_calls() -> None:
    with pytest.raises(ProviderError, match="but has none"):
        accept(raw(stop="tool_calls"), request())


@pytest.mark.parametrize("ids", [("", "a"), ("a", "a"), ("", "")])
def test_a_call_without_an_id_of_its_own_gets_one_that_no_other_turn_has(
    ids: tuple[str, str],
) -> None:
    calls = [RawCall(call_id, "view", "{}") for call_id in ids]
    turns = [{"role": "user", "content": "x"}] * 3
    first, later = (
        accept(raw(calls=calls), replace(request(), messages=messages)).tool_calls
        for messages in (turns[:1], turns)
    )
    assert len({call.id for call in first}) == 2 and all(call.id for call in first)
    assert {call.id for call in first} & {call.id for call in later} <= {"a"}


def test_lenient_still_wants_json() -> None:
    calls = [RawCall("1", "no_such_tool", "{}")]
    assert accept(raw(calls=calls), request(lenient_tools=True)).tool_calls[0].name
    with pytest.raises(ProviderError, match="not JSON"):
        accept(raw(calls=[RawCall("1", "view", "{")]), request(lenient_tools=True))


def test_the_message_of_a_reply_goes_back_as_it_is() -> None:
    reply = accept(raw(calls=[RawCall("1", "view", '{"p": "ä"}')]), request())
    assert reply.message["tool_calls"][0]["function"]["arguments"] == '{"p": "ä"}'


# --- streams whose values have another form ------------------------------------------------------


def chunks(*calls: Any, ends: Any = "stop", **fields: Any) -> list[Any]:
    """One reply as OpenAI's protocol has it; `fields` are of its last chunk."""
    named = {name: fields.pop(name) for name in ("token_ids", "logprobs") if name in fields}
    delta = {"content": "hi", "tool_calls": list(calls)}
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    return [
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": ends, **named}], **fields},
        {"choices": [], "usage": usage},
    ]


def call(id: Any = "a", name: Any = "view") -> dict[str, Any]:
    return {"index": 0, "id": id, "function": {"name": name, "arguments": "{}"}}


def of_ids(ids: Any, logprob: float = -1.0) -> list[Any]:
    rows = {"content": [{"logprob": logprob}]}
    return chunks(token_ids=ids, logprobs=rows, prompt_token_ids=[1])


def events(*blocks: Any, usage: Any = None, ends: Any = "end_turn", **message: Any) -> list[Any]:
    """One reply as Anthropic's protocol has it."""
    start = {"usage": {"input_tokens": 1}, **message}
    told: list[Any] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(blocks):
        index = block.pop("index", index)
        told.append({"type": "content_block_start", "index": index, "content_block": block})
        told.append({"type": "content_block_stop", "index": index})
    counted = {"output_tokens": 1} if usage is None else usage
    told.append({"type": "message_delta", "delta": {"stop_reason": ends}, "usage": counted})
    return [*told, {"type": "message_stop"}]


def nest(levels: int) -> Any:
    return {"a": nest(levels - 1)} if levels else 1


WORDS = {"type": "text", "text": "hi"}
ODD = {
    "a model that is a list": (Chunks, chunks(model=["x"])),
    "a model that is a number": (Chunks, chunks(model=5)),
    "a model of a megabyte": (Chunks, chunks(model="x" * (1 << 20))),
    "an id that is an object": (Chunks, chunks(id={"a": 1})),
    "a fingerprint that is a list": (Chunks, chunks(system_fingerprint=["x"])),
    "a call's name that is a list": (Chunks, chunks(call(name=["view"]), ends="tool_calls")),
    "a call's id that is a list": (Chunks, chunks(call(id=["a"]), ends="tool_calls")),
    "a call's id that is an object": (Chunks, chunks(call(id={"a": 1}), ends="tool_calls")),
    "a call's id that is a number": (Chunks, chunks(call(id=7), ends="tool_calls")),
    "a stop that is a list": (Chunks, chunks(ends=["stop"])),
    "token ids that are text": (Chunks, of_ids(["a"])),
    "token ids that are one text": (Chunks, of_ids("a")),
    "token ids below zero": (Chunks, of_ids([-5])),
    "token ids beyond any vocabulary": (Chunks, of_ids([10**30])),
    "token ids that are truths": (Chunks, of_ids([True])),
    "a block of no type": (Events, events({"text": "hi"})),
    "a block's type that is a list": (Events, events({"type": ["text"]})),
    "a block's text that is a number": (Events, events({"type": "text", "text": 5})),
    "a block's text that is an object": (Events, events({"type": "text", "text": {"a": 1}})),
    "a thought too deep": (Events, events({"type": "redacted_thinking", "data": nest(150)})),
    "a model that is a list, there": (Events, events({**WORDS}, model=["x"])),
    "a stop that is a list, there": (Events, events({**WORDS}, ends=["end_turn"])),
}


def read(kind: Any, stream: list[Any]) -> ChatReply:
    return read_reply(
        lambda: stream,
        kind(),
        request(),
        timeouts=RequestTimeouts(),
        scrubber=Scrubber(["the-key-of-this-server"]),
        sdk_failure=lambda error, began: None,
    )


@pytest.mark.parametrize("name", ODD)
def test_a_value_of_another_form_is_a_malformed_reply(name: str) -> None:
    with pytest.raises(ProviderError) as caught:
        read(*ODD[name])
    assert caught.value.kind == "malformed" and len(str(caught.value)) < 1000


@pytest.mark.parametrize(("kind", "told"), [(Chunks, chunks()), (Events, events({**WORDS}))])
def test_a_reply_of_the_right_form_is_heard(kind: Any, told: list[Any]) -> None:
    assert read(kind, told).content == "hi"


@pytest.mark.parametrize("field", ["model", "id", "system_fingerprint"])
def test_names_are_text_that_can_be_recorded(field: str) -> None:
    reply = read(Chunks, chunks(**{field: "a\ud800"}))
    assert "a\ufffd" in (reply.model, reply.request_id, reply.fingerprint)


@pytest.mark.parametrize("logprob", [math.inf, -math.inf, math.nan, 50.0])
def test_what_is_no_logarithm_of_a_probability_leaves_no_tokens(logprob: float) -> None:
    assert read(Chunks, of_ids([1], logprob)).tokens is None
    assert read(Chunks, of_ids([1])).tokens is not None
