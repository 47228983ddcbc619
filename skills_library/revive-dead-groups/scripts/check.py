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
        "metric": "signal.dead_group_ratio",
        "side": "above",
        "limit": 0.3,
        "needs": ["rewards"],
        "least": 5,
        "silent": False,
    },
    {
        "metric": "signal.reward_spread",
        "side": "below",
        "limit": 0.05,
        "needs": ["rewards"],
        "least": 5,
        "silent": False,
    },
]
BESIDE: list[str] = [
    "signal.dead_solved_ratio",
    "signal.dead_unsolved_ratio",
    "signal.groups",
]

if __name__ == "__main__":
    try:
        from meta_agent.skills.looking import main
    except ImportError:
        why = "this Python has no meta-agent: pip install meta-agent-loop"
        print(json.dumps({"answer": "it could not be looked at", "not_looked_at": [why]}))
        sys.exit(3)
    sys.exit(main(WATCHED, BESIDE))
