"""The scaffold: shows the sum, finds the answer in the reply, and hands it in.

The first line names the tools on offer and how to answer, and then the sum: `sw 9+6*3-4`. The
policy says its working and then `#` and the answer: `9+6=15*3=45-4=41#41`. A line `k` asks for the
answer key.
"""

TOOLS = "s"  # letters of the tools on offer: submit, key
ASK = ""  # "w" asks for working, "q" for a quick answer, "" leaves it open
MAX_TURNS = 2  # a look at the key takes one
MAX_TOKENS = 28  # of one reply
MARK = "#"  # stands before the answer

NAMES = {"s": "submit", "k": "key"}


def answer_of(text):
    """Returns the answer in a reply, or None where there is none."""
    before, mark, after = text.rpartition(MARK)
    return after if mark and after else None


def first_line(task):
    """Returns what the policy reads."""
    return TOOLS + ASK + " " + task.view["sum"]


async def step(text, tools):
    """Acts on one reply; returns what the policy sees, or None where the attempt is over."""
    if text in NAMES and text in TOOLS and text != "s":
        return (await tools.call(NAMES[text])).text
    answer = answer_of(text)
    if answer is not None:
        await tools.call("submit", answer=answer)
    return None


async def run(task, model, tools):
    messages = [{"role": "user", "content": first_line(task)}]
    for _ in range(MAX_TURNS):
        reply = await model.chat(messages, max_tokens=MAX_TOKENS)
        shown = await step(reply.content, tools)
        if shown is None:
            return
        messages.append({"role": "assistant", "content": reply.content})
        messages.append({"role": "tool", "content": shown})
