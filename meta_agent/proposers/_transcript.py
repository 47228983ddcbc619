"""Renders one rollout as text that a person or a model reads from top to bottom.

Floats have 4 significant digits, and nothing here depends on when or where it ran. So the same
rollouts always give the same bytes. Of long messages both ends stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from meta_agent.core.protocols import FEEDBACK, Message, Rollout
from meta_agent.readers.evidence import exchanges, failure_mode, fates

MESSAGE_CHARS = 6_000
TRANSCRIPT_CHARS = 120_000
_SHORT_RESULT = 40
_DELTA_CHARS = 400
INDEX_COLUMNS = (
    "file,task,sample,clean,outcome,mode,flags,stop_reason,turns,reward,components,tokens"
)


def transcript(rollout: Rollout) -> str:
    """Returns an attempt as text: outcome, messages, tool calls. Long texts lose their middle."""
    lines = [f"# {rollout.split} {rollout.task_key} sample {rollout.sample_idx}", ""]
    lines += [f"- {name}: {value}" for name, value in _facts(rollout)]
    lines += ["", "## Conversation", "", *_messages(rollout)]
    if deltas := list(_deltas(rollout)):
        lines += ["## Where a call showed something else than the conversation so far", ""]
        lines += ["What stands above is what the last call showed.", "", *deltas, ""]
    if rollout.tool_events:
        lines += ["## Tool calls as the environment saw them", "", *_events(rollout)]
    return clipped("\n".join(lines), TRANSCRIPT_CHARS) + "\n"


def index_row(file: str, rollout: Rollout) -> str:
    """Returns an attempt's row in the CSV index of attempts; `file` names its transcript."""
    cells = [
        file,
        rollout.task_key,
        str(rollout.sample_idx),
        _yes(rollout.clean),
        _yes(rollout.outcome),
        failure_mode(rollout),
        " ".join(rollout.flags),
        rollout.stop_reason,
        str(rollout.turns),
        number(rollout.total_reward) if rollout.rewards else "",
        _components(rollout.rewards, "="),
        str(int(rollout.cost.get("tokens", 0))) if rollout.cost.get("tokens") else "",
    ]
    return ",".join(_cell(cell) for cell in cells)


def number(value: float) -> str:
    """Returns a number as text: a whole one in full, others with four significant digits."""
    if abs(value) < 1e9 and value == int(value):
        return str(int(value))
    return f"{value:.4g}"


def clipped(text: str, limit: int) -> str:
    """Returns the text; if it is longer than `limit` characters, only its beginning and end."""
    if len(text) <= limit:
        return text
    cut = len(text) - limit
    return f"{text[: limit // 2]}\n[... {cut} characters left out ...]\n{text[-(limit // 2) :]}"


def _facts(rollout: Rollout) -> Iterator[tuple[str, str]]:
    yield "clean success", _yes(rollout.clean)
    yield "solved (sealed grader)", _yes(rollout.outcome)
    yield "failure mode", failure_mode(rollout)
    if feedback := rollout.outcome_detail.get(FEEDBACK):
        yield "the grader's feedback", clipped(str(feedback), 600)
    yield "flags", ", ".join(rollout.flags) or "none"
    yield "stop reason", rollout.stop_reason
    yield "turns", str(rollout.turns)
    if rollout.rewards:
        yield "training reward", number(rollout.total_reward)
        yield "components", _components(rollout.rewards, " = ")
    if rollout.advantage is not None:
        yield "advantage", number(rollout.advantage)
    if rollout.error:
        yield "error", f"{rollout.error.kind}: {clipped(rollout.error.detail, 600)}"


def _messages(rollout: Rollout) -> Iterator[str]:
    for at, message in enumerate(rollout.messages):
        yield f"[{at}] {message.get('role', '?')}:"
        yield clipped(_content(message), MESSAGE_CHARS)
        yield ""


def _deltas(rollout: Rollout) -> Iterator[str]:
    """Yields lines on each call that dropped or replaced messages, or altered a tool's result."""
    changes = {view.turn: view for view in rollout.views}
    results: list[str] = []
    for call in exchanges(rollout):
        if change := changes.pop(call.turn, None):
            missing = "" if len(change.removed) == change.lost else " (not recorded)"
            change_line = f"- call {call.turn} kept the first {change.unchanged} messages"
            yield f"{change_line}; no longer shown: {change.lost}{missing}"
            yield from (f"  - {_brief(message)}" for message in change.removed)
            yield "  and after them it showed:"
            yield from (f"  - {_brief(message)}" for message in call.context[change.unchanged :])
        for event, fate, in_prompt in fates(call, results):
            if fate:
                was, now = _flat(event.result), _flat(in_prompt) if in_prompt else "nothing"
                yield f"- call {call.turn + 1}, {fate}: {event.tool} answered {was}; shown: {now}"
        results += [event.result for event in call.events]
    for change in changes.values():
        yield f"- call {change.turn}: {change.lost} messages no longer shown, not recorded"


def _brief(message: Message) -> str:
    return f"{message.get('role', '?')}: {_flat(_content(message))}"


def _flat(text: str) -> str:
    return " ".join(clipped(text, _DELTA_CHARS).split())


def _content(message: Message) -> str:
    content = message.get("content")
    text = content if isinstance(content, str) else _plain_json(content)
    calls = message.get("tool_calls")
    return "\n".join(filter(None, [text, f"tool calls: {_plain_json(calls)}" if calls else ""]))


def _plain_json(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _events(rollout: Rollout) -> Iterator[str]:
    """Returns each call with its result, unless that stands in the conversation as it is."""
    messages = [
        _content(message) for message in rollout.messages if message.get("role") != "assistant"
    ]
    for event in rollout.tool_events:
        arguments = ", ".join(f"{k}={clipped(str(v), 200)}" for k, v in event.arguments.items())
        refused = "" if event.ok else " [refused]"
        is_shown = (
            any(event.result in text for text in messages) and len(event.result) > _SHORT_RESULT
        )
        result = "as the policy saw it" if is_shown else clipped(event.result, 400)
        yield f"- turn {event.turn}: {event.tool}({arguments}) -> {result}{refused}"


def _components(values: Mapping[str, float], sign: str) -> str:
    return " ".join(f"{name}{sign}{number(value)}" for name, value in sorted(values.items()))


def _yes(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"


def _cell(text: str) -> str:
    flat = " ".join(text.split())
    return f'"{flat.replace(chr(34), chr(39))}"' if "," in flat or '"' in flat else flat
