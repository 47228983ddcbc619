"""The scaffold: shows the issue, reads one action per line, and answers with one short line.

The policy says `v` to see the code, `e35` to put a 5 at position 3, `t` to run the tests, `s` to
submit. The first line names the tools on offer, and then the issue: `vets 3?`.
"""

TOOLS = "vets"  # letters of the tools on offer: view, edit, test, log, submit
MAX_TURNS = 8
MAX_TOKENS = 6  # of one reply; the longest action and its newline are four
OBSERVATION_CHARS = 16  # longer tool output is cut
AUTO_VIEW = False  # put the code into the first line

NAMES = {"v": "view", "e": "edit", "t": "test", "l": "log", "s": "submit"}


def parse(action):
    """Returns (tool, arguments), or None where the line is no action on offer."""
    letter, rest = action[:1], action[1:]
    if letter not in NAMES or letter not in TOOLS:
        return None
    if letter == "e":
        return ("edit", {"position": rest[0], "char": rest[1]}) if len(rest) == 2 else None
    return None if rest else (NAMES[letter], {})


async def first_line(task, tools):
    """Returns what the policy reads before its first action."""
    line = TOOLS + " " + task.view["issue"]
    if AUTO_VIEW:
        line += " " + (await tools.call("view")).text
    return line


async def step(action, tools):
    """Carries out one action; returns what the policy sees and whether the attempt is over."""
    call = parse(action)
    if call is None:
        return "no", False
    name, arguments = call
    result = await tools.call(name, **arguments)
    return result.text[:OBSERVATION_CHARS], result.done


async def run(task, model, tools):
    messages = [{"role": "user", "content": await first_line(task, tools)}]
    for _ in range(MAX_TURNS):
        reply = await model.chat(messages, max_tokens=MAX_TOKENS)
        text, done = await step(reply.content, tools)
        messages.append({"role": "assistant", "content": reply.content})
        messages.append({"role": "tool", "content": text})
        if done:
            return
