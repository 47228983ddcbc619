"""Reads R2E-Gym rows, whose pass rule is another one than SWE-bench's.

A row names an image, a commit, an issue text, and the status that every test must have after the
fix (`expected_output_json`). An attempt is resolved when the whole map of statuses is equal: no
test missing, none more, none different. `split_rows` tells such rows from SWE-bench ones in a file
that holds both, as some trainers' releases do.

Does not cover: running them (the statuses come from the image's own test command).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.strict import document
from meta_agent.core.parsing.syntax import literal_value
from meta_agent.core.protocols import JSON, Split
from meta_agent.domains.formats._splits import explicit_split, hashed_split
from meta_agent.domains.formats.rows import Fields, stream_rows
from meta_agent.domains.formats.swebench import (
    OfficialRun,
    SourceSpec,
    SweRow,
    semantic_key,
    swe_row,
)

STATUSES: Final = frozenset({"PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS"})
_KNOWN = frozenset(
    {"repo", "repo_name", "commit_hash", "docker_image", "problem_statement", "modified_files"}
    | {"expected_output_json", "split", "parsed_commit_content", "relevant_files"}
)
_RUN: Final = (
    "if [ -f run_tests.sh ]; then bash run_tests.sh; "
    "else .venv/bin/python -W ignore -m pytest -rA r2e_tests; fi"
)
_MARKS: Final = {"context": " ", "deleted": "-", "added": "+"}


@dataclass(frozen=True, slots=True)
class R2eRow:
    """One task. `expected` is the answer key: it is never shown to an agent."""

    instance_id: str
    repo: str
    commit: str
    problem_statement: str
    expected: Mapping[str, str]
    image: str
    modified_files: tuple[str, ...]
    split: Split
    line: int
    extra: Mapping[str, JSON] = field(default_factory=dict)
    patch: str | None = None


def as_swe_row(row: R2eRow) -> SweRow:
    """Returns the row as the swe domain runs it: one command, one map of statuses."""
    source = SourceSpec(
        image_path="/testbed",
        python=".venv/bin/python",
        hidden=("r2e_tests", "run_tests.sh"),
        elsewhere=(("/r2e_tests", "r2e_tests"),),
        kept_names=(".venv",),
    )
    return SweRow(
        instance_id=row.instance_id,
        repo=row.repo,
        base_commit=f"{row.commit}^",
        problem_statement=row.problem_statement,
        patch=row.patch,
        test_patch="",
        fail_to_pass=(),
        pass_to_pass=(),
        split=row.split,
        split_is_explicit=False,
        image=row.image,
        source=source,
        line=row.line,
        extra=row.extra,
        dialect="r2e-gym",
        run=OfficialRun(_RUN, "parse_log_r2e", whole=True, always=True),
        expected=row.expected,
    )


def resolved(expected: Mapping[str, str], statuses: Mapping[str, str]) -> bool:
    """Returns True for the same tests with the same statuses, and at least one test."""
    return bool(expected) and _by_name(expected) == _by_name(statuses)


def split_rows(path: Path) -> tuple[list[SweRow], list[R2eRow]]:
    """Returns all rows of a file: those in SWE-bench's form, and those of R2E-Gym."""
    swe: list[SweRow] = []
    r2e: list[R2eRow] = []
    for fields in stream_rows(path):
        if "expected_output_json" in fields.row:
            r2e.append(r2e_row(fields))
        else:
            swe.append(swe_row(fields))
    if not swe and not r2e:
        raise ConfigError(f"{path} holds no tasks")
    return swe, r2e


def r2e_row(fields: Fields) -> R2eRow:
    """Returns one row. Raises `ConfigError` with file, line and field if it is none."""
    repo = fields.optional_text("repo_name", "repo")
    if repo is None:
        raise fields.error("repo_name", "a non-empty string")
    commit, statement = fields.text("commit_hash"), fields.text("problem_statement")
    if not re.fullmatch(r"[0-9a-f]{7,64}", commit):
        raise fields.error("commit_hash", "a commit's hash")
    expected = _expected(fields)
    return R2eRow(
        instance_id=f"{re.sub(r'[^A-Za-z0-9._-]+', '-', repo)}-{commit[:12]}",
        repo=repo,
        commit=commit,
        problem_statement=statement,
        expected=expected,
        image=fields.text("docker_image"),
        modified_files=_listed(fields, "modified_files"),
        split=explicit_split(fields) or hashed_split(_key(repo, commit, statement)),
        line=fields.line,
        extra={name: value for name, value in fields.row.items() if name not in _KNOWN},
        patch=_patch(fields),
    )


def _patch(fields: Fields) -> str | None:
    """Returns the fix of the row's commit without its tests.

    Returns None if the release dropped it.
    """
    value = fields.row.get("parsed_commit_content")
    if not value:
        return None
    relevant = set(_listed(fields, "relevant_files"))
    try:
        commit = document(value) if isinstance(value, str) else value
        texts = [_file_diff(diff) for diff in commit["file_diffs"] if _counts(diff, relevant)]
    except (ValueError, KeyError, TypeError) as problem:
        raise fields.error(
            "parsed_commit_content", "a commit with file_diffs, their hunks and lines"
        ) from problem
    return "".join(texts) or None


def _counts(diff: Mapping[str, JSON], relevant: set[str]) -> bool:
    path = str(diff["header"]["file"]["path"])
    return path in relevant if relevant else path.endswith(".py") and "test" not in path


def _file_diff(diff: Mapping[str, JSON]) -> str:
    path = str(diff["header"]["file"]["path"])
    old, new = (_side(diff, side, path) for side in ("minus_file", "plus_file"))
    lines = [f"diff --git a/{path} b/{path}", f"--- {old}", f"+++ {new}"]
    for hunk in diff["hunks"]:
        ranges = [hunk["descriptor"][side] for side in ("old_range", "new_range")]
        spans = [
            f"{line['start']},{1 if line['length'] is None else line['length']}" for line in ranges
        ]
        lines.append(f"@@ -{spans[0]} +{spans[1]} @@")
        lines += [
            _MARKS[line["type"]] + line["content"] for line in hunk["line_group"]["all_lines"]
        ]
    return "\n".join(lines) + "\n"


def _side(diff: Mapping[str, JSON], side: str, path: str) -> str:
    file_path = str((diff.get(side) or {}).get("path") or path)
    if file_path == "/dev/null":
        return file_path
    return ("a/" if side == "minus_file" else "b/") + path


def _key(repo: str, commit: str, statement: str) -> str:
    return hashlib.sha256((semantic_key(repo, None, statement) + commit).encode()).hexdigest()


def _expected(fields: Fields) -> dict[str, str]:
    text = fields.text("expected_output_json")
    try:
        value = document(text)
    except ValueError as problem:
        raise fields.error("expected_output_json", "JSON of test names and statuses") from problem
    if not isinstance(value, dict) or not value or not set(value.values()) <= STATUSES:
        raise fields.error("expected_output_json", f"statuses among {', '.join(sorted(STATUSES))}")
    return value


def _listed(fields: Fields, name: str) -> tuple[str, ...]:
    """Returns a list of paths. The public set also stores Python literals of one."""
    value = fields.row.get(name) or []
    if isinstance(value, str):
        try:
            value = literal_value(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError) as problem:
            raise fields.error(name, "a list of paths") from problem
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise fields.error(name, "a list of paths")
    return tuple(value)


def _by_name(statuses: Mapping[str, str]) -> dict[str, str]:
    """Returns statuses by test name, without colour codes and what pytest adds after ` - `."""
    clean = {re.sub(r"\x1b\[[0-9;]*m", "", name): status for name, status in statuses.items()}
    return {name.split(" - ", 1)[0].strip(): status for name, status in clean.items()}
