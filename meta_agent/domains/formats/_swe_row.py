"""`SweRow`: a repository task, whatever set its row is from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from meta_agent.core.protocols import JSON, Split


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """Where a task's source files come from: an archive beside the task file, or an image's folder.

    `setup_patch` changes these files before an attempt, for example to plant a bug. An agent never
    sees the paths in `hidden`; grading puts them back.
    """

    archive: str | None = None  # relative to the task file; .tar or .tar.gz with one top folder
    sha256: str = ""
    image_path: str | None = None
    setup_patch: str = ""
    pythonpath: tuple[str, ...] = (".",)
    python: str = "python3"
    plugins: tuple[str, ...] = ()  # pytest plugins in the image, by package name
    held: tuple[str, ...] = ()  # top names of the tree that the image holds too
    hidden: tuple[str, ...] = ()  # files, and folders with all that is in them


@dataclass(frozen=True, slots=True)
class OfficialRun:
    """The test command of a task set's own evaluator, and the name of the parser of its log.

    The shell lines `prelude` run first. With `only_passed`, skipped tests and expected failures do
    not count as passed.
    """

    command: str
    parser: str
    prelude: str = ""
    only_passed: bool = False
    always: bool = False  # run this command even if our own runner could run the tests


@dataclass(frozen=True, slots=True)
class SweRow:
    """A task in a code repository. `patch` is the gold (right) fix or None; no agent sees it."""

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
    dialect: str = "swe-bench"
    run: OfficialRun | None = None

    @property
    def expected_ids(self) -> tuple[str, ...]:
        """Returns the grading tests: FAIL_TO_PASS and PASS_TO_PASS."""
        return self.fail_to_pass + self.pass_to_pass


def semantic_key(repo: str, patch: str | None, problem_statement: str) -> str:
    """Returns a hash of a task's repository and fix; equal tasks of different sets share the hash.

    Only the fix's changed lines count, without indentation; without a fix, the problem statement.
    """
    changed = re.findall(r"^[+-](?!\+\+ |-- )[^\S\n]*(.*?)[^\S\n]*$", patch or "", re.MULTILINE)
    body = "\n".join(filter(None, changed)) if changed else problem_statement.strip()
    return hashlib.sha256(f"{repo}\0{body}".encode()).hexdigest()
