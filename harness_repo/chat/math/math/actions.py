"""Says what a reply does: native calls where the model made them, else what stands last in its text.

A box that stands after every block of Python is the answer; a block after every box is a program to
run, for a model that boxes a result and then writes a check of it has not finished. JSON between
<tool_call> tags, which a server without a parser passes through, counts as a native call.
"""

import re

from .calls import Action, calls_of

BLOCK = re.compile(r"^```(?:python|py|python3)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
BOX = re.compile(r"\\(?:boxed|fbox)\b")


def actions_of(reply):
    """The calls of a reply, in order; empty where there is none."""
    calls = calls_of(reply)
    if calls:
        return calls if reply.tool_calls else calls[-1:]
    return written(reply.content or "")


def written(text):
    """The program or the answer that a text ends in."""
    blocks, boxes = list(BLOCK.finditer(text)), list(BOX.finditer(text))
    if boxes and (not blocks or boxes[-1].start() > blocks[-1].start()):
        return [Action("submit", {"text": text})]
    return [Action("python", {"code": blocks[-1][1]})] if blocks else []
