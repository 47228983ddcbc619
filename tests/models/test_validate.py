"""What a tool call must be before anybody acts on it."""

import pytest

from meta_agent.errors import ProviderError
from meta_agent.models.chat import ChatRequest, ToolSpec, Usage
from meta_agent.models.providers._schema import problems
from meta_agent.models.providers._validate import Said, SaidCall, accept, arguments_of, usage_of

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
