"""The scaffold: one conversation, tool calls and what they gave, until the work is handed in."""

from .actions import actions_of
from .conversation import clipped, fitted, message_of, observation
from .prompts import CUT, EMPTY_HANDED, LAST_TURNS, NO_ACTION, SCHEMAS, SYSTEM, TASK

MAX_TURNS = 30
MAX_TOKENS = 1536  # of one reply
OBSERVATION_CHARS = 4000  # longer tool output loses its middle
CONTEXT_CHARS = 72_000  # about 24k tokens of code; older tool output is left out beyond it,
TRIMMED_CHARS = 48_000  # down to this much at once, so that a cached prefix breaks seldom
KEPT_OBSERVATIONS = 6  # the newest ones always stay
WARN_TURNS = 3


def first_messages(task):
    body = TASK.format(repo=task["repo"], issue=task["issue"])
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": body}]


class Attempt:
    """What the scaffold remembers. `touched`: something may have changed in the repository."""

    def __init__(self, tools):
        self.tools = tools
        self.touched = False
        self.reminded = False
        self.last_turn = False

    def hasty(self, action):
        """Whether this hands in nothing at all: the model is asked once if it means that."""
        asked = self.reminded or self.last_turn
        return action.tool == "submit" and not (self.touched or asked)


async def carry_out(action, attempt):
    """One call; returns what the model reads and whether the attempt is over."""
    if action.problem:
        return f"{action.tool}: {action.problem}", False
    if attempt.hasty(action):
        attempt.reminded = True
        return EMPTY_HANDED, False
    result = await attempt.tools.call(action.tool, **action.arguments)
    attempt.touched = attempt.touched or action.tool == "run" or (action.tool == "edit" and result.ok)
    return clipped(result.text, OBSERVATION_CHARS), result.done


async def step(reply, attempt, note):
    """Carries out a reply's calls; returns the messages that follow and whether it is over."""
    messages, done = [], False
    for action in actions_of(reply):
        text, ended = ("not carried out: the attempt is over", True) if done else await carry_out(action, attempt)
        messages.append(observation(action, text + note))
        done = done or ended
    if not messages:
        hint = CUT if reply.finish_reason == "length" else NO_ACTION
        messages.append({"role": "user", "content": hint + note})
    return messages, done


async def run(task, model, tools):
    messages, attempt = first_messages(task), Attempt(tools)
    for turn in range(MAX_TURNS):
        left = MAX_TURNS - turn - 1
        note = LAST_TURNS.format(left=left) if left <= WARN_TURNS else ""
        attempt.last_turn = left == 0
        shown = fitted(messages, CONTEXT_CHARS, TRIMMED_CHARS, KEPT_OBSERVATIONS)
        reply = await model.chat(shown, max_tokens=MAX_TOKENS, tools=SCHEMAS)
        messages.append(message_of(reply))
        answers, done = await step(reply, attempt, note)
        messages += answers
        if done:
            return
