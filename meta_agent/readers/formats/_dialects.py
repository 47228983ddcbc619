"""Messages of other dialects said in OpenAI's chat form, before they are parsed.

ShareGPT's `from` and `value`, the content blocks of Anthropic's Messages, the old `function_call`,
a refusal beside empty content. What is chat form already comes
back as it is; what is none of these does too, and the parser names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from meta_agent.core.protocols import JSON

_SPEAKERS: Final = {
    **{"human": "user", "user": "user", "system": "system"},
    **dict.fromkeys(("gpt", "chatgpt", "assistant", "model", "bot"), "assistant"),
    **dict.fromkeys(("tool", "observation", "function_response", "tool_response"), "tool"),
}
_THOUGHTS: Final = ("thinking", "reasoning")


def spoken(item: JSON) -> Iterator[JSON]:
    """One entry of a list of messages as the chat messages it holds, mostly one."""
    if not isinstance(item, dict):
        yield item
    elif "role" not in item and isinstance(item.get("from"), str):
        yield _of_sharegpt(item)
    elif isinstance(item.get("content"), list) and any(map(_is_block, item["content"])):
        yield from _of_blocks(item)
    else:
        yield _of_old(item)


def _of_sharegpt(item: dict[str, JSON]) -> JSON:
    speaker, said = item["from"], item.get("value")
    if speaker != "function_call":
        return {"role": _SPEAKERS.get(speaker, speaker), "content": said}
    try:
        call = json.loads(said) if isinstance(said, str) else said
    except ValueError:
        call = None
    calls = [{"function": one} for one in (call if isinstance(call, list) else [call])]
    return {"role": "assistant", "content": "", "tool_calls": calls if call else None}


def _of_old(item: dict[str, JSON]) -> JSON:
    """The fields that newer ones took the place of."""
    changes: dict[str, JSON] = {}
    if item.get("function_call") and not item.get("tool_calls"):
        changes["tool_calls"] = [{"function": item["function_call"]}]
    if not item.get("content") and isinstance(item.get("refusal"), str):
        changes["content"] = item["refusal"]
    if isinstance(item.get("reasoning"), str) and not item.get("reasoning_content"):
        changes["reasoning_content"] = item["reasoning"]
    return {**item, **changes} if changes else item


def _is_block(part: JSON) -> bool:
    kinds = ("tool_use", "tool_result", *_THOUGHTS)
    return isinstance(part, dict) and part.get("type") in kinds


def _of_blocks(item: dict[str, JSON]) -> Iterator[JSON]:
    """Results first, as they answer what was called before; then what was said beside them."""
    parts = item["content"]
    yield from (_result(part) for part in parts if _kind(part) == "tool_result")
    calls = [_call(part) for part in parts if _kind(part) == "tool_use"]
    thoughts = [_thought(part) for part in parts if _kind(part) in _THOUGHTS]
    rest = [part for part in parts if not _is_block(part)]
    if rest or calls or thoughts:
        message = {**item, "content": rest}
        message |= {"tool_calls": calls} if calls else {}
        yield message | ({"reasoning_content": "\n".join(thoughts)} if any(thoughts) else {})


def _kind(part: JSON) -> JSON:
    return part.get("type") if isinstance(part, dict) else None


def _result(part: dict[str, JSON]) -> JSON:
    failed = part.get("is_error") is True
    result = {"role": "tool", "content": part.get("content"), "is_error": failed}
    return {**result, "tool_call_id": str(part.get("tool_use_id") or "")}


def _call(part: dict[str, JSON]) -> JSON:
    function = {"name": part.get("name"), "arguments": part.get("input") or {}}
    return {"id": part.get("id"), "function": function}


def _thought(part: dict[str, JSON]) -> str:
    """Redacted thoughts have no text."""
    return next((part[n] for n in _THOUGHTS if isinstance(part.get(n), str)), "")
