"""Guest module `agent_dialects`: translates between agents' SDKs and the host. Stdlib only.

Knows two dialects, OpenAI's chat completions and Anthropic's messages, each as whole replies and as
streams of events. Requests become one form (OpenAI's messages and tool schemas), which the host
understands. A reply of the host becomes what the agent's SDK expects.
Left out on purpose: sampling settings, `stop` and `tool_choice` (the evaluator sets sampling), and
the thinking of earlier turns. Refused: images and other parts that are not text, several choices.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Json = Any
Message = dict[str, Any]
Event = tuple[str, Json]  # a name (empty in OpenAI's streams) and what it carries

NOT_TEXT = "only text is relayed here, not {}"
KINDS = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "not_found_error",
    411: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
ANTHROPIC_STOPS = {"tool_calls": "tool_use", "length": "max_tokens"}


class BadRequest(ValueError):  # noqa: N818 - HTTP's own name for it
    """Raised when an agent's request cannot be relayed; the message says what is wrong with it."""


class Request:
    """An agent's model request in OpenAI's form, whichever SDK sent it; `body` is its JSON."""

    def __init__(
        self, messages: list[Message], tools: list[Json] | None, max_tokens: int | None, body: Json
    ) -> None:
        self.messages = messages
        self.tools = tools
        self.max_tokens = max_tokens
        self.model = str(body.get("model") or "policy")[:200]
        self.stream = body.get("stream") is True
        self.wants_usage = (body.get("stream_options") or {}).get("include_usage") is True


class Reply:
    """The host's reply: its `answer` is a list of content, finish reason, tool calls and usage."""

    def __init__(self, number: int, model: str, answer: list[Json]) -> None:
        self.number = number
        self.model = model
        self.content, self.finish_reason, self.tool_calls = answer[:3]
        usage = answer[3] if len(answer) > 3 else {}
        self.prompt_tokens = int(usage.get("prompt_tokens", 0))
        self.completion_tokens = int(usage.get("completion_tokens", 0))


# --- OpenAI ------------------------------------------------------------------------------------


class OpenAi:
    """Reads an agent's OpenAI chat requests, and writes the host's replies as chat completions."""

    def read(self, body: Json) -> Request:
        """Returns a request's JSON as a Request. Raises BadRequest if it cannot be relayed."""
        if body.get("n") not in (None, 1):
            raise BadRequest("only one choice per request is supported; set n to 1")
        messages = [openai_message(message) for message in listing(body, "messages")]
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        return Request(messages, body.get("tools") or None, positive(limit), body)

    def reply(self, answer: Reply) -> Json:
        """Returns the host's reply as one OpenAI chat completion."""
        message: Message = {"role": "assistant", "content": answer.content or None}
        if answer.tool_calls:
            message["tool_calls"] = answer.tool_calls
        choice = {"index": 0, "message": message, "finish_reason": openai_stop(answer)}
        return {
            **openai_head(answer, "chat.completion"),
            "choices": [choice],
            "usage": usage(answer),
        }

    def events(self, answer: Reply, wants_usage: bool) -> Iterator[Event]:
        """Yields the host's reply as OpenAI stream events; `wants_usage` adds token counts."""
        head = openai_head(answer, "chat.completion.chunk")
        deltas: list[Json] = [{"role": "assistant", "content": answer.content or None}]
        deltas += [
            {"tool_calls": [{"index": at, **call}]} for at, call in enumerate(answer.tool_calls)
        ]
        for delta in deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            yield "", {**head, "choices": [choice]}
        last = {"index": 0, "delta": {}, "finish_reason": openai_stop(answer)}
        yield "", {**head, "choices": [last]}
        if wants_usage:
            yield "", {**head, "choices": [], "usage": usage(answer)}

    def error(self, status: int, code: str, text: str) -> Json:
        """Returns an error as the JSON body that OpenAI's SDK reads."""
        return {"error": {"message": text, "type": KINDS[status], "code": code}}


def openai_message(message: Json) -> Message:
    """Returns a message with the fields that the host takes. Raises BadRequest if it is invalid."""
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ("system", "developer", "user", "assistant", "tool"):
        raise BadRequest(f"a message with the role {role!r:.40}")
    clean: Message = {"role": "system" if role == "developer" else role}
    clean["content"] = text_of(message.get("content"))
    if role == "assistant" and message.get("tool_calls"):
        clean["tool_calls"] = [openai_call(call) for call in message["tool_calls"]]
    if role == "tool":
        clean["tool_call_id"] = str(message.get("tool_call_id"))
    return clean


def openai_call(call: Json) -> Json:
    """Returns a tool call's id, name and arguments. Raises BadRequest if one of them is missing."""
    try:
        function = call["function"]
        name_and_arguments = {
            "name": str(function["name"]),
            "arguments": str(function["arguments"]),
        }
        return {"id": str(call["id"]), "type": "function", "function": name_and_arguments}
    except (KeyError, TypeError) as error:
        raise BadRequest(f"a tool call lacks {error}; send id, name and arguments") from error


def openai_head(answer: Reply, kind: str) -> Json:
    """Returns the first fields of an OpenAI reply or stream chunk; `kind` is its `object` field."""
    number = f"chatcmpl-{answer.number}"
    return {"id": number, "object": kind, "created": answer.number, "model": answer.model}


def openai_stop(answer: Reply) -> str:
    """Returns a reply's `finish_reason` in OpenAI's words: `tool_calls` if it calls tools."""
    return "tool_calls" if answer.tool_calls else answer.finish_reason


def usage(answer: Reply) -> Json:
    """Returns a reply's token counts under OpenAI's names."""
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }


# --- Anthropic ---------------------------------------------------------------------------------


class Anthropic:
    """Translates Anthropic requests and replies. It keeps tool calls as the policy wrote them."""

    def __init__(self) -> None:
        self._calls: dict[str, Json] = {}

    def read(self, body: Json) -> Request:
        """Returns a request's JSON as a Request. Raises BadRequest if it cannot be relayed."""
        messages: list[Message] = []
        if body.get("system"):
            messages.append({"role": "system", "content": text_of(body["system"])})
        for message in listing(body, "messages"):
            messages += self._messages(message)
        tools = [anthropic_tool(tool) for tool in body.get("tools") or ()]
        return Request(messages, tools or None, positive(body.get("max_tokens")), body)

    def _messages(self, message: Json) -> Iterable[Message]:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant", "system"):
            raise BadRequest(f"a message with the role {role!r:.40}")
        blocks = message.get("content")
        if isinstance(blocks, str):
            return [{"role": role, "content": blocks}]
        if not isinstance(blocks, list) or not all(isinstance(b, dict) for b in blocks):
            raise BadRequest("a message's content must be a string or a list of blocks")
        return self._assistant(blocks) if role == "assistant" else user_messages(role, blocks)

    def _assistant(self, blocks: list[Json]) -> list[Message]:
        spoken = [b for b in blocks if b.get("type") not in ("thinking", "redacted_thinking")]
        calls = [self._call(block) for block in spoken if block.get("type") == "tool_use"]
        text = text_of([block for block in spoken if block.get("type") != "tool_use"])
        message: Message = {"role": "assistant", "content": text}
        return [{**message, "tool_calls": calls} if calls else message]

    def _call(self, block: Json) -> Json:
        relayed = self._calls.get(str(block.get("id")))
        if relayed is not None and arguments(relayed) == block.get("input"):
            return relayed  # letter by letter what the policy wrote
        text = json.dumps(block.get("input"), ensure_ascii=False)
        function = {"name": str(block.get("name")), "arguments": text}
        return {"id": str(block.get("id")), "type": "function", "function": function}

    def reply(self, answer: Reply) -> Json:
        """Returns the host's reply as one Anthropic message."""
        blocks: list[Json] = [{"type": "text", "text": answer.content}] if answer.content else []
        for call in answer.tool_calls:
            self._calls[str(call.get("id"))] = call
            name = call["function"]["name"]
            use = {"type": "tool_use", "id": call["id"], "name": name, "input": arguments(call)}
            blocks.append(use)
        return {
            "id": f"msg_{answer.number}",
            "type": "message",
            "role": "assistant",
            "model": answer.model,
            "content": blocks,
            "stop_reason": self._stop(answer),
            "stop_sequence": None,
            "usage": {
                "input_tokens": answer.prompt_tokens,
                "output_tokens": answer.completion_tokens,
            },
        }

    def _stop(self, answer: Reply) -> str:
        reason = "tool_calls" if answer.tool_calls else answer.finish_reason
        return ANTHROPIC_STOPS.get(reason, "end_turn")

    def events(self, answer: Reply, wants_usage: bool) -> Iterator[Event]:
        """Yields the host's reply as Anthropic stream events; `wants_usage` is ignored."""
        whole = self.reply(answer)
        empty = {**whole, "content": [], "stop_reason": None}
        yield "message_start", {"type": "message_start", "message": empty}
        for at, block in enumerate(whole["content"]):
            start, delta = opened(block)
            for name, part in (("start", {"content_block": start}), ("delta", {"delta": delta})):
                kind = f"content_block_{name}"
                yield kind, {"type": kind, "index": at, **part}
            yield "content_block_stop", {"type": "content_block_stop", "index": at}
        delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": delta, "usage": whole["usage"]}
        yield "message_stop", {"type": "message_stop"}

    def error(self, status: int, code: str, text: str) -> Json:
        """Returns an error as the JSON body that Anthropic's SDK reads."""
        details = {"type": KINDS[status], "message": f"{text} ({code})"}
        return {"type": "error", "error": details}


def user_messages(role: str, blocks: list[Json]) -> list[Message]:
    """Returns a user's content blocks as messages: first each tool result, then all text as one."""
    results = [block for block in blocks if block.get("type") == "tool_result"]
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    messages: list[Message] = [
        {
            "role": "tool",
            "tool_call_id": str(block.get("tool_use_id")),
            "content": text_of(block.get("content")),
        }
        for block in results
    ]
    return [*messages, {"role": role, "content": text_of(rest)}] if rest else messages


def anthropic_tool(tool: Json) -> Json:
    """Returns an Anthropic tool in OpenAI's form. Raises BadRequest if it lacks `input_schema`."""
    if not isinstance(tool, dict) or "input_schema" not in tool:
        kind = tool.get("type") if isinstance(tool, dict) else tool
        raise BadRequest(f"the tool {kind!r:.60} has no input_schema; only such tools are relayed")
    function = {
        "name": str(tool.get("name")),
        "description": str(tool.get("description") or ""),
        "parameters": tool["input_schema"],
    }
    return {"type": "function", "function": function}


def opened(block: Json) -> tuple[Json, Json]:
    """Returns a content block as a stream sends it: empty, and the one delta that fills it."""
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    text = json.dumps(block["input"], ensure_ascii=False)
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": text}


# --- both --------------------------------------------------------------------------------------


def arguments(call: Json) -> Json:
    """Returns a tool call's arguments as a dict; `{"unreadable_arguments": TEXT}` if no dict."""
    text = call["function"]["arguments"]
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"unreadable_arguments": text}


def text_of(content: Json) -> str:
    """Returns a message's content as one text. Raises BadRequest if a part of it is not text."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise BadRequest(NOT_TEXT.format(type(content).__name__))
    return "".join(part_text(part) for part in content)


def part_text(part: Json) -> str:
    """Returns the text of one content part. Raises BadRequest if the part is not text."""
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) else None
    if not isinstance(text, str):
        kind = part.get("type") if isinstance(part, Mapping) else part
        raise BadRequest(NOT_TEXT.format(f"{kind!r:.60}"))
    return text


def listing(body: Json, name: str) -> list[Json]:
    """Returns the list `body[name]`. Raises BadRequest if it is missing, empty or no list."""
    value = body.get(name)
    if not isinstance(value, list) or not value:
        raise BadRequest(f"{name} must be a list that is not empty")
    return value


def positive(value: Json) -> int | None:
    """Returns a token limit, or None if none was set. Raises BadRequest unless it is at least 1."""
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise BadRequest(f"the token limit must be a whole number from 1, not {value!r:.40}")
    return value


DIALECTS = {"/v1/chat/completions": OpenAi, "/v1/messages": Anthropic}
OPERATIONS: dict[str, Any] = {}
