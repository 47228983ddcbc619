"""Rows of any form, under the names that the readers know: `prompt`, `completion`, `reward`.

Does not cover: several turns in one cell; those have formats of their own.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from meta_agent.core.config import pairs_of
from meta_agent.core.errors import ConfigError

_Over = Callable[[Iterable[Mapping[str, Any]]], Iterator[Mapping[str, Any]]]
_OURS = ("prompt", "completion", "reward", "example_id", "task")


@contextmanager
def by_our_names(
    paths: Sequence[Path], fields: str | None, *, over: _Over = iter
) -> Iterator[list[Path]]:
    """The files themselves, or, with `fields` ("input=prompt,score=reward"), their rows under our
    names in a folder that ends with the context. Raises `ConfigError` where `fields` is wrong."""
    if fields is None:
        yield list(paths)
        return
    try:
        mapping = pairs_of(fields)
    except ValueError as error:
        raise ConfigError(f"--map {fields}: {error}") from error
    with TemporaryDirectory(prefix="meta-agent-rows-") as folder:
        outs = [Path(folder) / str(n) / f"{path.stem}.jsonl" for n, path in enumerate(paths)]
        yield [_write_mapped(*pair, mapping, over) for pair in zip(paths, outs, strict=True)]


def _write_mapped(path: Path, out: Path, mapping: Mapping[str, str], over: _Over) -> Path:
    """Writes the rows of a file (JSON lines or CSV) under other names; returns where."""
    unknown = sorted(set(mapping.values()) - set(_OURS))
    if unknown:
        raise ConfigError(
            f"--map names {unknown[0]!r}, which no rollout has", hint=f"ours: {', '.join(_OURS)}"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8") as file:
        for number, row in enumerate(over(_rows(path)), 1):
            file.write(json.dumps(_named(path, number, row, mapping)) + "\n")
    return out


def _named(
    path: Path, number: int, row: Mapping[str, Any], mapping: Mapping[str, str]
) -> dict[str, Any]:
    missing = next((name for name in mapping if name not in row), None)
    if missing is not None:
        raise ConfigError(
            f"{path}:{number}: --map names the field {missing!r}; this row has "
            f"{', '.join(sorted(row)[:12])}"
        )
    named = {ours: row[theirs] for theirs, ours in mapping.items()}
    if "reward" in named:
        named["reward"] = _number(path, number, named["reward"])
    prompt = str(named.get("prompt", ""))
    named["prompt"] = [{"role": "user", "content": prompt}]
    named["completion"] = [{"role": "assistant", "content": str(named.get("completion", ""))}]
    named.setdefault("example_id", hashlib.sha256(prompt.encode()).hexdigest()[:16])
    named.setdefault("task", "rows")
    return named


def _number(path: Path, number: int, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}:{number}: the reward {value!r:.40} is no number") from error


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            if path.suffix == ".csv":
                yield from csv.DictReader(file)
                return
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _object(path, number, line)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _object(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{path}:{number}: not JSON ({error})") from error
    if not isinstance(row, dict):
        raise ConfigError(f"{path}:{number}: expected an object")
    return row
