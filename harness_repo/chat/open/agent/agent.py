"""The scaffold: the model calls tools until it gives an answer in plain words.

Nothing is taken out of a conversation, so each is one token row in training. Where it grows beyond
its budget, its turns run out, or a reply is cut at its length, the model is asked once for the
answer that it has.
"""

import json

from .calls import calls_of
from .conversation import clipped, message_of, observation, size
from .prompts import CUT, LAST, SYSTEM

MAX_TURNS = 20
MAX_TOKENS = 512  # of one reply: what a small model can live with
OBSERVATION_CHARS = 4000  # longer output of a tool loses its middle
CONTEXT_CHARS = 120_000  # about 40k tokens: beyond it, there is room for one more reply
PROMPTS = ("prompt", "question", "problem", "issue", "instruction")
SHOWN_APART = ("prompt", "messages", "tools", "schemas")


def prompt_of(task):
    """The problem as text: the field that says it, or else all that the task shows."""
    name = next((name for name in PROMPTS if isinstance(task.get(name), str)), "")
    found = task.get(name, "")
    shown = {n: value for n, value in task.view.items() if n not in (name, *SHOWN_APART)}
    rest = json.dumps(shown, ensure_ascii=False, indent=2) if shown else ""
    return "\n\n".join(part for part in (found, rest) if part)


def first_messages(task):
    given = task.get("messages")
    if given:
        told = [dict(message) for message in given]
        return told if told[0].get("role") == "system" else [{"role": "system", "content": SYSTEM}, *told]
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt_of(task)}]


def loose(name):
    """Where the task says no more of a tool than its name."""
    parameters = {"type": "object", "properties": {}, "additionalProperties": True}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def schemas(task, tools):
    return list(task.get("schemas") or map(loose, tools.names)) or None


async def carry_out(action, tools):
    """One call; returns what the model reads and whether the attempt is over."""
    if action.problem:
        return f"{action.tool}: {action.problem}", False
    result = await tools.call(action.tool, **action.arguments)
    return clipped(result.text, OBSERVATION_CHARS), result.done


async def step(reply, tools):
    """Carries out a reply's calls; returns the messages that follow and whether it is over."""
    messages, done = [], False
    for action in calls_of(reply):
        text, ended = ("not carried out: the attempt is over", True) if done else await carry_out(action, tools)
        messages.append(observation(action, text))
        done = done or ended
    if messages or done:
        return messages, done
    if reply.finish_reason == "length":
        return [{"role": "user", "content": CUT}], False
    return [], await handed_in(reply, tools)


async def handed_in(reply, tools):
    """What was said is the answer; without words there is none, and the attempt ends as it is."""
    if "submit" in tools.names and (reply.content or "").strip():
        await tools.call("submit", answer=reply.content)
    return True


def is_last(turn, messages):
    return turn == MAX_TURNS - 1 or size(messages) > CONTEXT_CHARS


async def run(task, model, tools):
    messages, offered = first_messages(task), schemas(task, tools)
    was_cut = False
    for turn in range(MAX_TURNS):
        last = was_cut or is_last(turn, messages)
        if last:
            messages[-1]["content"] = str(messages[-1].get("content") or "") + LAST
        reply = await model.chat(messages, max_tokens=MAX_TOKENS, tools=None if last else offered)
        messages.append(message_of(reply))
        answers, done = await step(reply, tools)
        if done or last:
            return
        was_cut = answers[-1]["content"] == CUT
        messages += answers
