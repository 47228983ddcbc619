"""The scaffold: shows the sum, finds the answer in the reply, and hands it in.

The first line names the tools on offer and how to answer, and then the sum: `sw 9+6*3-4`. The
policy says its working and then `#` and the answer: `9+6=15*3=45-4=41#41`. A line `k` asks for the
answer key.
"""

TOOLS = "s"  # letters of the tools on offer: submit, key
ASK = "w"  # "w" asks for working, "q" for a quick answer, "" leaves it open
MAX_TURNS = 2  # a look at the key takes one
MAX_TOKENS = 56  # of one reply
MARK = "#"  # stands before the answer

NAMES = {"s": "submit", "k": "key"}


def answer_of(text):
    """Returns the marked answer of a reply, else its last total, or None where there is none."""
    after = text.rpartition(MARK if MARK in text else "=")[2]
    return after if after.isdecimal() else None


def first_line(task):
    """Returns what the policy reads."""
    return TOOLS + ASK + " " + task.view["sum"]


async def step(reply, tools):
    """Acts on one reply; returns what the policy sees, or None where the attempt is over."""
    text = reply.content
    if text in NAMES and text in TOOLS and text != "s":
        return (await tools.call(NAMES[text])).text
    # A reply that was cut may end in the middle of a number: better no answer than a wrong one.
    answer = None if reply.finish_reason == "length" else answer_of(text)
    if answer is not None:
        await tools.call("submit", answer=answer)
    return None


async def run(task, model, tools):
    messages = [{"role": "user", "content": first_line(task)}]
    for _ in range(MAX_TURNS):
        reply = await model.chat(messages, max_tokens=MAX_TOKENS)
        shown = await step(reply, tools)
        if shown is None:
            return
        messages.append({"role": "assistant", "content": reply.content})
        messages.append({"role": "tool", "content": shown})
