"""Public task sets by name: where each comes from, under which licence, and which domain reads it.

`obtain` makes a task file of one, once, in the user's cache. Its rows come from the Hugging Face
hub, or from files that a person has. The rows that the set's authors published as a test are never
trained on: they confirm, and lie in the vault. Where all rows are published as a test, a hash of
each row decides its split, as in any other file.

The file appears whole or not at all. A record beside it names its sources with their SHA-256.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.durable import write_whole
from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON, Split
from meta_agent.core.resources import cache_folder
from meta_agent.domains.formats.hub import snapshot
from meta_agent.domains.formats.rows import stream_rows

Tell = Callable[[str], None]
_SUFFIXES: Final = (".parquet", ".jsonl", ".json", ".csv", ".gz", ".zst")


class Part(NamedTuple):
    """A published part of a data set: a glob (`pattern`) of its files, and our splits for its rows.

    The rows get the names in `splits` in turn. If `splits` is empty, each row's hash decides.
    """

    name: str
    pattern: str
    splits: tuple[Split, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A public task set. Without a hub `repository`, the user has to name a folder of its files."""

    domain: str
    tasks: int
    licence: str
    source: str
    repository: str | None = None
    parts: tuple[Part, ...] = ()


PUBLIC: Final[Mapping[str, PublicSet]] = {
    "gsm8k": PublicSet(
        *("math", 8792, "MIT", "openai/gsm8k", "openai/gsm8k"),
        parts=(
            Part("train", "main/train-*.parquet", ("train", "train", "train", "search")),
            Part("test", "main/test-*.parquet", ("confirm", "vault")),
        ),
    ),
    "humaneval": PublicSet(
        *("code", 164, "MIT", "openai/openai_humaneval", "openai/openai_humaneval"),
        parts=(Part("test", "openai_humaneval/test-*.parquet"),),
    ),
    "mbpp": PublicSet(
        *("code", 964, "CC-BY-4.0"),
        *("google-research-datasets/mbpp", "google-research-datasets/mbpp"),
        parts=(
            Part("train", "full/train-*.parquet", ("train",)),
            Part("validation", "full/validation-*.parquet", ("search",)),
            Part("test", "full/test-*.parquet", ("confirm", "vault")),
        ),
    ),
    "swe-bench-verified": PublicSet(
        *("swe", 500, "MIT, and each repository's"),
        *("SWE-bench/SWE-bench_Verified", "SWE-bench/SWE-bench_Verified"),
        parts=(Part("test", "data/test-*.parquet"),),
    ),
    "terminal-bench": PublicSet(
        *("harbor", 89, "Apache-2.0", "github.com/laude-institute/terminal-bench-2")
    ),
}


class TaskSet(NamedTuple):
    """A task file, and a text that says where its rows come from."""

    path: Path
    source: str


class _Source(NamedTuple):
    """A file of a published split."""

    path: Path
    splits: tuple[Split, ...]


def obtain(name: str, place: Path | None, tell: Tell) -> TaskSet:
    """Returns the task file of the public set `name`, made from `place` or the Hugging Face hub.

    `tell` receives messages. Raises ConfigError if the files cannot be reached or read.
    """
    public = PUBLIC[name]
    if place is None and public.repository is None:
        raise ConfigError(
            f"{name} is not on the Hugging Face hub",
            hint=f"git clone https://{public.source}, then --tasks {name}=FOLDER",
        )
    if place is not None and not place.exists():
        raise ConfigError(
            f"--tasks {name}={place}: the path {place} does not exist",
            hint=f"name an existing file or folder, or use the hub: --tasks {name}",
        )
    if not public.parts:
        assert place is not None
        return TaskSet(place.absolute(), f"{name} from {place}")
    stem = name if place is None else f"{name}-{_digest(str(place.absolute()))[:12]}"
    if place is None and (task_set := made_before(stem)):
        return task_set
    folder = place or _from_hub(name, public, tell)
    sources = _sources(name, public, folder)
    origin = str(place) if place else f"{public.repository}@{folder.name}"
    return made_of(stem, lambda: _rows(sources), origin, [source.path for source in sources])


def made_of(
    stem: str,
    rows: Callable[[], Iterator[Mapping[str, JSON]]],
    origin: str,
    sources: Sequence[Path] = (),
) -> TaskSet:
    """Writes what `rows()` yields to a task file in the cache, named `stem`. Returns that file.

    A record beside the file holds the `origin` in words, and hashes of the files `sources`.
    """
    target = _place(stem, ".jsonl")
    target.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    record: dict[str, JSON] = {
        "schema_version": 1,
        "origin": origin,
        "sha256": _digest(text),
        "sources": {path.name: _file_digest(path) for path in sources},
    }
    write_whole(target, text)
    write_whole(_place(stem, ".json"), json.dumps(record, indent=1) + "\n")
    return _task_set(target, record)


def made_before(stem: str) -> TaskSet | None:
    """Returns the cached task file named `stem` and its origin; None if missing or changed."""
    target = _place(stem, ".jsonl")
    try:
        record = document(_place(stem, ".json").read_text("utf-8"))
        whole = isinstance(record, dict) and record.get("sha256") == _file_digest(target)
    except (OSError, ValueError):
        return None
    has_origin = isinstance(record, dict) and isinstance(record.get("origin"), str)
    return _task_set(target, record) if whole and has_origin and isinstance(record, dict) else None


def _task_set(path: Path, record: Mapping[str, JSON]) -> TaskSet:
    sources = record.get("sources")
    hashes = sources if isinstance(sources, dict) else {}
    parts = [f"{name} {str(digest)[:12]}" for name, digest in hashes.items()]
    whole = f"{record['origin']}, SHA-256 {str(record['sha256'])[:12]}"
    return TaskSet(path, "; ".join([whole, *parts]))


def _from_hub(name: str, public: PublicSet, tell: Tell) -> Path:
    tell(f"taking {name} from the hub: {public.repository} ({public.licence})")
    return snapshot(
        str(public.repository),
        [part.pattern for part in public.parts],
        kind="dataset",
        title=f"--tasks {name} ({public.repository})",
        instead=f"--tasks {name}=PATH, a file or folder that you have",
    )


def _sources(name: str, public: PublicSet, folder: Path) -> list[_Source]:
    """Returns each published split's files: those of its pattern, else those named after it."""
    if folder.is_file():
        return [_Source(folder, ())]
    sources = []
    for part in public.parts:
        files = sorted(folder.glob(part.pattern)) or [
            path
            for path in sorted(folder.rglob(f"*{part.name}*"))
            if path.is_file() and path.suffix in _SUFFIXES
        ]
        if not files:
            raise ConfigError(
                f"--tasks {name}={folder}: there is no file for the split {part.name}",
                hint=f"the folder needs {part.pattern} or {part.name}.jsonl; or name one file",
            )
        if len({path.parent for path in files}) > 1:
            places = ", ".join(str(path.relative_to(folder)) for path in files[:4])
            raise ConfigError(
                f"--tasks {name}={folder}: several files fit the split {part.name}: {places}",
                hint="name the folder that holds only the right files",
            )
        sources += [_Source(path, part.splits) for path in files]
    return sources


def _rows(sources: Sequence[_Source]) -> Iterator[Mapping[str, JSON]]:
    for path, splits in sources:
        for number, fields in enumerate(stream_rows(path)):
            stated = {"split": splits[number % len(splits)]} if splits else {}
            yield {**fields.row, **stated}


def _place(stem: str, suffix: str) -> Path:
    return cache_folder("tasks") / f"{stem}{suffix}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
