"""Tool calls: how the model is told of them, and those that it made, natively or as JSON between tags."""

import json
import re

TAGGED = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


class Action:
    """One call. `call_id` is the native call's, or None; `problem` says why it cannot be made."""

    def __init__(self, tool, arguments, call_id=None, problem=""):
        self.tool = tool
        self.arguments = arguments
        self.call_id = call_id
        self.problem = problem


def native(call):
    """A native call; its arguments are a JSON text that the model wrote, so they may be broken."""
    function = call.get("function", {})
    name, text = str(function.get("name", "")), function.get("arguments") or "{}"
    try:
        arguments = json.loads(text) if isinstance(text, str) else dict(text)
    except (ValueError, TypeError):
        arguments = None
    if not isinstance(arguments, dict):
        return Action(name, {}, call.get("id"), "the arguments are not a JSON object")
    return Action(name, arguments, call.get("id"))


def calls_of(reply):
    """A reply's native calls in order, else those between tags, which a server without a parser passes through."""
    if reply.tool_calls:
        return [native(call) for call in reply.tool_calls]
    return [tagged(found[1]) for found in TAGGED.finditer(reply.content or "")]


def tagged(text):
    """A call that the model wrote as JSON: {"name", "arguments"}."""
    try:
        function = json.loads(text)
        function = {**function, "arguments": json.dumps(function.get("arguments") or {})}
    except (ValueError, TypeError):
        return Action("tool_call", {}, problem="what stands between the tags is not a JSON object")
    return native({"function": function})


def schema(name, description, required="", **properties):
    """A tool in OpenAI's form; `required` names the arguments that it cannot do without."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in properties.items()},
                "required": required.split(),
            },
        },
    }
