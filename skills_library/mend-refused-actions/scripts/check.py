"""Says whether rollouts show what this skill is about: any that `meta-agent report` reads.

Exit status: 0 all of it was looked at and nothing shows, 1 it shows, 2 usage, 3 it could not be
looked at, and why.
"""

from __future__ import annotations

import json
import sys
from typing import Any

WATCHED: list[dict[str, Any]] = [
    {
        "metric": "behaviour.tool_failure_rate",
        "side": "above",
        "limit": 0.3,
        "needs": ["tool_events", "tool_ok"],
        "least": 10,
        "silent": False,
    },
    {
        "metric": "behaviour.repeated_action_rate",
        "side": "above",
        "limit": 0.2,
        "needs": ["tool_events"],
        "least": 10,
        "silent": False,
    },
]
BESIDE: list[str] = [
    "behaviour.edit_failure_rate",
    "behaviour.tool_calls_mean",
    "behaviour.turns_mean",
    "behaviour.truncation",
]

if __name__ == "__main__":
    try:
        from meta_agent.skills.looking import main
    except ImportError:
        why = "this Python has no meta-agent: pip install meta-agent-loop"
        print(json.dumps({"answer": "it could not be looked at", "not_looked_at": [why]}))
        sys.exit(3)
    sys.exit(main(WATCHED, BESIDE))
