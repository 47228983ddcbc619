"""Trajectories of mini-swe-agent (`.traj.json`) and SWE-agent (`.traj`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from meta_agent.core.chat import arguments_of
from meta_agent.core.protocols import JSON, Message, RolloutFailure, StopReason, ToolEvent
from meta_agent.domains.formats.files import Placed
from meta_agent.readers.formats._draft import AttemptDraft, cost_of
from meta_agent.readers.formats._format import CERTAIN, Format, Keys
from meta_agent.readers.formats._messages import LeaveOut, messages_of_items, parse_messages
from meta_agent.readers.formats._row import RowError, SourceRow, as_object, has

# --- mini-swe-agent -------------------------------------------------------------------------------
# Versions 1 and 1.1, and the bare list of messages. Models behind the Responses API leave whole
# responses among the messages; each is one reply.
# A command is a call of the tool `bash`: from `extra.actions`, from `tool_calls`, or from the one
# fenced block of a reply. A reply with none, or with two, is the format error that the agent itself
# sees. A command's result is the message that follows, and it worked where the return code is 0.
# `exit_status` says how it ended; a bare list does not, so there the ending is unknown.

TOOL: Final = "bash"
SUBMIT_MARKS: Final = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
_FENCE: Final = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n?```", re.DOTALL)
_CODE: Final = re.compile(r"<returncode>\s*(-?\d+)\s*</returncode>")
_MINI: Final = Keys(
    task="instance_id",
    policy="info.config.model.model_name",
    patch="info.submission",
    suite="swe",
    skip="trajectory_format",
    stops={
        "submitted": "submitted",
        "limitsexceeded": "turn_limit",
        "contextwindowexceedederror": "token_limit",
        "timeexceeded": "wall_limit",
    },
)
_MACHINE_FAILURE: Final = re.compile(
    r"api|ratelimit|connection|timeout|unavailable|authentic|permission|docker|container|internal"
)


def _claims_mini(value: JSON) -> int:
    if isinstance(value, dict):
        named_format = str(value.get("trajectory_format", "")).startswith("mini-swe-agent")
        before_it_had_a_name = has(value.get("info"), "exit_status", "submission")
        is_mini = named_format or before_it_had_a_name
        return CERTAIN if is_mini and isinstance(value.get("messages"), list) else 0
    is_list = isinstance(value, list) and len(value) >= 2
    if not is_list or not all(has(item, "role", "content") for item in value):
        return 0
    replies = (item["content"] for item in value if item["role"] == "assistant")
    return 2 if any(isinstance(text, str) and _FENCE.search(text) for text in replies) else 0


def _expand_mini(placed: Placed) -> Iterator[Placed]:
    """Yields one row, also for a bare list of messages."""
    value = placed.value
    yield placed._replace(value={"messages": value}) if isinstance(value, list) else placed


def _read_mini(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    items = row.items("messages")
    if not items:
        raise RowError("field messages: expected at least one message (the run never began)")
    # Version 1.1 ends with a message of the role `exit`.
    raw, messages = [], list[Message]()
    for item in items:
        if as_object(item).get("role") != "exit":
            chat = _chat(item, count)
            parsed = parse_messages([chat], "messages", count)
            messages += parsed  # several for a message of Anthropic's blocks
            raw += [chat] * len(parsed)
    draft = _MINI.draft(row, count)
    draft.converse(messages)
    draft.messages, draft.turns = messages, draft.turns or 0
    draft.prompt = messages[:2]
    draft.tool_events, draft.tool_ok = _commands_run(raw, messages)
    about = row.object("info")
    version = about.text("mini_version")
    draft.harness_commit = f"mini-swe-agent {version}" if version else ""
    draft.stop_reason, draft.error = _ending_of_mini(about, draft.tool_events)
    usd = about.number("model_stats.instance_cost")
    # A cost of 0 with calls made is what unknown prices look like there.
    paid = usd or not about.number("model_stats.api_calls")
    draft.cost = cost_of(usd if paid else None)
    return draft


def _chat(item: JSON, count: LeaveOut) -> JSON:
    """Returns a message of the Responses form in chat form, with the notes beside it."""
    if not isinstance(item, dict) or "role" in item:
        return item
    items = item.get("output") if item.get("object") == "response" else [item]
    replies = messages_of_items(items, "messages", count)
    if not replies:
        return {"role": "assistant", "content": "", "extra": item.get("extra")}
    first, *more = replies
    for reply in more:  # text after a call: still one reply
        first["content"] = "\n".join(filter(None, (first["content"], reply["content"])))
        first["tool_calls"] = [*first.get("tool_calls", ()), *reply.get("tool_calls", ())]
    return {**first, "extra": item.get("extra")}


def _commands_run(raw: Sequence[JSON], messages: Sequence[Message]) -> tuple[list[ToolEvent], bool]:
    """Returns the commands that ran, and whether the data tells which of them worked."""
    events: list[ToolEvent] = []
    all_codes, turn = True, -1
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        turn += 1
        for at, command in enumerate(_commands(raw[index], message), index + 1):
            answered = at < len(messages)
            result = messages[at]["content"] if answered else ""
            code = _return_code(raw[at], result) if answered else None
            last = at >= len(messages) - 1 and any(mark in command for mark in SUBMIT_MARKS)
            all_codes = all_codes and (code is not None or last or not answered)
            events.append(ToolEvent(turn, TOOL, {"command": command}, result, code in (0, None)))
    return events, all_codes


def _commands(raw: JSON, message: Message) -> list[str]:
    actions = as_object(as_object(raw).get("extra")).get("actions")
    if isinstance(actions, list):
        return [str(a.get("command", a) if isinstance(a, dict) else a) for a in actions]
    calls = message.get("tool_calls", ())
    if calls:
        return [str(call["function"]["arguments"]) for call in calls]
    blocks = _FENCE.findall(message["content"])
    return [blocks[0].strip()] if len(blocks) == 1 else []


def _return_code(raw: JSON, text: str) -> int | None:
    code = as_object(as_object(raw).get("extra")).get("returncode")
    if type(code) is int:
        return code
    tag = _CODE.search(text)
    return int(tag[1]) if tag else None


def _ending_of_mini(
    about: SourceRow, events: Sequence[ToolEvent]
) -> tuple[StopReason | None, RolloutFailure | None]:
    status = about.text("exit_status")
    if not status:  # a bare list: only a last command that hands in says how it ended
        last = str(events[-1].arguments) if events and not about else ""
        return ("submitted" if any(mark in last for mark in SUBMIT_MARKS) else None), None
    if status.lower() in _MINI.stops:
        return _MINI.stops[status.lower()], None
    machine = _MACHINE_FAILURE.search(status.lower())
    return "error", RolloutFailure("infra" if machine else "policy", status)


MINI_SWE_AGENT: Final = Format(
    "mini-swe-agent",
    "mini-swe-agent trajectories (.traj.json)",
    "trajectory_format mini-swe-agent-..., or a bare list of messages",
    _claims_mini,
    _read_mini,
    expand=_expand_mini,
    named_by_file=True,
)

# --- SWE-agent ------------------------------------------------------------------------------------
# Steps of thought, action and observation. What stood before the first step is in its `query`;
# demonstrations there are the prompt's. The first word of an action is its tool.
# Whether an action worked is not in the file. A submission made when a limit was hit (`submitted
# (exit_cost)`) ended by that limit. A run that ended before its first step is an attempt too: its
# exit status says why. A `.traj` does not name its instance: the file's name does.

_SWE_AGENT: Final = Keys(
    task="instance_id",
    patch="info.submission",
    suite="swe",
    skip="history environment",
    stops={
        "exit_cost": "turn_limit",
        "exit_context": "token_limit",
        "exit_total_execution_time": "wall_limit",
        "exit_command_timeout": "wall_limit",
    },
)
_FAILED_MACHINES: Final = frozenset(
    {"exit_api", "exit_environment_error", "exit_error", "early_exit"}
)


def _claims_swe_agent(value: JSON) -> int:
    steps = as_object(value).get("trajectory")
    if not isinstance(steps, list) or not isinstance(value.get("info"), dict):
        return 0
    return CERTAIN if all(isinstance(s, dict) and "action" in s for s in steps) else 0


def _read_swe_agent(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    steps: list[SourceRow] = []
    for number, item in enumerate(row.items("trajectory") or (), 1):
        if not isinstance(item, dict):
            raise RowError("a step of trajectory: expected an object", f"step {number}")
        steps.append(SourceRow(item))
    about = row.object("info")
    status = about.text("exit_status")
    if not about or not (steps or status):
        raise RowError("fields trajectory and info: expected at least one step or an exit_status")
    draft = _SWE_AGENT.draft(row, count)
    before = _before(steps[0] if steps else SourceRow({}), count)
    draft.prompt, draft.prompt_messages = before, len(before)
    draft.messages, draft.tool_events = list(before), []
    for turn, step in enumerate(steps):
        action = (step.text("action") or "").strip()
        parts = filter(None, (step.text("thought"), action))
        reply, observation = step.text("response"), step.text("observation")
        draft.messages.append({"role": "assistant", "content": reply or "\n".join(parts)})
        if observation:
            draft.messages.append({"role": "user", "content": observation})
        if action:
            call = {"command": action}
            event = ToolEvent(turn, action.split()[0], call, observation or "", True)
            draft.tool_events.append(event)
    draft.turns = len(steps)
    # The replay configuration is JSON as text since 1.0.
    agent = as_object(arguments_of(row.get("replay_config")).get("agent"))
    name = as_object(agent.get("model")).get("name")
    draft.policy = name if isinstance(name, str) else None
    draft.stop_reason, draft.error = _ending_of_swe_agent(status or "")
    stats = about.object("model_stats")
    received = stats.number("tokens_received")
    tokens = () if received is None else (stats.number("tokens_sent"), received)
    draft.cost = cost_of(stats.number("instance_cost") or None, *tokens)
    seconds = [value for step in steps if (value := step.number("execution_time")) is not None]
    draft.timings = {"tools": sum(seconds)} if seconds else {}
    return draft


def _before(first: SourceRow, count: LeaveOut) -> list[Message]:
    """Returns the messages before the model's first word."""
    items = []
    for item in first.items("query") or []:
        demo = as_object(item).get("is_demo")
        if as_object(item).get("role") == "assistant" and not demo:
            break
        items.append(item)
    return parse_messages(items, "query", count)


def _ending_of_swe_agent(status: str) -> tuple[StopReason | None, RolloutFailure | None]:
    if not status:
        return None, None
    causes = (*_SWE_AGENT.stops, *_FAILED_MACHINES, "exit_format")
    cause = next((name for name in causes if name in status), "")
    if cause in _SWE_AGENT.stops:
        return _SWE_AGENT.stops[cause], None
    if cause in _FAILED_MACHINES and "submitted" not in status:
        return "error", RolloutFailure("infra", status)
    return ("submitted" if "submitted" in status else "returned"), None


SWE_AGENT: Final = Format(
    "swe-agent",
    "SWE-agent trajectories (.traj)",
    "trajectory: steps with an action; info",
    _claims_swe_agent,
    _read_swe_agent,
    named_by_file=True,
)
