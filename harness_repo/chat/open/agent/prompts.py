"""What the model is told beside the task itself."""

SYSTEM = """\
You do one task. Work step by step, and use the tools that you are given where they help.

- Look things up instead of guessing, and check a result before you rely on it.
- Your last reply, without a tool call, is the answer: say what was asked for, and nothing else.
"""

CUT = "The reply was cut at its length limit."
LAST = "\n[This is your last reply: give the answer now, without a tool call.]"
