"""Turns a reply into tool calls: native ones where the model made them, else one found in its text.

In text a call is a fenced block (the last one counts, for models like to show before they do), or
the JSON between <tool_call> tags that a server without a parser passes through. A block of plain
Python is code to hand in.
"""

import re

from .calls import Action, calls_of

TOOLS = ("test", "run", "submit")
PYTHON = ("python", "py", "python3")
FENCE = re.compile(r"^(`{3,})(\w+)[^\n]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
STDIN = re.compile(r"^-{3} ?stdin ?-{3}[ \t]*\n", re.MULTILINE)


def actions_of(reply):
    """The calls of a reply, in order; empty where there is none."""
    calls = calls_of(reply)
    if calls:
        return calls if reply.tool_calls else calls[-1:]
    blocks = [block for block in FENCE.finditer(reply.content or "") if block[2] in TOOLS or block[2] in PYTHON]
    return [fenced(blocks[-1])] if blocks else []


def fenced(block):
    """A fenced block: its first word is the tool, its body the code, and for `run` its input."""
    tool, body = block[2] if block[2] in TOOLS else "submit", block[3]
    if tool != "run":
        return Action(tool, {"code": body})
    code, *inputs = STDIN.split(body, maxsplit=1)
    return Action(tool, {"code": code, "stdin": inputs[0] if inputs else ""})
