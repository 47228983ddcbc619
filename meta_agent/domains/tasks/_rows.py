"""Writes a task set: rows in SWE-bench's form, the archives they stand on, a manifest of hashes.

Promises: the same rows give the same bytes, manifest included: nothing in it depends on when, where
or how fast it was made. The manifest is written last.

Does not cover: whether the tasks are fit (`meta-agent tasks check`).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, SPLITS, Split
from meta_agent.domains.formats import semantic_key
from meta_agent.domains.formats._splits import hashed_split
from meta_agent.domains.tasks._package import Package

Row = dict[str, JSON]


def make_room(out: Path) -> None:
    """The folder of a task file; `ConfigError` where there can be none, before any work."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ConfigError(f"--out {out}: no folder for it can be made: {problem}") from problem
    if out.is_dir():
        raise ConfigError(f"--out {out} is a folder", hint=f"name a file: {out / 'tasks.jsonl'}")


def manifest_path(tasks: Path) -> Path:
    """Where the manifest of a task file stands."""
    return tasks.with_name(f"{tasks.stem}.manifest.json")


def archive_folder(tasks: Path) -> str:
    """The folder of a task file's archives, beside it."""
    return f"{tasks.stem}.sources"


def split_of(package: str, topic: str) -> Split:
    """The split of everything about a topic, whatever else is in a set."""
    return hashed_split(hashlib.sha256(f"{package}\0{topic}".encode()).hexdigest())


def task_row(
    package: Package,
    *,
    topic: str,
    issue: str,
    patch: str,
    test_patch: str,
    setup_patch: str,
    fail_to_pass: Sequence[str],
    pass_to_pass: Sequence[str],
    folder: str,
    image: str | None,
    python: str,
    plugins: Sequence[str] = (),
    own: Sequence[str] = (),
    origin: Mapping[str, JSON],
) -> Row:
    """One row. Tasks about the same `topic` (a function, a commit) land in the same split."""
    key = semantic_key(package.name, patch, issue)
    source: Row = {
        "archive": f"{folder}/{package.archive_name}",
        "sha256": package.sha256,
        "setup_patch": setup_patch,
        "pythonpath": list(package.pythonpath),
    }
    if python != "python3":
        source["python"] = python
    if plugins:
        source["plugins"] = list(plugins)
    if own:
        source["own"] = list(own)
    return {
        "instance_id": f"{package.name}-{key[:12]}",
        "repo": package.name,
        "base_commit": package.commit,
        "version": package.version,
        "split": split_of(package.name, topic),
        "problem_statement": issue,
        "hints_text": "",
        "patch": patch,
        "test_patch": test_patch,
        "FAIL_TO_PASS": json.dumps(list(fail_to_pass)),
        "PASS_TO_PASS": json.dumps(list(pass_to_pass)),
        **({"image": image} if image else {}),
        "source": source,
        "origin": dict(origin),
    }


def write_set(
    out: Path,
    rows: Sequence[Row],
    archives: Mapping[str, bytes],
    made: Mapping[str, JSON],
) -> Row:
    """Writes everything beside `out` and returns the manifest."""
    folder = out.parent / archive_folder(out)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in archives.items():
        (folder / name).write_bytes(content)
    lines = [json.dumps(row, sort_keys=True, ensure_ascii=True) + "\n" for row in rows]
    out.write_text("".join(lines), encoding="utf-8")
    manifest = _manifest(out, rows, lines, archives, made)
    path = manifest_path(out)
    path.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return manifest


def _manifest(
    out: Path,
    rows: Sequence[Row],
    lines: Sequence[str],
    archives: Mapping[str, bytes],
    made: Mapping[str, JSON],
) -> Row:
    splits = Counter(str(row["split"]) for row in rows)
    return {
        "schema_version": 1,
        "file": out.name,
        "sha256": _sha256("".join(lines).encode()),
        "archives": {
            f"{archive_folder(out)}/{name}": _sha256(archives[name]) for name in sorted(archives)
        },
        "made": dict(made),
        "splits": {split: splits[split] for split in SPLITS},
        "tasks": {
            str(row["instance_id"]): _sha256(line.encode())
            for row, line in zip(rows, lines, strict=True)
        },
    }


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
