"""The job file for Slurm, under a real bash; Slurm's own command and meta-agent are played."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

JOB = Path(__file__).parents[2] / "examples/slurm/train.sbatch"
AGENT = f"""#!{sys.executable} -IS
import os, pathlib, signal, sys, time
def stop(*_):
    time.sleep(0.1)  # a step under way
    os._exit(130)
signal.signal(signal.SIGTERM, stop)
pathlib.Path("asked").write_text(" ".join(sys.argv[1:]))
time.sleep(float(os.environ["LASTS"]))
sys.exit(int(os.environ["ENDS"]))
"""
SCONTROL = f"""#!{sys.executable} -IS
import pathlib, sys
pathlib.Path("requeued").write_text(" ".join(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("terms", "ends", "code", "requeued"),
    [(1, 0, 0, "requeue 7"), (2, 0, 0, "requeue 7"), (0, 0, 0, ""), (0, 4, 4, "")],
    ids=["told to stop", "told twice", "done", "failed"],
)
def test_a_job_that_is_taken_away_comes_back(
    tmp_path: Path, terms: int, ends: int, code: int, requeued: str
) -> None:
    for name, text in (("meta-agent", AGENT), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    told = {"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": "/shared", "ENDS": str(ends)}
    told |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LASTS": "60" if terms else "0"}
    job = subprocess.Popen(["bash", str(JOB), "--seed", "3 4"], cwd=tmp_path, env=told)
    asked = tmp_path / "asked"
    while not (asked.exists() and asked.read_text()):
        assert job.poll() is None or asked.exists()
        time.sleep(0.01)
    for _ in range(terms):
        job.send_signal(signal.SIGTERM)
    assert job.wait(20) == code
    assert asked.read_text() == "evolve --workspace /shared/meta-agent-workspace --seed 3 4"
    found = tmp_path / "requeued"
    assert (found.read_text() if found.exists() else "") == requeued
