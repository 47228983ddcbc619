"""The loopback model server: spoken to by the providers' own SDKs, and by clients that harm."""

from __future__ import annotations

import http.client
import importlib.util
import json
import queue
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import meta_agent.core.harness

if TYPE_CHECKING:
    import anthropic
    import openai

HERE = Path(meta_agent.core.harness.__file__).parent
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "sh", "arguments": '{"command":  "ls"}'},
}
USAGE = {"prompt_tokens": 11, "completion_tokens": 3}
OPENAI_TOOL: Any = {
    "type": "function",
    "function": {"name": "sh", "description": "Runs.", "parameters": {"type": "object"}},
}
ANTHROPIC_TOOL: Any = {"name": "sh", "description": "Runs.", "input_schema": {"type": "object"}}


def load(name: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


dialects = load("agent_dialects", "_dialects_guest.py")
endpoint = load("agent_endpoint", "_endpoint_guest.py")


class Served:
    """An endpoint, and a thread that answers what it queues by a list of replies."""

    def __init__(self) -> None:
        self.waiting: queue.Queue[Any] = queue.Queue()
        self.server = endpoint.Endpoint(self.waiting)
        self.base = f"http://127.0.0.1:{self.server.port}"
        self.replies: list[Any] = []
        self.asked: list[Any] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while (ask := self.waiting.get()) is not None:
            self.asked.append(ask.request)
            reply = self.replies.pop(0) if self.replies else None
            if reply is None:
                ask.refuse(
                    endpoint.Refusal(endpoint.OVER_STATUS, endpoint.OVER, endpoint.OVER_TEXT)
                )
            else:
                ask.answer(reply)

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        try:
            connection.request("POST", path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def openai(self) -> openai.OpenAI:
        import openai

        return openai.OpenAI(base_url=f"{self.base}/v1", api_key="x", max_retries=0)

    def anthropic(self) -> anthropic.Anthropic:
        import anthropic

        return anthropic.Anthropic(base_url=self.base, api_key="x", max_retries=0)

    def close(self) -> None:
        self.waiting.put(None)
        self._thread.join()
        self.server.stop()


@pytest.fixture
def served() -> Iterator[Served]:
    held = Served()
    yield held
    held.close()


ASK: Any = [{"role": "system", "content": "s"}, {"role": "user", "content": "list"}]


def test_openai_whole_replies_and_tools(served: Served) -> None:
    served.replies = [["", "tool_calls", [CALL], USAGE], ["Done.", "stop", [], USAGE]]
    with served.openai() as client:
        first = client.chat.completions.create(model="m", messages=ASK, tools=[OPENAI_TOOL])
        message = first.choices[0].message
        assert first.choices[0].finish_reason == "tool_calls"
        assert message.tool_calls and first.usage and first.usage.total_tokens == 14
        told: Any = [*ASK, message.model_dump(exclude_none=True)]
        told.append(
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a"}]}
        )
        second = client.chat.completions.create(model="m", messages=told, max_tokens=9)
    assert second.choices[0].message.content == "Done."
    assert served.asked[0].tools == [OPENAI_TOOL] and served.asked[1].max_tokens == 9
    assert served.asked[1].messages[2:] == [
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "a"},
    ]


def test_openai_streams(served: Served) -> None:
    served.replies = [["Look.", "tool_calls", [CALL], USAGE]]
    text, arguments, reasons, tokens = "", "", [], 0
    with served.openai() as client:
        stream = client.chat.completions.create(
            model="m", messages=ASK, stream=True, stream_options={"include_usage": True}
        )
        for chunk in stream:
            tokens = chunk.usage.total_tokens if chunk.usage else tokens
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or ():
                    arguments += (call.function and call.function.arguments) or ""
                reasons.append(choice.finish_reason)
    assert (text, json.loads(arguments), reasons[-1], tokens) == (
        "Look.",
        {"command": "ls"},
        "tool_calls",
        14,
    )


def test_anthropic_whole_replies_and_the_way_back(served: Served) -> None:
    served.replies = [["Look.", "tool_calls", [CALL], USAGE], ["Done.", "stop", [], USAGE]]
    messages: Any = [{"role": "user", "content": "list"}]
    with served.anthropic() as client:
        first = client.messages.create(
            model="m", system="s", messages=messages, tools=[ANTHROPIC_TOOL], max_tokens=50
        )
        assert first.stop_reason == "tool_use" and first.usage.input_tokens == 11
        assert first.content[1].type == "tool_use" and first.content[1].input == {"command": "ls"}
        messages.append({"role": "assistant", "content": first.content})
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "a"}
        messages.append({"role": "user", "content": [result, {"type": "text", "text": "Well?"}]})
        client.messages.create(model="m", system="s", messages=messages, max_tokens=50)
    assert served.asked[0].tools == [OPENAI_TOOL] and served.asked[0].max_tokens == 50
    # The arguments come back letter by letter, though the SDK had parsed them.
    assert served.asked[1].messages == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "list"},
        {"role": "assistant", "content": "Look.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "a"},
        {"role": "user", "content": "Well?"},
    ]


def test_anthropic_streams_with_tools(served: Served) -> None:
    served.replies = [["Look.", "tool_calls", [CALL], USAGE]]
    with (
        served.anthropic() as client,
        client.messages.stream(
            model="m", messages=[{"role": "user", "content": "x"}], max_tokens=50
        ) as stream,
    ):
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["text", "tool_use"]
    assert final.content[1].type == "tool_use" and final.content[1].input == {"command": "ls"}
    assert (final.stop_reason, final.usage.output_tokens) == ("tool_use", 3)


def test_thinking_is_left_out_and_counting_is_answered(served: Served) -> None:
    served.replies = [["Done.", "length", [], USAGE]]
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    said: Any = [thinking, {"type": "text", "text": "Hm."}]
    messages: Any = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "y"},
    ]
    with served.anthropic() as client:
        counted = client.messages.count_tokens(model="m", messages=messages)
        reply = client.messages.create(model="m", messages=messages, max_tokens=5)
    assert counted.input_tokens > 0 and reply.stop_reason == "max_tokens"
    assert served.asked[0].messages[1] == {"role": "assistant", "content": "Hm."}


def test_an_attempt_that_is_over_is_an_error_no_sdk_retries(served: Served) -> None:
    import anthropic
    import openai

    with (
        served.openai() as client,
        pytest.raises(openai.PermissionDeniedError, match="attempt is over"),
    ):
        client.chat.completions.create(model="m", messages=ASK)
    with (
        served.anthropic() as other,
        pytest.raises(anthropic.PermissionDeniedError, match="attempt_over"),
    ):
        other.messages.create(model="m", messages=ASK[1:], max_tokens=5)
    assert len(served.asked) == 2


CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("path", "bodies", "status"),
    [
        (
            CHAT,
            (
                *(b"{", b"[1]", b"{}", b"[" * 100_000, b'{"messages": [7]}'),
                b'{"messages": [{"role": "user", "content": 5}]}',
                b'{"messages": [{"role": "user", "content": ""}], "n": 2}',
                b'{"messages": [{"role": "user"}], "max_tokens": -1}',
                b'{"messages": [{"role": "user"}], "stream_options": 3}',
            ),
            400,
        ),
        ("/v1/responses", (b"{}",), 404),
        (
            "/v1/messages",
            (
                b'{"messages": [{"role": "user", "content": 5}]}',
                b'{"messages": [{"role": "user", "content": [{"type": "image"}]}]}',
                b'{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "bash_x"}]}',
            ),
            400,
        ),
    ],
)
def test_what_cannot_be_relayed_is_refused(
    served: Served, path: str, bodies: tuple[bytes, ...], status: int
) -> None:
    for body in bodies:
        found, text = served.post(path, body)
        assert (found, served.asked) == (status, []), text


@pytest.mark.parametrize("length", ["10000000000", "-1", "x", "9" * 30])
def test_a_body_of_any_announced_size_is_not_read(served: Served, length: str) -> None:
    with socket.create_connection(("127.0.0.1", served.server.port), timeout=20) as raw:
        raw.sendall(f"POST {CHAT} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
        assert b" 413 " in raw.makefile("rb").readline()


@pytest.mark.parametrize(
    "raw_bytes",
    [b"\x00" * 5000, b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"A" * 70_000 + b"\r\n\r\n"],
)
def test_what_is_not_http_breaks_nothing(served: Served, raw_bytes: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.server.port), timeout=20) as raw:
        raw.sendall(raw_bytes)
    served.replies = [["Done.", "stop", [], USAGE]]
    with served.openai() as client:
        assert client.chat.completions.create(model="m", messages=ASK).choices


def test_connections_that_say_nothing_take_no_more_than_their_seats(served: Served) -> None:
    before = threading.active_count()
    idle = [
        socket.create_connection(("127.0.0.1", served.server.port), timeout=20)
        for _ in range(endpoint.MAX_CONNECTIONS)
    ]
    try:
        extra = socket.create_connection(("127.0.0.1", served.server.port), timeout=20)
        assert extra.recv(1) == b""  # turned away at once
        extra.close()
        assert threading.active_count() <= before + endpoint.MAX_CONNECTIONS
    finally:
        for connection in idle:
            connection.close()


def test_the_endpoint_listens_on_loopback_only(served: Served) -> None:
    assert served.server.server_address[0] == "127.0.0.1"
