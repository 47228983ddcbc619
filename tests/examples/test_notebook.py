"""The notebook's cells run in order, as a kernel would run them."""

from __future__ import annotations

import json
import linecache
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.examples.support_desk import desk
from tests.loopback import openai_server

EXAMPLE = Path(__file__).parents[2] / "examples/customer-support"


def run_cells(notebook: Path) -> dict[str, Any]:
    """What the cells leave; their source can be read back, as in a kernel."""
    space: dict[str, Any] = {"__name__": "__main__"}
    cells = json.loads(notebook.read_text())["cells"]
    for number, cell in enumerate(one for one in cells if one["cell_type"] == "code"):
        name, text = f"<cell {number}>", "".join(cell["source"])
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), space)  # noqa: S102
    return space


def test_the_notebook_of_the_example_runs_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("optimize.ipynb", "tasks.jsonl"):
        shutil.copy(EXAMPLE / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    with openai_server(desk, serial=False) as url:
        monkeypatch.setenv("BASE_URL", url)
        monkeypatch.setenv("POLICY", "openai/desk")
        result = run_cells(tmp_path / "optimize.ipynb")["result"]
        systems = {str(call.messages[0]["content"]) for call in url.calls}
    assert result.exit_reason == "done" and 0.5 < result.before <= 1.0
    assert "You answer customers of a shop." in systems
    assert result._repr_html_().startswith("<table>")
