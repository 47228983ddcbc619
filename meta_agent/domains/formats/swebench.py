"""Reads files of repository tasks: SWE-bench and the sets that descend from it.

A row that comes out is complete enough to be shown to an agent and to be graded. Anything else
raises one `ConfigError` with file, line, field and value. Test ids may be lists or JSON strings.
Rows without a gold patch are read, because some releases of trainers drop it. Beyond the public
formats a row may carry `split` (train, search, confirm or vault) and `source`, which says where its
tree comes from (see `SourceSpec`). `_swe_sets.py` holds what each set has of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

from meta_agent.core.errors import ConfigError
from meta_agent.domains.formats._swe_row import SourceSpec, SweRow, semantic_key
from meta_agent.domains.formats._swe_sets import dialect_of, own_fields
from meta_agent.domains.formats.rows import FORMS, Fields, explicit_split, hashed_split, stream_rows

_KNOWN = frozenset(
    {"instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch"}
    | {"FAIL_TO_PASS", "PASS_TO_PASS", "hints_text", "version", "split", "source"}
    | {"image", "image_name", "docker_image"}
)


def read_swebench(path: Path) -> list[SweRow]:
    """Returns the repository tasks of a file, whose rows may be of several data sets.

    Raises `ConfigError` at the first bad row, if two rows share an id, or if there is no row.
    """
    rows: dict[str, SweRow] = {}
    for fields in stream_rows(path):
        row = _row(fields)
        earlier = rows.setdefault(row.instance_id, row)
        if earlier is not row:
            raise fields.refused(
                f"field instance_id: line {earlier.line} already has {row.instance_id!r}"
            )
    if not rows:
        raise ConfigError(f"{path} holds no tasks", hint=FORMS)
    return list(rows.values())


def _row(fields: Fields) -> SweRow:
    dialect = dialect_of(fields)  # before a field is missed that another set does not have
    name, tests = fields.text("instance_id"), fields.texts("FAIL_TO_PASS")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", name):
        raise fields.need("instance_id", "letters, digits, '.', '_' and '-', at most 200")
    if not tests:
        raise fields.need("FAIL_TO_PASS", "at least one test that the fix makes pass")
    by_set = own_fields(fields)
    by_set["source"] = _source(fields) or by_set["source"]
    repo, statement = fields.text("repo"), fields.text("problem_statement")
    explicit = explicit_split(fields)
    return SweRow(
        instance_id=name,
        repo=repo,
        # SWE-smith names none: a branch of the image is the base.
        base_commit=fields.text("base_commit", "HEAD" if dialect == "swe-smith" else None),
        problem_statement=statement,
        test_patch=fields.text("test_patch", ""),
        fail_to_pass=tests,
        pass_to_pass=fields.texts("PASS_TO_PASS"),
        split=explicit or hashed_split(semantic_key(repo, by_set["patch"], statement)),
        split_is_explicit=explicit is not None,
        line=fields.line,
        extra={name: value for name, value in fields.row.items() if name not in _KNOWN},
        **by_set,
    )


def _source(fields: Fields) -> SourceSpec | None:
    inner = fields.nested("source")
    if inner is None:
        return None
    archive, image_path = inner.optional_text("archive"), inner.optional_text("image_path")
    if (archive is None) == (image_path is None):
        raise fields.need("source", "either archive (with sha256) or image_path")
    digest = inner.text("sha256") if archive else ""
    if archive and not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise inner.need("sha256", "64 lower-case hexadecimal digits")
    return SourceSpec(
        hidden=inner.texts("hidden", ()),
        archive=archive,
        sha256=digest,
        image_path=image_path,
        setup_patch=inner.text("setup_patch", ""),
        pythonpath=inner.texts("pythonpath", (".",)),
        python=inner.text("python", "python3"),
        plugins=inner.texts("plugins", ()),
        held=inner.texts("own", ()),
    )
