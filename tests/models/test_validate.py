"""What a tool call must be before anybody acts on it."""

import math
from typing import Any

import pytest

from meta_agent.core.chat import ChatReply, ChatRequest, ToolSpec, Usage
from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.providers._anthropic_form import Events
from meta_agent.llm_clients.providers._chunks import Chunks
from meta_agent.llm_clients.providers._schema import problems
from meta_agent.llm_clients.providers._validate import (
    Said,
    SaidCall,
    accept,
    arguments_of,
    heard,
    usage_of,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 2},
        "mode": {"enum": ["head", "tail"]},
        "note": {"type": ["string", "null"]},
        "where": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "size": {"anyOf": [{"type": "integer"}, {"const": "all"}]},
    },
    "required": ["path"],
    "additionalProperties": False,
}
FITS = [
    {"path": "a"},
    {"path": "a", "lines": [1, 2], "mode": "head", "note": None, "size": "all"},
    {"path": "a", "where": {"x": 1.5, "more": True}, "size": 3, "lines": [1.0]},
]
BREAKS = {
    "path is missing": {},
    "path is integer, not string": {"path": 1},
    "path's length is 0, below 1": {"path": ""},
    "lines[1] is string, not integer": {"path": "a", "lines": [1, "2"]},
    "lines[0] is 0, below 1": {"path": "a", "lines": [0]},
    "lines's length is 3, above 2": {"path": "a", "lines": [1, 2, 3]},
    "lines[0] is boolean, not integer": {"path": "a", "lines": [True]},
    "mode is 'all', not one of ['head', 'tail']": {"path": "a", "mode": "all"},
    "note is integer, not string or null": {"path": "a", "note": 1},
    "where.x is missing": {"path": "a", "where": {}},
    "where.x is null, not number": {"path": "a", "where": {"x": None}},
    "size fits 0 of the 2 forms of anyOf": {"path": "a", "size": "some"},
    "extra is not allowed": {"path": "a", "extra": 1},
}


@pytest.mark.parametrize("value", FITS)
def test_a_value_that_fits_has_no_problems(value: object) -> None:
    assert list(problems(value, SCHEMA)) == []


@pytest.mark.parametrize(("words", "value"), BREAKS.items(), ids=list(BREAKS))
def test_a_value_that_does_not_fit_is_told_where(words: str, value: object) -> None:
    assert list(problems(value, SCHEMA)) == [words]


def test_a_reference_is_never_followed() -> None:
    assert list(problems(1, {"$ref": "http://127.0.0.1:9/schema.json"})) == []


TOO_DEEP = '{"a": ' + "[" * 200 + "]" * 200 + "}"
NO_OBJECTS = ["{", '{"a": NaN}', '{"a": 1e999}', "[]", "1", '"a"', '{"a": 1} x', "[" * 100_000]


@pytest.mark.parametrize("text", [*NO_OBJECTS, TOO_DEEP])
def test_arguments_that_are_no_json_object_are_refused(text: str) -> None:
    with pytest.raises(ProviderError) as caught:
        arguments_of(text, "view")
    assert caught.value.kind == "malformed" and len(str(caught.value)) < 500


def test_no_arguments_are_an_empty_object() -> None:
    assert arguments_of("", "submit") == {}


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
    assert accept(said(text="\ud83d"), request()).content == "\ufffd"


@pytest.mark.parametrize("figure", [-1, 1.5, "3", None, True, 10**20])
def test_usage_must_be_counts(figure: object) -> None:
    with pytest.raises(ProviderError, match="token usage"):
        usage_of(input_tokens=figure, output_tokens=1)


def request(**fields: object) -> ChatRequest:
    tools = [ToolSpec("view", "", {"type": "object"})]
    return ChatRequest("proposer", "openai/m", [], 9, tools, **fields)  # type: ignore[arg-type]


def said(**fields: object) -> Said:
    whole = {"text": "hi", "stop": "stop", "usage": Usage(1, 1), **fields}
    return Said(**whole)  # type: ignore[arg-type]


def test_calls_make_the_stop_reason() -> None:
    reply = accept(said(calls=[SaidCall("1", "view", "{}")]), request())
    assert reply.stop == "tool_calls" and reply.tool_calls[0].name == "view"


def test_a_stop_for_calls_needs_calls() -> None:
    with pytest.raises(ProviderError, match="holds none"):
        accept(said(stop="tool_calls"), request())


@pytest.mark.parametrize("ids", [("", "a"), ("a", "a")])
def test_ids_must_be_there_and_differ(ids: tuple[str, str]) -> None:
    with pytest.raises(ProviderError, match="ids"):
        accept(said(calls=[SaidCall(one, "view", "{}") for one in ids]), request())


def test_lenient_still_wants_json() -> None:
    calls = [SaidCall("1", "no_such_tool", "{}")]
    assert accept(said(calls=calls), request(lenient_tools=True)).tool_calls[0].name
    with pytest.raises(ProviderError, match="not JSON"):
        accept(said(calls=[SaidCall("1", "view", "{")]), request(lenient_tools=True))


def test_the_message_of_a_reply_goes_back_as_it_is() -> None:
    reply = accept(said(calls=[SaidCall("1", "view", '{"p": "ä"}')]), request())
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
    "blocks counted by text and number": (Events, events({**WORDS}, {**WORDS, "index": "1"})),
    "a block of no type": (Events, events({"text": "hi"})),
    "a block's type that is a list": (Events, events({"type": ["text"]})),
    "a block's text that is a number": (Events, events({"type": "text", "text": 5})),
    "a block's text that is an object": (Events, events({"type": "text", "text": {"a": 1}})),
    "a thought without its signature": (Events, events({"type": "thinking", "thinking": "x"})),
    "a thought too deep": (Events, events({"type": "redacted_thinking", "data": nest(150)})),
    "a call without an id": (Events, events({"type": "tool_use", "name": "view"})),
    "usage in text": (Events, events({**WORDS}, usage={"input_tokens": "1", "output_tokens": 1})),
    "usage that is a list": (Events, events({**WORDS}, usage=[1])),
    "usage of an odd detail": (
        Events,
        events({**WORDS}, usage={"output_tokens": 1, "output_tokens_details": [1]}),
    ),
    "a model that is a list, there": (Events, events({**WORDS}, model=["x"])),
    "a stop that is a list, there": (Events, events({**WORDS}, ends=["end_turn"])),
}


def hear(kind: Any, told: list[Any]) -> ChatReply:
    return heard((one for one in told), kind(), request(), secrets=("key",))


@pytest.mark.parametrize("name", ODD)
def test_a_value_of_another_form_is_a_malformed_reply(name: str) -> None:
    with pytest.raises(ProviderError) as caught:
        hear(*ODD[name])
    assert caught.value.kind == "malformed" and len(str(caught.value)) < 1000


@pytest.mark.parametrize(("kind", "told"), [(Chunks, chunks()), (Events, events({**WORDS}))])
def test_a_reply_of_the_right_form_is_heard(kind: Any, told: list[Any]) -> None:
    assert hear(kind, told).content == "hi"


@pytest.mark.parametrize("field", ["model", "id", "system_fingerprint"])
def test_names_are_text_that_can_be_recorded(field: str) -> None:
    reply = hear(Chunks, chunks(**{field: "a\ud800"}))
    assert "a\ufffd" in (reply.model, reply.request_id, reply.fingerprint)


@pytest.mark.parametrize("logprob", [math.inf, -math.inf, math.nan, 50.0])
def test_what_is_no_logarithm_of_a_probability_leaves_no_tokens(logprob: float) -> None:
    assert hear(Chunks, of_ids([1], logprob)).tokens is None
    assert hear(Chunks, of_ids([1])).tokens is not None
