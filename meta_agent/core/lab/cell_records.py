"""Changes of stored rollout records: they are cut short or extended, for probes of a reward.

Promises: a function returns a new record. It changes none and shares nothing that anybody writes
to. Outcome, flags and verifier inputs change only if a function says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meta_agent.core.protocols import JSON

Record = dict[str, Any]


def shortened(record: Mapping[str, JSON], turns: int, stop: str) -> Record:
    """Returns the record as if it had ended with the reason `stop` after `turns` model calls."""
    events = [event for event in record["tool_events"] if event["turn"] < turns]
    messages = _first_turns(record["messages"], turns)
    cost = dict(record["cost"])
    share = turns / record["turns"] if record["turns"] else 0.0
    cost = {name: value * share for name, value in cost.items()}
    return {
        **record,
        "tool_events": events,
        "messages": messages,
        "turns": turns,
        "stop_reason": stop,
        "cost": cost,
    }


def _first_turns(messages: Sequence[Record], turns: int) -> list[Record]:
    """Returns the messages up to the reply of that many model calls, and its tools' results."""
    turn, first = 0, []
    for message in messages:
        if message.get("role") == "assistant":
            turn += 1
        if turn > turns:
            break
        first.append(message)
    return first


def extended(
    record: Mapping[str, JSON], messages: Sequence[Record], events: Sequence[Record], turns: int
) -> Record:
    """Returns the record with more messages, tool events and turns at its end."""
    return {
        **record,
        "messages": [*record["messages"], *messages],
        "tool_events": [*record["tool_events"], *events],
        "turns": record["turns"] + turns,
    }


def message_record(role: str, text: str) -> Record:
    """Returns one message as a record."""
    return {"role": role, "content": text}
