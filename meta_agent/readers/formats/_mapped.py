"""Rows of any form, under the names that the readers know: `prompt`, `completion`, `reward`.

Does not cover: several turns in one cell; those have formats of their own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from meta_agent.core.errors import ConfigError
from meta_agent.core.task_splits import pairs_of
from meta_agent.domains.formats.rows import Fields, stream_rows

_Over = Callable[[Iterable[Fields]], Iterator[Fields]]
_OURS = ("prompt", "completion", "reward", "example_id", "task")


@contextmanager
def by_our_names(
    paths: Sequence[Path], fields: str | None, *, over: _Over = iter
) -> Iterator[list[Path]]:
    """Yields the files, or with `fields` ("input=prompt,score=reward") their rows under our names.

    Those rows are in a folder that ends with the context. Raises `ConfigError` for wrong `fields`.
    """
    if fields is None:
        yield list(paths)
        return
    try:
        mapping = pairs_of(fields)
    except ValueError as error:
        raise ConfigError(f"--map {fields}: {error}") from error
    unknown = sorted(set(mapping.values()) - set(_OURS))
    if unknown:
        raise ConfigError(
            f"--map names {unknown[0]!r}, which no rollout has", hint=f"ours: {', '.join(_OURS)}"
        )
    with TemporaryDirectory(prefix="meta-agent-rows-") as folder:
        outs = [Path(folder) / str(n) / f"{path.stem}.jsonl" for n, path in enumerate(paths)]
        yield [_write_mapped(*pair, mapping, over) for pair in zip(paths, outs, strict=True)]


def _write_mapped(path: Path, out: Path, mapping: Mapping[str, str], over: _Over) -> Path:
    """Writes the rows of a file under our names and returns where."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8") as file:
        for row in over(stream_rows(path, mapping)):
            file.write(json.dumps(_our_row(row, list(mapping.values()))) + "\n")
    return out


def _our_row(fields: Fields, names: Sequence[str]) -> dict[str, Any]:
    row = {name: fields.row[name] for name in names}
    if "reward" in row:
        row["reward"] = _number(fields, row["reward"])
    prompt = str(row.get("prompt", ""))
    row["prompt"] = [{"role": "user", "content": prompt}]
    row["completion"] = [{"role": "assistant", "content": str(row.get("completion", ""))}]
    row.setdefault("example_id", hashlib.sha256(prompt.encode()).hexdigest()[:16])
    row.setdefault("task", "rows")
    return row


def _number(fields: Fields, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise fields.refused(f"the reward {value!r:.40} is no number") from error
