"""The scaffold: one request, and the reply as it is."""

from .prompts import SYSTEM

MAX_TOKENS = 512  # of the reply


async def run(task, model, tools):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task["prompt"]}]
    reply = await model.chat(messages, max_tokens=MAX_TOKENS)
    await tools.call("submit", answer=reply.content or "")
