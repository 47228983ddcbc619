"""What the model is shown of its conversation: long output is clipped, old output may be left out."""

LEFT_OUT = "[older output left out]"
NOTHING = "(nothing)"  # stands for an empty reply, which some servers do not take back


def clipped(text, limit):
    """Keeps the beginning and the end: context and results stand first, errors last."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"


def size(messages):
    said = sum(len(str(message.get("content") or "")) for message in messages)
    return said + sum(len(str(message.get("tool_calls") or "")) for message in messages)


def fitted(messages, limit, trimmed, kept):
    """Leaves out the oldest tool output once the conversation outgrows `limit`, down to `trimmed` at once.

    Nothing is touched before that: a conversation that only grows is one token row in training. The
    `kept` newest outputs always stay.
    """
    if size(messages) <= limit:
        return messages
    outputs = [m for m in messages[2:] if m["role"] != "assistant" and m["content"] != LEFT_OUT]
    for message in outputs[:-kept]:
        if size(messages) <= trimmed:
            break
        message["content"] = LEFT_OUT
    return messages


def observation(action, text):
    if action.call_id is None:
        return {"role": "user", "content": text}
    return {"role": "tool", "tool_call_id": action.call_id, "content": text}


def message_of(reply):
    if reply.tool_calls or (reply.content or "").strip():
        return reply.message
    return {"role": "assistant", "content": NOTHING}
