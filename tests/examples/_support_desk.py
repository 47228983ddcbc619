"""A customer-support agent's model, on a loopback server: looks up, acts and answers."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.loopback import Call, Say

WORDS = {"lost": "It was lost.", "in transit": "It is in transit."}


def desk(call: Call) -> Say:
    """Pays for everything that is younger than 52 days: wrong now and then."""
    asked = str(next(m["content"] for m in call.messages[::-1] if m["role"] == "user"))
    found = re.search(r"order (\w+)", asked)
    assert found is not None
    seen = [m for m in call.messages if m["role"] == "tool"]
    if not seen:
        return Say(tool_calls=[("look_up", {"order": found[1]})])
    order: dict[str, Any] = json.loads(str(seen[0]["content"]))
    wants = "money back" in asked and order["days"] < 52
    if wants and len(seen) == 1:
        return Say(tool_calls=[("refund", {"order": found[1]})])
    told = WORDS.get(order["status"], "You get a refund." if wants else "More than 30 days ago.")
    return Say(told)
