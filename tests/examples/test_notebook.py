"""The notebook's cells run in order in a real kernel, as a person would run them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.examples._support_desk import desk
from tests.loopback import openai_server

EXAMPLE = Path(__file__).parents[2] / "examples/customer-support"
LATER = """
again = await meta_agent.optimize_async(
    tasks=tasks, grade=grade, tools=tools, agent="You answer customers of a shop.",
    policy=POLICY, generations=1, samples=1, sandbox="process", allow_unsafe_process=True,
    **SETTINGS,
)
assert again.run == result.run, "an awaited call beside the kernel's own loop reads the same run"
"""


@pytest.mark.slow
def test_the_notebook_of_the_example_runs_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")
    nbformat = pytest.importorskip("nbformat")
    for name in ("optimize.ipynb", "tasks.jsonl"):
        shutil.copy(EXAMPLE / name, tmp_path / name)
    book = nbformat.read(tmp_path / "optimize.ipynb", as_version=4)
    book.cells.append(nbformat.v4.new_code_cell(LATER))
    with openai_server(desk, serial=False) as url:
        monkeypatch.setenv("BASE_URL", url)
        monkeypatch.setenv("POLICY", "openai/desk")
        kernel = {"metadata": {"path": str(tmp_path)}}
        nbclient.NotebookClient(book, timeout=600, resources=kernel).execute()
        systems = {str(call.messages[0]["content"]) for call in url.calls}
    shown = [data for cell in book.cells for data in outputs(cell)]
    assert any("<table>" in str(data.get("text/html", "")) for data in shown)
    assert "You answer customers of a shop." in systems


def outputs(cell: Any) -> list[dict[str, Any]]:
    """What a cell shows, by form."""
    return [one["data"] for one in cell.get("outputs", []) if "data" in one]
