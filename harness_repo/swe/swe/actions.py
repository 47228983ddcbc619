"""Turns a reply into tool calls: native ones where the model made them, else one found in its text.

In text a call is a fenced block (the last one counts, for models like to show before they do), or
the JSON between <tool_call> tags that a server without a parser passes through.
"""

import json
import re

TOOLS = ("view", "search", "edit", "run", "test", "submit")
SHELLS = ("bash", "sh", "shell", "console")  # a block in one of these is a command
FENCE = re.compile(r"^(`{3,})(\w+)([^\n]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
TAGGED = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
EDIT = re.compile(r"^<{3,} ?old\n(.*?)^={3,}\n(.*?)^>{3,} ?new", re.MULTILINE | re.DOTALL)


class Action:
    """One call. `call_id` is the native call's, or None; `problem` says why it cannot be made."""

    def __init__(self, tool, arguments, call_id=None, problem=""):
        self.tool = tool
        self.arguments = arguments
        self.call_id = call_id
        self.problem = problem


def actions_of(reply):
    """The calls of a reply, in order; empty where there is none."""
    if reply.tool_calls:
        return [native(call) for call in reply.tool_calls]
    text = reply.content or ""
    blocks = [block for block in FENCE.finditer(text) if block[2] in TOOLS or block[2] in SHELLS]
    if blocks:
        return [fenced(blocks[-1])]
    return [tagged(block[1]) for block in list(TAGGED.finditer(text))[-1:]]


def tagged(text):
    """A call that the model wrote as JSON: {"name", "arguments"}."""
    try:
        function = json.loads(text)
        function = {**function, "arguments": json.dumps(function.get("arguments") or {})}
    except (ValueError, TypeError):
        return Action("tool_call", {}, problem="what stands between the tags is not a JSON object")
    return native({"function": function})


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


def fenced(block):
    """A fenced block: its head holds the tool and what fits on a line, its body the rest."""
    tool, head, body = block[2], block[3].split(), block[4]
    tool = "run" if tool in SHELLS else tool
    return READERS[tool](tool, head, body)


def read_view(tool, head, body):
    arguments = {"path": head[0] if head else "."}
    for name, number in zip(("start", "end"), re.findall(r"\d+", " ".join(head[1:]))):
        arguments[name] = int(number)
    return Action(tool, arguments)


def read_search(tool, head, body):
    return Action(tool, {"pattern": body.rstrip("\n"), "path": head[0] if head else "."})


def read_edit(tool, head, body):
    found = EDIT.search(body)
    if not head or not found:
        return Action(tool, {}, problem="an edit needs a path and the marks <<<<<<< old ======= >>>>>>> new")
    return Action(tool, {"path": head[0], "old": found[1], "new": found[2]})


def read_run(tool, head, body):
    return Action(tool, {"command": "\n".join(part for part in (" ".join(head), body.strip()) if part)})


def read_test(tool, head, body):
    paths = " ".join([*head, *body.split()])
    return Action(tool, {"paths": paths} if paths else {})


def read_submit(tool, head, body):
    return Action(tool, {})


READERS = {
    "view": read_view,
    "search": read_search,
    "edit": read_edit,
    "run": read_run,
    "test": read_test,
    "submit": read_submit,
}
