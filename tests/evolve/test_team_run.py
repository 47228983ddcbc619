"""The recorded run of a team, again, without a provider: its first generation, up to the bundle.

The host reads anew what the team was shown, and the team's edits become the commits that they were.
Does not cover what they are worth: the whole replay (`examples/team-run`) takes ten minutes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from meta_agent.core.ledger import Ledger
from meta_agent.sandboxes import engine_status

EXAMPLE = Path(__file__).parents[2] / "examples" / "team-run"
LIMIT_SEC = 600
EDITS = 3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.train,
    pytest.mark.nightly,
    pytest.mark.timeout(LIMIT_SEC + 60),
]


def test_the_recorded_replies_become_the_recorded_commits(tmp_path: Path) -> None:
    if not engine_status().ready:
        pytest.skip("needs Docker: the edits were written by a model")
    argv = [
        *(sys.executable, "-m", "meta_agent", "evolve", "--domain", "math"),
        *("--seed", "4", "--candidates", str(EDITS), "--generations", "2"),
        *("--meta-model", f"replay:{EXAMPLE / 'transcripts'}", "--replay-match", "position"),
    ]
    own = ("_API_KEY", "_BASE_URL")
    without_keys = {name: value for name, value in os.environ.items() if not name.endswith(own)}
    ran = subprocess.run(
        argv,
        cwd=tmp_path,
        env={**without_keys, "META_AGENT_CRASH_AT": f"after_outcome:candidate:{EDITS}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_SEC,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr[-4000:]
    ledger = Ledger.open(tmp_path / "meta-agent-workspace" / "ledger.sqlite", owner_lock=False)
    made = [(step.key, step.intent["commit"]) for step in ledger.steps(kind="candidate")]
    recorded = json.loads((EXAMPLE / "result.json").read_text())["candidates"]
    assert made == [(one["id"], one["commit"]) for one in recorded[:EDITS]]
    assert ledger.spend(recorded[0]["id"].partition("/")[0]) == {}
