"""Packs a finished workspace into the recording that `meta-agent demo` plays.

Taken: the ledger, the harness's history with its notes, the skills. Left out for their size:
rollouts and checkpoints. Paths of this machine are replaced by what a reader has, so the ledger's
chain is made again over the changed steps, and the notes that quote it are changed with it.

    python benchmarks/record_demo.py WORKSPACE [--out examples/recorded-run/workspace.tar.zst]
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import zstandard

from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger._rows import link
from meta_agent.studies.demo import FOLDER

OUT = Path(__file__).parents[1] / "examples/recorded-run/workspace.tar.zst"
PARTS = ("harness_repo", "skills_library", "ledger.sqlite", "meta-agent.toml")  # settings last
TEXTS = {"steps": ("intent", "outcome"), "events": ("payload",), "runs": ("config", "result")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / FOLDER
        shutil.copytree(
            args.workspace, copy, ignore=shutil.ignore_patterns("checkpoints", "rollouts")
        )
        digests = clean(copy / "ledger.sqlite")
        rename(copy / "harness_repo", digests)
        args.out.write_bytes(zstandard.compress(packed(copy), 19))
    print(f"{args.out}: {args.out.stat().st_size:,} bytes, {len(digests)} steps chained again")


def clean(ledger: Path) -> dict[str, str]:
    """Replaces what names this machine in all JSON of the journal; new digests by the old ones."""
    db = sqlite3.connect(ledger, isolation_level=None)
    config = json.loads(db.execute("SELECT config FROM runs").fetchone()[0])
    replaced = {config["workspace"]: FOLDER, config["python"]: "python3"}
    db.execute("PRAGMA journal_mode=DELETE")
    for old, new in replaced.items():
        for table, columns in TEXTS.items():
            for column in columns:
                db.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (old, new))
    before, changed = "", dict[str, str]()
    with Ledger.open(ledger, owner_lock=False) as journal:
        for key, digest in db.execute("SELECT key, digest FROM chain ORDER BY seq").fetchall():
            step = journal.step(key)
            assert step is not None
            before = changed[digest] = link(before, step)
    for old, new in changed.items():
        db.execute("UPDATE chain SET digest = ? WHERE digest = ?", (new, old))
    db.execute("VACUUM")
    db.close()
    return changed


def rename(repo: Path, digests: Mapping[str, str]) -> None:
    """Changes the digests that git notes quote, and packs the repository."""
    for line in git(repo, "notes", "list").splitlines():
        commit = line.split()[1]
        text = note = git(repo, "notes", "show", commit)
        for old, new in digests.items():
            note = note.replace(old, new)
        if note != text:
            git(repo, "notes", "add", "-f", "-m", note, commit)
    shutil.rmtree(repo / ".git/logs", ignore_errors=True)
    git(repo, "gc", "-q", "--prune=now")
    shutil.rmtree(repo / ".git/hooks", ignore_errors=True)


def git(repo: Path, *words: str) -> str:
    who = ["-c", "user.name=meta-agent", "-c", "user.email=meta-agent@localhost"]
    argv = ["git", "-C", str(repo), *who, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def packed(folder: Path) -> bytes:
    """A tar of the parts, with nobody's name and no time of a file."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = 0
        return entry

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for part in PARTS:
            archive.add(folder / part, arcname=part, filter=plain)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
