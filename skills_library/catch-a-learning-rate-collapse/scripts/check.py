"""Says whether rollouts show what this skill is about: any that `meta-agent report` reads.

Exit status: 0 all of it was looked at and nothing shows, 1 it shows, 2 usage, 3 it could not be
looked at, and why.
"""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    try:
        from meta_agent.skills import load_skill
        from meta_agent.skills.looking import main
    except ImportError:
        why = "this Python has no meta-agent: pip install meta-agent-loop"
        print(json.dumps({"answer": "it could not be looked at", "not_looked_at": [why]}))
        sys.exit(3)
    sys.exit(main(load_skill(Path(__file__).resolve().parents[1])))
