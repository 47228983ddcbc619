"""What reads and reports needs no SDK, no Docker, no git library and no SciPy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from meta_agent.core.distribution import RUN_NEEDS

# What is not installed cannot be found: the same error as in an installation without the extra.
_WITHOUT = f"""
import sys
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(RUN_NEEDS)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Nowhere())
from meta_agent.__main__ import main
main()
"""


def light(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _WITHOUT, *argv]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.fixture
def rollouts(tmp_path: Path) -> Path:
    path = tmp_path / "games.jsonl"
    rows = [
        {"prompt": f"add {n} and 1", "completion": f"it is {n + 1}", "reward": float(n % 2)}
        for n in range(8)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rollouts_are_reported(rollouts: Path, tmp_path: Path) -> None:
    """The page imports what text and JSON need, and more."""
    ran = light("report", "--rollouts", str(rollouts), "--html", "page.html", cwd=tmp_path)
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), ran.stderr


def test_a_run_says_what_to_install(tmp_path: Path) -> None:
    ran = light("evolve", "--domain", "swe", "--dry-run", cwd=tmp_path)
    assert ran.returncode == 3
    assert re.search(r"hint: pip install .*\[run\]", ran.stderr)


@pytest.mark.parametrize("command", ["revert g0/c0", "adopt --into new"])
def test_what_lacks_an_extra_records_nothing(command: str, tmp_path: Path) -> None:
    assert light("demo", "--seconds", "0", cwd=tmp_path).returncode == 0
    ran = light(*command.split(), "--workspace", "meta-agent-demo", cwd=tmp_path)
    assert ran.returncode == 3 and re.search(r"hint: pip install .*\[run\]", ran.stderr)
    status = light("status", "--json", "--workspace", "meta-agent-demo", cwd=tmp_path)
    assert json.loads(status.stdout)["in_flight"] == []
    assert not (tmp_path / "new").exists()


def test_doctor_says_what_to_install(tmp_path: Path) -> None:
    ran = light("doctor", "--policy", "openai/m", "--json", cwd=tmp_path)
    assert ran.returncode == 3, ran.stderr
    failed = [row for row in json.loads(ran.stdout)["checks"] if row["level"] == "fail"]
    assert failed and all(re.search(r"pip install .*\[run\]", row["fix"]) for row in failed)


def test_skills_are_shown(tmp_path: Path) -> None:
    ran = light("skills", "read-a-leak", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
