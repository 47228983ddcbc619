"""Stored records cut or changed after the fact: what ceilings and probes are made of.

Promises: a record goes in as it is stored and another comes out; nothing is shared between the two
that anybody writes to. Outcome, flags and verifier inputs change only where a function says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meta_agent.core.protocols import JSON

Record = dict[str, Any]


def shortened(record: Mapping[str, JSON], turns: int, stop: str) -> Record:
    """The record as if it had ended after so many model calls."""
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
    """Up to the reply of that many model calls, and what its tools said."""
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
    """The record with more messages and tool events at its end."""
    return {
        **record,
        "messages": [*record["messages"], *messages],
        "tool_events": [*record["tool_events"], *events],
        "turns": record["turns"] + turns,
    }


def message_record(role: str, text: str) -> Record:
    """One message."""
    return {"role": role, "content": text}
