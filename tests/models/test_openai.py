"""The openai provider against a server that speaks the protocol: what goes out, what comes back."""

from typing import Any

import pytest

from meta_agent.core.chat import ChatReply, ChatRequest, ReplyTokens, ToolSpec, Usage
from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from meta_agent.llm_clients.providers._openai_form import Chunks
from meta_agent.llm_clients.scrubber import Scrubber
from tests.loopback import Call, Fault, Say, Url, openai_server
from tests.models._providers import open_provider

VIEW = ToolSpec("view", "Shows a file.", {"type": "object", "properties": {}})
ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-users-own-key-1234",
    "OPENAI_ADMIN_KEY": "sk-users-own-key-1234",
    "OPENAI_ORG_ID": "org-users-own",
    "OPENAI_PROJECT_ID": "proj-users-own",
    "OPENAI_CUSTOM_HEADERS": "x-team: users-own\nauthorization: Bearer users-own",
}


def ask(url: str, model: str = "openai/m", *, key: str | None = None, **fields: Any) -> ChatReply:
    provider = open_provider(model, base_url=url, api_key=key)
    given = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 64, **fields}
    try:
        return provider.chat(ChatRequest("proposer", model, **given))
    finally:
        provider.close()


def sent(url: Url) -> dict[str, Any]:
    return dict(url.calls[-1].raw)


def test_a_whole_reply() -> None:
    say = Say(
        "two words",
        tool_calls=[("view", {"path": "a"}), ("view", {})],
        thinking="let me see",
        input_tokens=50,
        output_tokens=20,
        cached_tokens=30,
        reasoning_tokens=8,
        model="m-2026-01-01",
    )
    with openai_server(lambda call: say) as url:
        reply = ask(url, tools=[VIEW])
    assert (reply.content, reply.stop, reply.reasoning) == ("two words", "tool_calls", "let me see")
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [
        ("view", {"path": "a"}),
        ("view", {}),
    ]
    assert reply.usage == Usage(50, 20, cached_tokens=30, reasoning_tokens=8)
    assert (reply.model, reply.request_id) == ("m-2026-01-01", "chatcmpl-0")


def test_a_dialogue_goes_out_as_it_stands() -> None:
    with openai_server(lambda call: Say("done")) as url:
        first = ask(url, tools=[VIEW])
        history = [
            {"role": "system", "content": "be brief"},
            first.message,
            {"role": "tool", "tool_call_id": "x", "content": "a file"},
        ]
        ask(url, messages=history)
        messages = sent(url)["messages"]
    assert [message["role"] for message in messages] == ["system", "assistant", "tool"]


def test_knobs_go_out_only_where_they_are_set() -> None:
    with openai_server(lambda call: Say("done")) as url:
        ask(url)
        assert set(sent(url)) == {"model", "messages", "max_tokens", "stream", "stream_options"}
        ask(url, temperature=0.5, top_p=0.9, seed=3, tools=[VIEW], tool_choice="required")
        body = sent(url)
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.5, 0.9, 3)
    assert (body["tool_choice"], body["tools"][0]["function"]["name"]) == ("required", "view")


def test_a_server_of_ones_own_gets_max_tokens() -> None:
    with openai_server(lambda call: Say("done")) as url:
        ask(url, "openai/gpt-5", temperature=0.5)
        body = sent(url)
    assert body["max_tokens"] == 64 and body["temperature"] == 0.5
    assert "max_completion_tokens" not in body


def test_the_effort_is_asked_for_as_openai_names_it() -> None:
    with openai_server(lambda call: Say("yes")) as url:
        ask(url, effort="high")
        assert url.calls[-1].raw["reasoning_effort"] == "high"
        ask(url)
    assert "reasoning_effort" not in url.calls[-1].raw


@pytest.mark.parametrize(
    ("model", "takes_temperature"),
    [
        ("gpt-4o", True),
        ("gpt-4.1", True),
        ("gpt-5", False),
        ("gpt-5.2-mini", False),
        ("gpt-5-chat-latest", True),
        ("o3-mini", False),
    ],
)
def test_openai_itself_gets_what_its_newer_models_take(model: str, takes_temperature: bool) -> None:
    from meta_agent.llm_clients.providers._openai import OpenAIProvider  # imports the SDK

    given = {"timeouts": RequestTimeouts(), "scrubber": Scrubber([])}
    provider = OpenAIProvider(base_url=None, api_key="sk-test", **given)
    body = provider.body(ChatRequest("proposer", f"openai/{model}", [], 64, temperature=0.5))
    provider.close()
    assert body["max_completion_tokens"] == 64 and "max_tokens" not in body
    assert ("temperature" in body) is takes_temperature


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai/gpt-4o", "gpt-4o"),
        ("openai/Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("ollama/llama3:8b", "llama3:8b"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
    ],
)
def test_the_server_is_asked_for_the_name_it_knows(model: str, name: str) -> None:
    with openai_server(lambda call: Say("done")) as url:
        ask(url, model)
        assert sent(url)["model"] == name


def test_token_ids_and_logprobs_come_where_the_server_gives_them() -> None:
    say = Say("hi!", token_ids=[5, 6, 7], logprobs=[-0.5, -0.25, -1.0], output_tokens=3)
    with openai_server(lambda call: say) as url:
        assert ask(url).tokens is None
        tokens = ask(url, logprobs=True).tokens
    assert isinstance(tokens, ReplyTokens)
    assert (tokens.ids, tokens.logprobs) == ((5, 6, 7), (-0.5, -0.25, -1.0))
    assert tokens.prompt_ids


def test_a_token_record_with_gaps_is_none() -> None:
    say = Say("hi!", token_ids=[5, 6], logprobs=[-0.5, -0.25], output_tokens=3)
    with openai_server(lambda call: say) as url:
        assert ask(url, logprobs=True).tokens is None


def test_only_the_key_meant_for_a_server_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with openai_server(lambda call: Say("done")) as url:
        ask(url)
        ask(url, key="sk-for-this-server")
        keys = [call.key for call in url.calls]
        headers = str([dict(call.headers) for call in url.calls])
    assert keys == ["none", "sk-for-this-server"]
    assert "users-own" not in headers


def test_a_proxy_for_the_world_is_not_asked_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with openai_server(lambda call: Say("done")) as url:
        assert ask(url).content == "done"


def test_redirects_do_not_carry_the_key_away() -> None:
    with openai_server(lambda call: Say("done")) as elsewhere:

        def brain(call: Call) -> Fault:
            there = {"location": f"{elsewhere}/chat/completions"}
            return Fault("status", 307, headers=there, message="over there")

        with openai_server(brain) as url, pytest.raises(ProviderError, match="HTTP 307"):
            ask(url, key="sk-for-this-server")
        assert elsewhere.calls == []


def test_a_request_that_cannot_be_sent_is_not_the_servers_fault() -> None:
    with openai_server(lambda call: Say("done")) as url, pytest.raises(ProviderError) as caught:
        ask(url, messages=[{"role": "user", "content": object()}])
    assert caught.value.kind == "unknown" and "object" in str(caught.value)


def test_tool_calls_without_index_or_with_one_index_are_told_apart() -> None:
    def piece(**fields: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [fields]}}]}

    chunks = Chunks()
    for number, index in (("1", None), ("2", None), ("3", 0), ("4", 0)):
        function = {"name": f"f{number}", "arguments": "{}"}
        chunks.add(piece(id=number, index=index, function=function))
    assert [(call.id, call.name, call.arguments) for call in chunks.finish().calls] == [
        (number, f"f{number}", "{}") for number in "1234"
    ]
