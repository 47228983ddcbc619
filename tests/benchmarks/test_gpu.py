"""The benchmark for a card runs whole on toy shapes, and a row that cannot run says why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_obstacles_name_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    import gpu

    monkeypatch.setenv("META_AGENT_VLLM_PYTHON", "/bin/false")
    settings = {"check": "learning", "place": ""}
    assert gpu.obstacle(gpu.Check(("smollm2",), settings)) == "not run: give --smollm2 FOLDER"
    assert "/bin/false, which is not a Python with vLLM" in gpu.obstacle(
        gpu.Check(("vllm",), {"check": "vllm"})
    )


@pytest.mark.slow
@pytest.mark.train
def test_every_row_has_its_numbers_and_a_failing_row_stops_no_other() -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--tiny"],
        env={**os.environ, "META_AGENT_VLLM_PYTHON": "/bin/false"},
        capture_output=True,
        text=True,
        check=True,
    )
    head, _, *lines = map(cells_of, run.stdout.splitlines())
    rows = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    trainings = [f"toy {mode} 64" for mode in ("adapters", "full")]
    assert list(rows) == ["toy weights", *trainings, "smollm2", "vllm"]
    for name in trainings:
        figures = [float(rows[name][column]) for column in head[1:-1]]
        assert min(figures) > 0 and not rows[name]["note"], rows[name]
        assert float(rows[name]["predicted GiB"]) <= float(rows[name]["run needs GiB"])
    assert float(rows["toy weights"]["MFU %"]) > 0
    assert float(rows["smollm2"]["sec"]) > 0 and "mean reward" in rows["smollm2"]["note"]
    assert "is not a Python with vLLM" in rows["vllm"]["note"]
