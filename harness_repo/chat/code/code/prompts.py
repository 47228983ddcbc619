"""What the model is told: the task, the rules, the tools, and how to call them."""

from .calls import schema

SYSTEM = """\
You solve one programming problem in Python 3 (standard library only). Work in small steps: think about the \
input's limits and corner cases, write the code, test it, then submit it.

Rules
- Hidden tests decide. They are more and larger than the examples: be right for every input that the \
problem allows, and fast enough for the largest.
- Submit whole code each time, with its imports; never a part or a difference.
- A program reads standard input and prints the answer and nothing else. A function is only defined, not called.

Tools
- test(code): the examples of the problem, where it states any
- run(code, stdin): any program, on an input of your own
- submit(code): hands in the code and ends the attempt

Call a tool in every reply; several native calls are carried out in their order. Where native tool calls are not available, end the reply with one fenced block \
whose first word is the tool. For `run`, what follows a line `--- stdin ---` is the input:

```test
print(sum(map(int, input().split())))
```
```run
print(sum(map(int, input().split())))
--- stdin ---
1 2 3
```
```submit
print(sum(map(int, input().split())))
```
"""

PROGRAM = "Write a program that reads standard input and prints to standard output.\n\n{problem}"
FUNCTION = "Write the function `{entry_point}`.\n\n{problem}"
STARTER = "\n\nBegin with this:\n\n```\n{starter}\n```"
NO_EXAMPLES = "\n\nThere are no examples that `test` could run: use `run` with inputs of your own."

UNTRIED = "This code has never been run. Run or test it first; submit it again if it is right."
NO_ACTION = "No tool was called. Call one tool: test, run or submit."
CUT = "The reply was cut at its length limit before it called a tool. Be brief and call one tool."
LAST_TURNS = "\n[{left} turns left: submit before they run out]"

SCHEMAS = [
    schema("test", "Run code on the examples that the problem states", "code", code="string"),
    schema("run", "Run a program on an input", "code", code="string", stdin="string"),
    schema("submit", "Hand in the code and end the attempt", "code", code="string"),
]
