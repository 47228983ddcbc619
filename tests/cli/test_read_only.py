"""A workspace that may only be read: what reads it works. Real processes, without root's rights."""

import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.history import HarnessRepo
from meta_agent.core.ledger import Ledger
from meta_agent.core.workspace import init_workspace

from ..view._sample import write_sample
from ._command import Done

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1
_PRCTL = ctypes.CDLL(None).prctl


def as_a_stranger(*arguments: str, code: str = "") -> Done:
    """Runs the command, or `code`, where permissions count, for root too."""
    done = subprocess.run(
        [sys.executable, "-B", *(("-c", code) if code else ("-m", "meta_agent")), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: _PRCTL(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0),
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _permit(root: Path, writing: bool) -> None:
    for path in [root, *root.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200 if writing else path.stat().st_mode & ~0o222)


def _create(path: Path) -> None:
    files = {"harness.toml": b"[harness]\n", "swe/reward.py": b"x = 1\n"}
    HarnessRepo.create(path, files, "feat: the first harness")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With a recorded run, and nothing in it writable."""
    root = tmp_path_factory.mktemp("read-only") / "w"
    init_workspace(root, domain="swe", create_repo=_create)
    write_sample(root / "ledger.sqlite")
    _permit(root, writing=False)
    yield root
    _permit(root, writing=True)


_EACH = """
import contextlib, io, json, sys
from meta_agent.cli import main
place, *commands = sys.argv[1:]
for words in commands:
    caught = io.StringIO()
    with contextlib.redirect_stdout(caught), contextlib.suppress(SystemExit):
        sys.argv = ["meta-agent", *words.split(), "--workspace", place, "--json"]
        main()
    print(words, json.loads(caught.getvalue())["schema_version"], sep=":")
"""


def test_a_read_only_workspace_is_read(workspace: Path) -> None:
    commands = ("status", "log", "report", "why g0/c1")
    done = as_a_stranger(str(workspace), *commands, code=_EACH)
    assert done.stdout.splitlines() == [f"{words}:1" for words in commands], done.stderr


def test_verify_looks_for_a_verdict_in_a_read_only_workspace(tmp_path: Path) -> None:
    root = tmp_path / "w"
    place = init_workspace(root, domain="swe", create_repo=_create)
    with Ledger.open(place.ledger_file) as ledger:
        ledger.start_run("r", RunConfig().to_json(), config_hash="h")
    commit = HarnessRepo(place.harness_repo).head()
    _permit(root, writing=False)
    done = as_a_stranger("verify", commit, "--workspace", str(root))
    _permit(root, writing=True)
    assert "verdict" in done.stderr and done.returncode == 2, done.stderr


def test_what_a_killed_owner_had_not_folded_in_is_read_too(workspace: Path, tmp_path: Path) -> None:
    live = tmp_path / "live"
    shutil.copytree(workspace, live)
    _permit(live, writing=True)
    copied = tmp_path / "copied"
    with Ledger.open(live / "ledger.sqlite") as ledger:
        ledger.event("note", {"text": "only in the WAL"}, ledger.runs()[-1].run)
        shutil.copytree(live, copied)
    (copied / "ledger.sqlite-shm").unlink()
    assert (copied / "ledger.sqlite-wal").stat().st_size
    _permit(copied, writing=False)
    told = as_a_stranger("log", "--workspace", str(copied), "--json")
    _permit(copied, writing=True)
    assert "only in the WAL" in json.dumps(told.document)


def test_a_new_workspace_in_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    done = as_a_stranger("init", "--workspace", str(folder / "w"))
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert str(folder / "w") in done.stderr


def test_what_writes_a_read_only_workspace_is_refused(workspace: Path) -> None:
    done = as_a_stranger("approve", "c1", "--workspace", str(workspace))
    assert done.returncode == 2 and "bug" not in done.stderr, done.stderr
    assert str(workspace) in done.stderr
