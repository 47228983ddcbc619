"""Reads rows of R2E-Gym, whose rule to pass differs from SWE-bench's.

A row names an image, a commit, an issue text, and the status that every test must have after the
fix (`expected_output_json`). An attempt is resolved if the whole map of statuses is equal: no test
is missing, none is added, and none differs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from meta_agent.core.parsing.strict import document
from meta_agent.core.parsing.syntax import literal_value
from meta_agent.core.protocols import JSON
from meta_agent.domains.formats._swe_row import OfficialRun, SourceSpec, SweRow, semantic_key
from meta_agent.domains.formats.rows import Fields, explicit_split, hashed_split

_STATUSES: Final = frozenset({"PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS"})
_KNOWN: Final = frozenset(
    {"repo", "repo_name", "commit_hash", "docker_image", "problem_statement", "modified_files"}
    | {"expected_output_json", "split", "parsed_commit_content", "relevant_files"}
)
_RUN: Final = OfficialRun(
    "if [ -f run_tests.sh ]; then bash run_tests.sh; "
    "else .venv/bin/python -W ignore -m pytest -rA r2e_tests; fi",
    "parse_log_r2e",
    whole=True,
    always=True,
)
_SOURCE: Final = SourceSpec(
    image_path="/testbed",
    python=".venv/bin/python",
    hidden=("r2e_tests", "run_tests.sh"),
    elsewhere=(("/r2e_tests", "r2e_tests"),),
    kept_names=(".venv",),
)
_MARKS: Final = {"context": " ", "deleted": "-", "added": "+"}


def r2e_row(fields: Fields) -> SweRow:
    """Returns a row of an R2E-Gym file as a repository task.

    Raises `ConfigError` with file, line and field if the row is incomplete.
    """
    repo = fields.optional_text("repo_name", "repo")
    if repo is None:
        raise fields.need("repo_name", "a non-empty string")
    commit, statement = fields.text("commit_hash"), fields.text("problem_statement")
    if not re.fullmatch(r"[0-9a-f]{7,64}", commit):
        raise fields.need("commit_hash", "a commit's hash")
    key = hashlib.sha256((semantic_key(repo, None, statement) + commit).encode()).hexdigest()
    return SweRow(
        instance_id=f"{re.sub(r'[^A-Za-z0-9._-]+', '-', repo)}-{commit[:12]}",
        repo=repo,
        base_commit=f"{commit}^",
        problem_statement=statement,
        patch=_patch(fields),
        test_patch="",
        fail_to_pass=(),
        pass_to_pass=(),
        split=explicit_split(fields) or hashed_split(key),
        split_is_explicit=False,
        image=fields.text("docker_image"),
        source=_SOURCE,
        line=fields.line,
        extra={name: value for name, value in fields.row.items() if name not in _KNOWN},
        dialect="r2e-gym",
        run=_RUN,
        expected=_expected(fields),
    )


def _patch(fields: Fields) -> str | None:
    """Returns the fix of the row's commit without its tests, or None if the release dropped it."""
    value = fields.row.get("parsed_commit_content")
    if not value:
        return None
    relevant = _paths(fields, "relevant_files")
    try:
        commit = document(value) if isinstance(value, str) else value
        diffs = [(str(diff["header"]["file"]["path"]), diff) for diff in commit["file_diffs"]]
        texts = [
            _file_diff(path, diff)
            for path, diff in diffs
            if (path in relevant if relevant else path.endswith(".py") and "test" not in path)
        ]
    except (ValueError, KeyError, TypeError) as problem:
        raise fields.need(
            "parsed_commit_content", "a commit with file_diffs, their hunks and lines"
        ) from problem
    return "".join(texts) or None


def _file_diff(path: str, diff: Mapping[str, JSON]) -> str:
    sides = [(diff.get(side) or {}).get("path") for side in ("minus_file", "plus_file")]
    old, new = (
        name if name == "/dev/null" else prefix + path
        for name, prefix in zip(sides, ("a/", "b/"), strict=True)
    )
    lines = [f"diff --git a/{path} b/{path}", f"--- {old}", f"+++ {new}"]
    for hunk in diff["hunks"]:
        ranges = [hunk["descriptor"][side] for side in ("old_range", "new_range")]
        spans = [
            f"{span['start']},{1 if span['length'] is None else span['length']}" for span in ranges
        ]
        lines.append(f"@@ -{spans[0]} +{spans[1]} @@")
        lines += [
            _MARKS[line["type"]] + line["content"] for line in hunk["line_group"]["all_lines"]
        ]
    return "\n".join(lines) + "\n"


def _expected(fields: Fields) -> dict[str, str]:
    text = fields.text("expected_output_json")
    try:
        value = document(text)
    except ValueError as problem:
        raise fields.need("expected_output_json", "JSON of test names and statuses") from problem
    if not isinstance(value, dict) or not value or not set(value.values()) <= _STATUSES:
        raise fields.need("expected_output_json", f"statuses among {', '.join(sorted(_STATUSES))}")
    return value


def _paths(fields: Fields, name: str) -> frozenset[str]:
    """Returns a field's list of paths, which some rows store as a Python literal, as a set."""
    value = fields.row.get(name) or []
    if isinstance(value, str):
        try:
            value = literal_value(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError) as problem:
            raise fields.need(name, "a list of paths") from problem
    if not isinstance(value, list | tuple) or not all(isinstance(path, str) for path in value):
        raise fields.need(name, "a list of paths")
    return frozenset(value)
