"""A whole run on a real vLLM server, as policy and as meta-agent, with a model that talks nonsense.

Whatever it writes, the run ends cleanly, nothing is promoted, and the report can be read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.resources import shipped_harness
from meta_agent.policies.served.vllm_server import PYTHON_VARIABLE
from tests.models import _tiny_qwen, _vllm
from tests.steps._kit import write_tasks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SIZES = {"train": 1, "search": 2, "confirm": 2, "vault": 1}


def cli(folder: Path, python: str, *argv: str) -> Any:
    environment = {**os.environ, **_vllm.COMPILE_NOTHING}
    if python:
        environment[PYTHON_VARIABLE] = python
    return subprocess.run(
        [sys.executable, "-m", "meta_agent", *argv, "--workspace", str(folder / "w")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )


def test_a_model_that_talks_nonsense_ends_a_run_cleanly(tmp_path: Path) -> None:
    python = _vllm.require_vllm()
    pytest.importorskip("torch", reason="makes its tiny model with torch")
    model = f"vllm:{_tiny_qwen.write(tmp_path / 'tiny', positions=16_384)}"
    tasks = write_tasks(tmp_path / "tasks", SIZES)
    for name, data in shipped_harness("chat/swe").items():
        path = tmp_path / "brief" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.replace(b"MAX_TURNS = 30", b"MAX_TURNS = 3"))
    ran = cli(
        tmp_path,
        python,
        *("evolve", "--tasks", str(tasks), "--policy", model, "--meta-model", model),
        *("--harness", str(tmp_path / "brief")),
        *("--sandbox", "process", "--allow-unsafe-process", "--generations", "1"),
        *("--candidates", "1", "--samples", "1", "--max-tokens", "3000000", "--json"),
        *("--limits", "max_tokens_per_turn=256"),
    )
    nothing_tried = 1
    assert ran.returncode == nothing_tried, f"{ran.stdout}\n{ran.stderr}"
    result = json.loads(ran.stdout)
    assert result["exit_reason"] == "done"
    assert not [one for one in result["candidates"] if one["verdict"] == "PROMOTE"]
    assert result["spend"]["tokens"] > 0
    page = tmp_path / "report.html"
    assert cli(tmp_path, python, "report", "--html", str(page)).returncode == 0
    assert model.rpartition("/")[2] in page.read_text()
