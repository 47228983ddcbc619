"""Looks for keys in everything that a run leaves behind, opened up where it is packed."""

from __future__ import annotations

import base64
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

import zstandard


def leaks(folder: Path, secrets: Iterable[str]) -> list[str]:
    """Where a secret stands, plainly or in one of its common encodings."""
    wanted = {form: secret for secret in secrets for form in _forms(secret)}
    return [
        f"{where}: {secret[:12]}..."
        for where, data in _contents(folder)
        for form, secret in wanted.items()
        if form in data
    ]


def _forms(secret: str) -> set[bytes]:
    plain = secret.encode()
    shifted = (base64.b64encode(b"x" * shift + plain)[4:-4] for shift in range(3))
    return {plain, plain.hex().encode(), quote(secret).encode(), plain[::-1], *shifted}


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        yield path.name, path.name.encode()
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            yield str(path), data
            if path.suffix == ".zst":
                yield f"{path} (unpacked)", _unpacked(data)
            if path.suffix == ".sqlite":
                yield f"{path} (rows)", _rows(path)
        if path.name == "harness_repo":
            yield f"{path} (objects)", _objects(path)


def _unpacked(data: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        return reader.read()


def _rows(path: Path) -> bytes:
    """Every value: long ones are split over pages of the file."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        text = "\n".join(db.iterdump())
    db.close()
    return text.encode()


def _objects(repo: Path) -> bytes:
    """Every object of a repository, reachable or not."""
    command = ["git", "-C", str(repo), "cat-file", "--batch-all-objects", "--batch", "--unordered"]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
