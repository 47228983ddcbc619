"""Reads rows in the format of SWE-bench and of the sets that descend from it.

Promises: a row that comes out is complete enough to be shown to an agent and to be graded; anything
else is one `ConfigError` with file, line, field and value, and a set that is not known is refused
with those that are. Test ids may be lists or JSON strings; files may be JSON lines, a JSON list,
gzipped, or Parquet; rows without a gold patch are read (some trainers' releases drop it). Beyond
the public formats a row may carry `split` (train, search, confirm or vault) and `source`, which
says where its tree comes from (see `SourceSpec`). What each set has of its own is in
`_swe_sets.py`.

Does not cover: R2E-Gym rows, which are recognised and refused because their pass rule is another
one (`r2e.py` reads them, and files that hold both).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from meta_agent.core.errors import ConfigError
from meta_agent.domains.formats._splits import explicit_split, hashed_split
from meta_agent.domains.formats._swe_row import OfficialRun, SourceSpec, SweRow, semantic_key
from meta_agent.domains.formats._swe_sets import dialect_of, particulars
from meta_agent.domains.formats.rows import Fields, stream_rows

_KNOWN = frozenset(
    {"instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch"}
    | {"FAIL_TO_PASS", "PASS_TO_PASS", "hints_text", "version", "split", "source"}
    | {"image", "image_name", "docker_image"}
)


def read_swebench(path: Path) -> list[SweRow]:
    """Returns all rows of a file. Raises `ConfigError` at the first bad one."""
    rows = [swe_row(fields) for fields in stream_rows(path)]
    if not rows:
        raise ConfigError(f"{path} holds no tasks")
    refuse_repeats(path, rows)
    return rows


def swe_row(fields: Fields) -> SweRow:
    """Returns one row. Raises `ConfigError` with file, line and field if it is none."""
    _refuse_other_formats(fields)
    dialect_of(fields)  # before a field is missed that another set does not have
    name, tests = _instance_id(fields), _deciding_tests(fields)
    its_own = particulars(fields, tests)
    repo, statement = fields.text("repo"), fields.text("problem_statement")
    explicit = explicit_split(fields)
    return SweRow(
        instance_id=name,
        repo=repo,
        base_commit=_base_commit(fields, its_own.dialect),
        problem_statement=statement,
        patch=its_own.patch,
        test_patch=fields.text("test_patch", ""),
        fail_to_pass=tests,
        pass_to_pass=fields.texts("PASS_TO_PASS"),
        split=explicit or hashed_split(semantic_key(repo, its_own.patch, statement)),
        split_is_explicit=explicit is not None,
        image=its_own.image,
        source=_source(fields) or its_own.source,
        line=fields.line,
        extra={name: value for name, value in fields.row.items() if name not in _KNOWN},
        dialect=its_own.dialect,
        run=its_own.run,
    )


def _base_commit(fields: Fields, dialect: str) -> str:
    """Returns the base commit. SWE-smith names none: a branch of the image is the base."""
    return fields.text("base_commit", "HEAD" if dialect == "swe-smith" else None)


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
        hidden=inner.texts("hidden", ()),
        archive=archive,
        sha256=_sha256(inner) if archive else "",
        image_path=image_path,
        setup_patch=inner.text("setup_patch", ""),
        pythonpath=inner.texts("pythonpath", (".",)),
        python=inner.text("python", "python3"),
        plugins=inner.texts("plugins", ()),
        held=inner.texts("own", ()),
    )


def _sha256(fields: Fields) -> str:
    digest = fields.text("sha256")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise fields.error("sha256", "64 lower-case hexadecimal digits")
    return digest


def refuse_repeats(path: Path, rows: Sequence[SweRow]) -> None:
    """Raises `ConfigError` if two rows have one name."""
    line_of: dict[str, int] = {}
    for row in rows:
        if row.instance_id in line_of:
            raise ConfigError(
                f"{path}:{row.line}: field instance_id: {row.instance_id!r} was "
                f"already used in line {line_of[row.instance_id]}"
            )
        line_of[row.instance_id] = row.line


__all__ = [
    "OfficialRun",
    "SourceSpec",
    "SweRow",
    "read_swebench",
    "refuse_repeats",
    "semantic_key",
    "swe_row",
]
