"""Turns a reply into tool calls: native ones where the model made them, else one found in its text.

In text a call is a fenced block (the last one counts, for models like to show before they do), or
the JSON between <tool_call> tags that a server without a parser passes through.
"""

import re

from .calls import Action, calls_of

TOOLS = ("view", "search", "edit", "run", "test", "submit")
SHELLS = ("bash", "sh", "shell", "console")  # a block in one of these is a command
FENCE = re.compile(r"^(`{3,})(\w+)([^\n]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
EDIT = re.compile(r"^<{3,} ?old\n(.*?)^={3,}\n(.*?)^>{3,} ?new", re.MULTILINE | re.DOTALL)


def actions_of(reply):
    """The calls of a reply, in order; empty where there is none."""
    if reply.tool_calls:
        return calls_of(reply)
    found = FENCE.finditer(reply.content or "")
    blocks = [block for block in found if block[2] in TOOLS or block[2] in SHELLS]
    return [fenced(blocks[-1])] if blocks else calls_of(reply)[-1:]


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
