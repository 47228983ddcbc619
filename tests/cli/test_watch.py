"""`log --follow` beside a run that goes on: real processes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from meta_agent.core.ledger import Ledger

from ..view._recorded_workspace import RUN, workspace
from ._command import Runner
from ._evolved import Evolved

COMMAND = [sys.executable, "-u", "-m", "meta_agent"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return workspace(tmp_path / "w", finished=False).root


def test_log_follows_to_the_end_of_a_run_and_cuts_nothing(root: Path) -> None:
    long = "word " * 200 + "end"
    command = [*COMMAND, "log", "--follow"]
    with (
        Ledger.open(root / "ledger.sqlite") as ledger,
        subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout
        while "note" not in process.stdout.readline():
            pass
        ledger.event("note", {"text": long}, RUN)
        while not (line := process.stdout.readline()).startswith("20") or "word" not in line:
            pass
        ledger.finish_run(RUN, "done")
        rest = process.stdout.read()
    assert process.returncode == 0
    assert line.rstrip().endswith("end") and rest.splitlines()[-1] == "done"


def test_a_page_is_written_anew_to_the_end_of_a_run(root: Path) -> None:
    page = root / "page.html"
    command = [*COMMAND, "report", "--html", page.name, "--follow"]
    with (
        Ledger.open(root / "ledger.sqlite") as ledger,
        subprocess.Popen(command, cwd=root, stderr=subprocess.DEVNULL) as process,
    ):
        while not (page.exists() and 'http-equiv="refresh"' in page.read_text()):
            time.sleep(0.05)
        ledger.finish_run(RUN, "done")
        process.wait()
    assert process.returncode == 0 and 'http-equiv="refresh"' not in page.read_text()


def test_log_graph_is_the_history_that_git_draws(meta_agent: Runner, tmp_path: Path) -> None:
    evolved = Evolved(tmp_path / "w")
    told = meta_agent("log", "--graph", cwd=evolved.root).stdout
    assert "merge: g0/c1" in told and "feat: idea 2" in told and "|\\" in told
    assert meta_agent("log", "--graph", "--json", cwd=evolved.root).document["graph"]
