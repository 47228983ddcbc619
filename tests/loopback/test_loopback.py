"""The test servers themselves: what the SDKs see of them."""

import threading

import httpx
import pytest

from tests.loopback import Call, Fault, Say, anthropic_server, openai_server, say_each

ASK = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
SAY = Say("two words", tool_calls=[("view", {"path": "a.py"})], input_tokens=50, cached_tokens=20)


def test_openai_json_and_stream_say_the_same() -> None:
    import openai

    with (
        openai_server(lambda call: SAY) as url,
        openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client,
    ):
        whole = client.chat.completions.create(model="m", messages=ASK)  # type: ignore[arg-type]
        with client.chat.completions.stream(model="m", messages=ASK) as stream:  # type: ignore[arg-type]
            streamed = stream.get_final_completion()
        calls = [choice.choices[0].message.tool_calls for choice in (whole, streamed)]
        assert whole.choices[0].message.content == streamed.choices[0].message.content
        assert [call[0].function.arguments for call in calls if call] == ['{"path": "a.py"}'] * 2  # type: ignore[union-attr]
        assert whole.usage and whole.usage.prompt_tokens == 50
        assert [call.last for call in url.calls] == ["hello"] * 2


def test_anthropic_json_and_stream_say_the_same() -> None:
    import anthropic

    with (
        anthropic_server(lambda call: SAY) as url,
        anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client,
    ):
        kwargs = {"model": "m", "max_tokens": 9, "system": "be brief", "messages": ASK[1:]}
        whole = client.messages.create(**kwargs)  # type: ignore[call-overload]
        with client.messages.stream(**kwargs) as stream:  # type: ignore[arg-type]
            streamed = stream.get_final_message()
        assert [block.type for block in whole.content] == ["text", "tool_use"]
        assert [block.type for block in streamed.content] == ["text", "tool_use"]
        assert whole.content[1].input == streamed.content[1].input == {"path": "a.py"}  # type: ignore[union-attr]
        assert whole.usage.input_tokens == 30 and whole.usage.cache_read_input_tokens == 20
        assert url.calls[0].messages[0] == {"role": "system", "content": "be brief"}


def test_a_brain_that_raises_fails_the_test() -> None:
    def brain(call: Call) -> Say:
        raise AssertionError("not what was expected")

    with pytest.raises(AssertionError, match="not what"), openai_server(brain) as url:
        assert httpx.post(f"{url}/chat/completions", json={}).status_code == 500


def test_one_request_too_many_fails_the_test() -> None:
    with (
        pytest.raises(AssertionError, match="request 1 was not expected"),
        openai_server(say_each([Fault.status(503)])) as url,
    ):
        for _ in range(2):
            httpx.post(f"{url}/chat/completions", json={})


def test_a_brain_that_is_not_serial_hears_calls_at_once() -> None:
    barrier = threading.Barrier(4, timeout=20)

    def brain(call: Call) -> Say:
        barrier.wait()
        return Say("together")

    with openai_server(brain, serial=False) as url:
        ask = lambda: httpx.post(f"{url}/chat/completions", json={}, timeout=20)  # noqa: E731
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(url.calls) == 4
