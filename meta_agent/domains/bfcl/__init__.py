"""Tasks of the Berkeley Function-Calling Leaderboard (BFCL v4): answer a question with calls.

`rows_of` reads questions and allowed answers from the wheel of the package `bfcl-eval`
(Apache-2.0), of which nothing is imported or run. `bfcl_guest.py` grades.

Promises: no name of a function stands in two splits. Tasks that share a name, directly or by way of
other tasks, make a cluster, and the clusters fill the splits to their shares, the largest first and
those of one size in the order of a hash. The split depends on which categories are asked for.

Does not cover: Java, JavaScript, conversations of several turns, memory and web search, and the
leaderboard's score, which is an average over all of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from meta_agent.core.distribution import downloaded
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Split
from meta_agent.core.resources import cache_folder
from meta_agent.domains._options import DomainOptions
from meta_agent.domains.formats.public import TaskSet, made_before, made_of
from meta_agent.domains.graded import GradedDomain, load_rows

GUEST: Final = Path(__file__).with_name("bfcl_guest.py")
FORM: Final = "bfcl:CATEGORY[,CATEGORY...][=WHEEL]"
CATEGORIES: Final = {
    **{"simple_python": 400, "multiple": 200, "parallel": 200, "parallel_multiple": 200},
    **{"live_simple": 256, "live_multiple": 1051, "irrelevance": 240},
}
"""The number of tasks of each category."""
_PACKAGE, _VERSION = "bfcl-eval", "2026.3.23"
_MAX_WHEEL_BYTES: Final = 64 << 20
_WHEEL_SHA256: Final = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
_SHARES: Final[Mapping[Split, float]] = {
    "train": 0.58, "search": 0.08, "confirm": 0.14, "vault": 0.2
}  # fmt: skip
"""Most tasks are trained on, as references are what teaches a small model. The smallest category
has 200 tasks: 16 to search on, and 40 at the end."""


def open_domain(options: DomainOptions) -> GradedDomain:
    """Opens a file of tasks that `task_set` made."""
    rows = load_rows(options.tasks, {})
    return GradedDomain({"path": str(GUEST)}, rows, python=options.python, name="bfcl")


def task_set(text: str, tell: Callable[[str], None]) -> TaskSet:
    """Returns the task file of a text CATEGORY[,CATEGORY...][=WHEEL], made once.

    Raises ConfigError for an unknown category or another wheel, PreflightError without an index.
    """
    names, _, wheel = text.partition("=")
    unknown = set(names.split(",")) - CATEGORIES.keys()
    if unknown:
        raise ConfigError(
            f"--tasks bfcl:{text}: there is no category {sorted(unknown)[0]!r}",
            hint=f"write {FORM}, with some of {', '.join(CATEGORIES)}",
        )
    categories = [name for name in CATEGORIES if name in names.split(",")]
    version = _WHEEL_SHA256.encode() + Path(__file__).read_bytes()
    stem = f"bfcl-{'-'.join(categories)}-{hashlib.sha256(version).hexdigest()[:8]}"
    if cached := made_before(stem):
        return cached
    path = _wheel(Path(wheel).expanduser() if wheel else None, names, tell)
    rows = list(rows_of(path, categories))
    origin = f"{_PACKAGE} {_VERSION} (Apache-2.0): {', '.join(categories)}"
    return made_of(stem, lambda: iter(rows), origin, [path])


def _wheel(source: Path | None, names: str, tell: Callable[[str], None]) -> Path:
    """Returns the package's wheel in the user's cache, after it was put there, from `source`."""
    cached = cache_folder("wheels") / f"{_PACKAGE}-{_VERSION}.whl"
    if source is None and cached.is_file():
        _require_pinned(cached)
        return cached
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent, prefix=".fetching-") as scratch:
        place = Path(scratch)
        if source is None:
            tell(f"downloading {_PACKAGE} {_VERSION} (Apache-2.0), for its questions and answers")
            source = downloaded(_PACKAGE, _VERSION, place, instead=f"--tasks bfcl:{names}=WHEEL")
        _require_pinned(source)
        shutil.copyfile(source, place / "whole")
        (place / "whole").replace(cached)
    return cached


def _require_pinned(wheel: Path) -> None:
    try:
        digest = _file_digest(wheel)
    except OSError as error:
        raise ConfigError(
            f"the wheel {wheel} cannot be read: {error.strerror}",
            hint=f"name the wheel of {_PACKAGE} {_VERSION}",
        ) from error
    if digest != _WHEEL_SHA256:
        raise ConfigError(
            f"{wheel} has the SHA-256 {digest} instead of {_WHEEL_SHA256}",
            hint=f"it is damaged or no wheel of {_PACKAGE} {_VERSION}; remove it, then download it",
        )


def _file_digest(wheel: Path) -> str:
    """Returns the SHA-256 of a regular file. Raises ConfigError if it is larger than any wheel."""
    with wheel.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not wheel.is_file() or size > _MAX_WHEEL_BYTES:
            raise ConfigError(
                f"{wheel} has {size} bytes; a wheel of {_PACKAGE} has at most {_MAX_WHEEL_BYTES}",
                hint=f"name the wheel of {_PACKAGE} {_VERSION}",
            )
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- the rows -------------------------------------------------------------------------------------


def rows_of(wheel: Path, categories: Sequence[str]) -> Iterator[dict[str, JSON]]:
    """Yields the tasks of the categories as rows of a task file, with their splits.

    Tasks that no reply can solve are left out (4 of 2,551).
    """
    rows = []
    with zipfile.ZipFile(wheel) as archive:
        for category in categories:
            expected = {
                row["id"]: row["ground_truth"]
                for row in _lines(archive, f"possible_answer/BFCL_v4_{category}.json")
            }
            questions = _lines(archive, f"BFCL_v4_{category}.json")
            rows += [_row(category, row, expected.get(row["id"], [])) for row in questions]
    rows = [row for row in rows if row["gold"]]
    splits = _splits([[f["name"] for f in row["view"]["functions"]] for row in rows])
    for row, split in zip(rows, splits, strict=True):
        yield {**row, "split": split}


def _lines(archive: zipfile.ZipFile, name: str) -> list[dict[str, JSON]]:
    """Returns the rows of a data file, or [] where the package has none of that name."""
    path = f"bfcl_eval/data/{name}"
    if path not in archive.namelist():
        return []
    return [json.loads(line) for line in archive.read(path).decode().splitlines()]


def _row(category: str, row: Mapping[str, JSON], expected: list[JSON]) -> dict[str, JSON]:
    functions = row["function"]
    question = "\n\n".join(message["content"] for message in row["question"][0])
    lines = "\n".join(json.dumps(function, ensure_ascii=False) for function in functions)
    return {
        "key": row["id"],
        "prompt": f"Functions:\n{lines}\n\nQuestion:\n{question}",
        "view": {"functions": functions, "question": question},
        "labels": {"kind": category},
        "expected": expected,
        "gold": rendered(functions, expected),
    }


def rendered(functions: Sequence[Mapping[str, JSON]], expected: Sequence[JSON]) -> str:
    """Returns the expected calls as a reply, with the first allowed value of each needed parameter.

    Returns "" if no reply is right: a needed parameter is unknown, or no value of it is allowed.
    """
    schemas = {function["name"]: function["parameters"] for function in functions}
    calls = []
    for call in expected:
        ((name, allowed),) = call.items()
        properties, required = schemas[name]["properties"], set(schemas[name]["required"])
        needed = {p: values for p, values in allowed.items() if p in required or "" not in values}
        if not required <= needed.keys() or not all(p in properties and needed[p] for p in needed):
            return ""
        values = (f"{p}={_first(values, properties[p])!r}" for p, values in needed.items())
        calls.append(f"{name}({', '.join(values)})")
    return f"[{', '.join(calls)}]"


def _first(allowed: Sequence[JSON], schema: Mapping[str, JSON]) -> JSON:
    value: JSON = next((value for value in allowed if value != ""), "")
    if schema["type"] == "dict" and isinstance(value, dict):
        return _first_of_each(value)
    if schema.get("items", {}).get("type") == "dict":
        return [_first_of_each(item) for item in value]
    return value


def _first_of_each(allowed: Mapping[str, JSON]) -> dict[str, JSON]:
    return {key: values[0] for key, values in allowed.items() if "" not in values}


# --- the splits -----------------------------------------------------------------------------------


def _splits(names: Sequence[Sequence[str]]) -> list[Split]:
    """Returns the split of each task, given the names of its functions."""
    cluster = _clusters(names)
    sizes = Counter(cluster)
    tasks = Counter[Split]()
    split_of: dict[str, Split] = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], _digest(name))):
        split = max(_SHARES, key=lambda split: _SHARES[split] * len(names) - tasks[split])
        split_of[name] = split
        tasks[split] += sizes[name]
    return [split_of[name] for name in cluster]


def _clusters(names: Sequence[Sequence[str]]) -> list[str]:
    """Returns, for each task, the first name of its cluster in alphabetical order."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    for task_names in names:
        roots = {root(name) for name in task_names}
        parent |= dict.fromkeys(roots, min(roots))
    return [root(task_names[0]) for task_names in names]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
