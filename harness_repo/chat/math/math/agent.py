"""The scaffold: the model reasons, may run programs, and ends with a boxed answer.

Nothing is taken out of a conversation, so each is one token row in training. Where it grows beyond
its budget, or its turns run out, the model is asked for the answer that it has.
"""

from .actions import actions_of
from .conversation import clipped, message_of, observation, size
from .prompts import CUT, LAST, NO_ACTION, PYTHON, SUBMIT, SYSTEM, WITH_PYTHON

MAX_TURNS = 6
MAX_TOKENS = 4096  # of one reply
OBSERVATION_CHARS = 2000  # longer output of a program loses its middle
CONTEXT_CHARS = 60_000  # about 20k tokens: beyond it, there is room for one more reply


def first_messages(task, tools):
    system = SYSTEM + WITH_PYTHON if "python" in tools.names else SYSTEM
    return [{"role": "system", "content": system}, {"role": "user", "content": task["problem"]}]


def schemas(tools):
    return [PYTHON, SUBMIT] if "python" in tools.names else [SUBMIT]


async def carry_out(action, tools):
    """One call; returns what the model reads and whether the attempt is over."""
    if action.problem:
        return f"{action.tool}: {action.problem}", False
    result = await tools.call(action.tool, **action.arguments)
    return clipped(result.text, OBSERVATION_CHARS), result.done


async def step(reply, tools):
    """Carries out a reply's calls; returns the messages that follow and whether it is over."""
    messages, done = [], False
    for action in actions_of(reply):
        text, ended = ("not carried out: the attempt is over", True) if done else await carry_out(action, tools)
        messages.append(observation(action, text))
        done = done or ended
    if not messages:
        messages.append({"role": "user", "content": CUT if reply.finish_reason == "length" else NO_ACTION})
    return messages, done


def is_last(turn, messages):
    return turn == MAX_TURNS - 1 or size(messages) > CONTEXT_CHARS


async def run(task, model, tools):
    messages = first_messages(task, tools)
    for turn in range(MAX_TURNS):
        last = is_last(turn, messages)
        if last:
            messages[-1]["content"] += LAST
        reply = await model.chat(messages, max_tokens=MAX_TOKENS, tools=schemas(tools))
        messages.append(message_of(reply))
        answers, done = await step(reply, tools)
        if done or last:
            return
        messages += answers
