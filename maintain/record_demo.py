"""Packs a finished workspace into the recording that `meta-agent demo` plays.

It takes the ledger, the harness's history with its notes, and the skills. With `--rollouts` it
takes the rollouts too. It leaves checkpoints out for their size. It replaces the paths of this
machine by paths that a reader has. That changes steps, so it chains the ledger again and changes
the notes that quote the chain. `--given` names folders that the run read, such as the one of its
tasks. They are copied into the workspace, so that it can be verified elsewhere.

    python -m maintain.record_demo WORKSPACE NAME [--rollouts] [--given FOLDER ...]
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sqlite3  # noqa: TID251
import subprocess  # noqa: TID251
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import zstandard

from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger._rows import link
from meta_agent.studies.demo import SUFFIX, recording_folder

OUT = Path(__file__).parents[1] / "examples/recorded-run"
PARTS = ("harness_repo", "skills_library", "ledger.sqlite")
SETTINGS = "meta-agent.toml"  # unpacked last: a folder with it is a workspace
TEXTS = {"steps": ("intent", "outcome"), "events": ("payload",), "runs": ("config", "result")}


def main() -> None:
    """Writes the recording of the workspace that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("name", help="of the recording: `meta-agent demo --recording NAME`")
    parser.add_argument("--rollouts", action="store_true")
    parser.add_argument("--given", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    more = ["rollouts"] * args.rollouts + ["given"] * bool(args.given)
    parts = [*PARTS, *more, SETTINGS]
    out, played = OUT / f"{args.name}{SUFFIX}", recording_folder(args.name)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / played
        shutil.copytree(args.workspace, copy, ignore=shutil.ignore_patterns("checkpoints"))
        replaced = {}
        for given in args.given:
            shutil.copytree(given, copy / "given" / given.name)
            replaced[str(given.absolute())] = f"given/{given.name}"
        settings = copy / SETTINGS
        settings.write_text(without(settings.read_text(), replaced))
        digests = clean(copy / "ledger.sqlite", played, replaced)
        rename(copy / "harness_repo", digests)
        out.write_bytes(zstandard.compress(packed(copy, parts), 19))
    print(f"{out}: {out.stat().st_size:,} bytes, {len(digests)} steps chained again")


def without(text: str, replaced: Mapping[str, str]) -> str:
    """Returns the text with each path replaced."""
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def clean(ledger: Path, played: str, given: Mapping[str, str]) -> dict[str, str]:
    """Replaces the paths of this machine in all JSON of the journal.

    Returns the new digest of each step by its old one.
    """
    db = sqlite3.connect(ledger, isolation_level=None)
    config = json.loads(db.execute("SELECT config FROM runs").fetchone()[0])
    replaced = {config["workspace"]: played, config["python"]: "python3", **given}
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
    """Runs git in a repository as the recording's author; returns what it prints."""
    who = ["-c", "user.name=meta-agent", "-c", "user.email=meta-agent@localhost"]
    argv = ["git", "-C", str(repo), *who, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def packed(folder: Path, parts: Sequence[str]) -> bytes:
    """Returns a tar of the parts without the names of users and the times of files."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = 0
        return entry

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for part in parts:
            archive.add(folder / part, arcname=part, filter=plain)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
