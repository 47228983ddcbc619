"""Turns a reply into tool calls: native ones where the model made them, else one fenced block."""

import json
import re

TOOLS = ("view", "search", "edit", "run", "test", "submit")
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
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
    blocks = [block for block in FENCE.finditer(reply.content or "") if block[1] in TOOLS]
    return [fenced(blocks[-1])] if blocks else []


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
    tool, head, body = block[1], block[2].split(), block[3]
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
