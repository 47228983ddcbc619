"""Reads rows in the format of SWE-bench and its descendants.

Promises: a row that comes out is complete enough to be shown to an agent and to be graded by test
ids; anything else is one `ConfigError` with file, line, field and value. Accepts 4.x rows (the two
test fields as JSON strings), SWE-Gym's lists, 5.x rows (further fields are kept in `extra`) and
rows without a gold patch (some trainers' releases drop it). Beyond the public format a row may
carry `split` (train, search, confirm or vault) and `source`, which says where its tree comes from
(see `SourceSpec`).

Does not cover: R2E-Gym rows, which are recognised and refused because their pass rule is another
one (`r2e.py` reads them, and files that hold both), and Parquet.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from meta_agent.domains.formats._fields import Fields, read_lines
from meta_agent.domains.formats._splits import explicit_split, hashed_split
from meta_agent.errors import ConfigError
from meta_agent.protocols import JSON, Split

_KNOWN = frozenset(
    {"instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch"}
    | {"FAIL_TO_PASS", "PASS_TO_PASS", "hints_text", "version", "split", "source"}
    | {"image", "image_name", "docker_image"}
)


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """Where a task's tree comes from: a source archive beside the file, or a path in the image.

    `setup_patch` turns that tree into what the agent sees; SWE-bench rows have none, planted bugs
    do.
    """

    archive: str | None = None  # relative to the task file; .tar or .tar.gz with one top folder
    sha256: str = ""
    image_path: str | None = None
    setup_patch: str = ""
    pythonpath: tuple[str, ...] = (".",)
    python: str = "python3"


@dataclass(frozen=True, slots=True)
class SweRow:
    """One task. `patch` is the gold fix (None where the file has none), never shown to an agent."""

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    patch: str | None
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    split: Split
    split_is_explicit: bool
    image: str | None
    source: SourceSpec | None
    line: int
    extra: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def expected_ids(self) -> tuple[str, ...]:
        """Every test that has a say."""
        return self.fail_to_pass + self.pass_to_pass


def read_swebench(path: Path) -> list[SweRow]:
    """All rows of a JSONL file; raises `ConfigError` at the first bad one."""
    if path.suffix in {".parquet", ".arrow"}:
        raise ConfigError(
            f"{path} is not JSON Lines; this reader takes one JSON object a line",
            hint="export it with: datasets.load_dataset(...)[split].to_json('tasks.jsonl')",
        )
    rows = [swe_row(fields) for fields in read_lines(path)]
    if not rows:
        raise ConfigError(f"{path} holds no tasks")
    _refuse_repeats(path, rows)
    return rows


def semantic_key(repo: str, patch: str | None, problem_statement: str) -> str:
    """What makes two tasks the same one: the repository and the fix, whatever they are called.

    Only the changed lines count, without their indentation, so that context and offsets do not
    matter.
    """
    changed = re.findall(r"^[+-](?!\+\+ |-- )\s*(.*?)\s*$", patch or "", re.MULTILINE)
    body = "\n".join(changed) if changed else problem_statement.strip()
    return hashlib.sha256(f"{repo}\0{body}".encode()).hexdigest()


def swe_row(fields: Fields) -> SweRow:
    """One row; `ConfigError` with file, line and field where it is none."""
    _refuse_other_formats(fields)
    repo, statement = fields.text("repo"), fields.text("problem_statement")
    patch = fields.optional_text("patch")
    explicit = explicit_split(fields)
    return SweRow(
        instance_id=_instance_id(fields),
        repo=repo,
        base_commit=fields.text("base_commit"),
        problem_statement=statement,
        patch=patch,
        test_patch=fields.text("test_patch", ""),
        fail_to_pass=_deciding_tests(fields),
        pass_to_pass=fields.texts("PASS_TO_PASS"),
        split=explicit or hashed_split(semantic_key(repo, patch, statement)),
        split_is_explicit=explicit is not None,
        image=fields.optional_text("image", "image_name", "docker_image"),
        source=_source(fields),
        line=fields.line,
        extra={name: value for name, value in fields.row.items() if name not in _KNOWN},
    )


def _refuse_other_formats(fields: Fields) -> None:
    if "expected_output_json" not in fields.row:
        return
    raise ConfigError(
        f"{fields.path}:{fields.line}: this is an R2E-Gym row (it has expected_output_json); "
        "its pass rule is the equality of a whole status map, not that of SWE-bench rows",
        hint="convert it: instance_id, base_commit, patch, test_patch, FAIL_TO_PASS, PASS_TO_PASS",
    )


def _instance_id(fields: Fields) -> str:
    name = fields.text("instance_id")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", name):
        raise fields.error("instance_id", "letters, digits, '.', '_' and '-', at most 200")
    return name


def _deciding_tests(fields: Fields) -> tuple[str, ...]:
    tests = fields.texts("FAIL_TO_PASS")
    if not tests:
        raise fields.error("FAIL_TO_PASS", "at least one test that the fix makes pass")
    return tests


def _source(fields: Fields) -> SourceSpec | None:
    inner = fields.nested("source")
    if inner is None:
        return None
    archive, image_path = inner.optional_text("archive"), inner.optional_text("image_path")
    if (archive is None) == (image_path is None):
        raise fields.error("source", "either archive (with sha256) or image_path")
    return SourceSpec(
        archive=archive,
        sha256=_sha256(inner) if archive else "",
        image_path=image_path,
        setup_patch=inner.text("setup_patch", ""),
        pythonpath=inner.texts("pythonpath", (".",)),
        python=inner.text("python", "python3"),
    )


def _sha256(fields: Fields) -> str:
    digest = fields.text("sha256")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise fields.error("sha256", "64 lower-case hexadecimal digits")
    return digest


def _refuse_repeats(path: Path, rows: Sequence[SweRow]) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        if row.instance_id in seen:
            raise ConfigError(
                f"{path}:{row.line}: field instance_id: {row.instance_id!r} was "
                f"already used in line {seen[row.instance_id]}"
            )
        seen[row.instance_id] = row.line
