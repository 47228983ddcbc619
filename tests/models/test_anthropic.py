"""The anthropic provider against a server that speaks the protocol."""

from typing import Any

import pytest

from meta_agent.core.chat import ChatReply, ChatRequest, ToolSpec, Usage
from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.providers._anthropic_form import body_of
from tests.loopback import Say, Url, anthropic_server
from tests.models._providers import open_provider

VIEW = ToolSpec("view", "Shows a file.", {"properties": {"path": {"type": "string"}}})
EDIT = ToolSpec("edit", "Changes a file.", {"type": "object", "properties": {}})
MODEL = "anthropic/claude-opus-4-5"
CACHED = {"type": "ephemeral"}
CALL = {"id": "c1", "type": "function", "function": {"name": "view", "arguments": '{"path": "a"}'}}


def request(model: str = MODEL, **fields: Any) -> ChatRequest:
    given = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4096, **fields}
    return ChatRequest("proposer", model, **given)


def ask(url: str, *, key: str | None = None, **fields: Any) -> ChatReply:
    provider = open_provider(MODEL, base_url=url, api_key=key)
    try:
        return provider.chat(request(**fields))
    finally:
        provider.close()


def sent(url: Url) -> dict[str, Any]:
    return dict(url.calls[-1].raw)


def test_a_whole_reply() -> None:
    say = Say(
        "two words",
        tool_calls=[("view", {"path": "a"}), ("edit", {})],
        input_tokens=50,
        output_tokens=20,
        cached_tokens=30,
        cache_write_tokens=10,
        model="claude-opus-4-5-20251101",
    )
    with anthropic_server(lambda call: say) as url:
        reply = ask(url, tools=[VIEW, EDIT])
    assert (reply.content, reply.stop) == ("two words", "tool_calls")
    assert [call.name for call in reply.tool_calls] == ["view", "edit"]
    assert reply.usage == Usage(50, 20, cached_tokens=30, cache_write_tokens=10)
    assert (reply.model, reply.request_id) == ("claude-opus-4-5-20251101", "msg_0")
    assert reply.provider_blocks is None


def test_the_cache_is_asked_for_after_tools_system_and_the_last_turn() -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "a file"},
    ]
    with anthropic_server(lambda call: Say("done")) as url:
        ask(url, tools=[VIEW, EDIT], messages=messages)
        body = sent(url)
        heard = [message["role"] for message in url.calls[0].messages]
    assert heard == ["system", "user", "assistant", "tool"]
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, CACHED]
    assert body["system"] == [{"type": "text", "text": "be brief", "cache_control": CACHED}]
    last = [block.get("cache_control") for turn in body["messages"] for block in turn["content"]]
    assert last == [None, None, CACHED]


def test_signed_thinking_goes_back_unchanged() -> None:
    say = Say("I look", tool_calls=[("view", {"path": "a"})], thinking="first the file, then more")
    with anthropic_server(lambda call: say) as url:
        reply = ask(url, tools=[VIEW], effort="low")
        assert sent(url)["thinking"] == {"type": "enabled", "budget_tokens": 2048}
        assert reply.reasoning == "first the file, then more"
        result = {"role": "tool", "tool_call_id": reply.tool_calls[0].id, "content": "a file"}
        messages = [{"role": "user", "content": "hello"}, reply.message, result]
        ask(url, tools=[VIEW], effort="low", messages=messages)
        back = sent(url)["messages"][1]["content"]
    assert back == [
        {"type": "thinking", "thinking": "first the file, then more", "signature": "signed:25"},
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "call_0_0", "name": "view", "input": {"path": "a"}},
    ]


def test_results_and_text_that_follow_one_another_are_one_turn() -> None:
    messages = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": " ", "tool_calls": [CALL, {**CALL, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "a file"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "user", "content": "go on"},
        {"role": "system", "content": "three turns left"},
    ]
    turns = body_of(request(messages=messages), "m")["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    kinds = [block["type"] for block in turns[2]["content"]]
    assert kinds == ["tool_result", "tool_result", "text", "text"]
    assert [block["type"] for block in turns[1]["content"]] == ["tool_use"] * 2


def test_a_message_without_text_still_says_something() -> None:
    turns = body_of(request(messages=[{"role": "user", "content": ""}]), "m")["messages"]
    assert turns[0]["content"][0]["text"].strip()


@pytest.mark.parametrize(
    ("model", "thinking", "takes_temperature"),
    [
        ("claude-3-7-sonnet-20250219", "enabled", True),
        ("claude-sonnet-4-20250514", "enabled", True),
        ("claude-opus-4-5-20251101", "enabled", True),
        ("claude-sonnet-4-6", "adaptive", True),
        ("claude-opus-4-7", "adaptive", False),
        ("claude-sonnet-5", "adaptive", False),
        ("some-compatible-model", "enabled", True),
    ],
)
def test_each_family_gets_what_it_takes(model: str, thinking: str, takes_temperature: bool) -> None:
    plain = body_of(request(temperature=0.5), model)
    thinks = body_of(request(temperature=0.5, effort="low"), model)
    assert ("temperature" in plain) is takes_temperature
    assert thinks["thinking"]["type"] == thinking and "temperature" not in thinks
    effort = {"effort": "low"} if thinking == "adaptive" else None
    assert thinks.get("output_config") == effort and "output_config" not in plain


def test_a_thinking_budget_leaves_room_for_the_reply() -> None:
    body = body_of(request(effort="high", max_tokens=3000), "claude-opus-4-5")
    assert body["thinking"]["budget_tokens"] == 3000 - 1024
    assert "thinking" not in body_of(request(effort="high", max_tokens=1500), "m")


def test_a_forced_call_is_not_forced_while_thinking() -> None:
    forced: dict[str, Any] = {"tools": [VIEW], "tool_choice": "required"}
    assert body_of(request(**forced), "m")["tool_choice"] == {"type": "any"}
    body = body_of(request(**forced, effort="low"), "claude-opus-4-5")
    assert body["tool_choice"] == {"type": "auto"}


@pytest.mark.parametrize("address", ["", "/", "/v1", "/v1/"])
def test_a_base_url_with_or_without_v1(address: str) -> None:
    with anthropic_server(lambda call: Say("done")) as url:
        provider = open_provider(MODEL, base_url=url + address)
        assert provider.chat(request()).content == "done"
        provider.close()
        assert url.calls[0].path == "/v1/messages"


def test_only_the_key_meant_for_a_server_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "sk-ant-users-own")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-team: users-own\nx-api-key: users-own")
    with anthropic_server(lambda call: Say("done")) as url:
        ask(url)
        ask(url, key="sk-for-this-server")
        assert [call.headers["x-api-key"] for call in url.calls] == ["none", "sk-for-this-server"]
        assert "users-own" not in str([dict(call.headers) for call in url.calls])


def test_an_unfinished_argument_is_never_dropped_in_silence() -> None:
    cut = Say(tool_calls=[("edit", '{"path": "a", "content": "half of')])
    with anthropic_server(lambda call: cut) as url, pytest.raises(ProviderError, match="not JSON"):
        ask(url, tools=[EDIT])
