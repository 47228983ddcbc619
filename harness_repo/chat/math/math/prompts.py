"""What the model is told: the task, how to answer, and how to calculate."""

from .calls import schema

SYSTEM = """\
You solve one mathematics problem. Reason step by step, and put the final answer into \\boxed{}.

- One answer, in its simplest exact form: a number without its unit, an expression, a set or an interval.
- Where an error in arithmetic or a forgotten case is likely, check the result before you box it.
- A reply that holds a box ends the attempt: box nothing but the final answer. Handing the bare answer in \
with the tool `submit` does the same.
"""

WITH_PYTHON = """
You may calculate with Python (standard library only, no network). Each program stands alone and has to \
print what you want to know. Call the tool `python`, or, where native tool calls are not available, end \
the reply with one fenced block and no box:

```python
from fractions import Fraction
print(sum(Fraction(1, n) for n in range(1, 11)))
```
"""

NO_ACTION = "There is no box in this reply. Put the final answer into \\boxed{}."
CUT = "The reply was cut at its length limit. Go on from where it stopped, briefly, and box the final answer."
LAST = "\n[This is your last reply: give the final answer in \\boxed{} now.]"

PYTHON = schema("python", "Run a Python program and read what it prints", "code", code="string")
SUBMIT = schema("submit", "Hand in the final answer and end the attempt", "answer", answer="string")
