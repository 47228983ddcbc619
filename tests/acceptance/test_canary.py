"""The search for keys finds them wherever a run could leave one."""

import base64
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.acceptance._canary import leaks

SECRET = "canary-4c1f-of-this-test"
DATA = f"some text {SECRET} and more".encode()


def _object(folder: Path) -> None:
    repo = folder / "harness_repo"
    subprocess.run(["git", "init", "-q", "--bare", str(repo)], check=True)
    write = ["git", "-C", str(repo), "hash-object", "-w", "--stdin"]
    subprocess.run(write, input=DATA, check=True, capture_output=True)


def _row(folder: Path) -> None:
    with sqlite3.connect(folder / "ledger.sqlite") as db:
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (?)", ("-" * 4080 + SECRET,))
    db.close()


PLACES: dict[str, Callable[[Path], object]] = {
    "a file": lambda folder: (folder / "a.json").write_bytes(DATA),
    "its name": lambda folder: (folder / SECRET).touch(),
    "base64": lambda folder: (folder / "a").write_bytes(base64.b64encode(DATA)),
    "a shard": lambda folder: (folder / "a.zst").write_bytes(zstandard.compress(DATA)),
    "a git object": _object,
    "a row that spans pages": _row,
}


@pytest.mark.parametrize("place", PLACES)
def test_it_is_found_in(place: str, tmp_path: Path) -> None:
    assert leaks(tmp_path, [SECRET]) == []
    PLACES[place](tmp_path)
    assert leaks(tmp_path, [SECRET])
