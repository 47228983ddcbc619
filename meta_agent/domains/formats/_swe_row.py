"""`SweRow`: a repository task, whatever set its row is from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from meta_agent.core.protocols import JSON, Split


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """Where a task's tree comes from: a source archive beside the file, or a path in the image.

    `setup_patch` turns that tree into what the agent starts from; SWE-bench rows have none, planted
    bugs do. An agent never sees `hidden`; grading has it.
    """

    archive: str | None = None  # relative to the task file; .tar or .tar.gz with one top folder
    sha256: str = ""
    image_path: str | None = None
    setup_patch: str = ""
    pythonpath: tuple[str, ...] = (".",)
    python: str = "python3"
    plugins: tuple[str, ...] = ()  # of pytest in the image, by their distributions' names
    held: tuple[str, ...] = ()  # top names of the tree that the image holds too
    hidden: tuple[str, ...] = ()  # files, and folders with all that is in them
    elsewhere: tuple[
        tuple[str, str], ...
    ] = ()  # folders of the image: (its path, path in the tree)
    kept_names: tuple[str, ...] = ()  # top names that stay in the image, such as an environment


@dataclass(frozen=True, slots=True)
class OfficialRun:
    """How a set's own evaluator runs the tests: a command in the repository, and its log's parser.

    `prelude` are shell lines before it. `only_passed`: no other status will do (SWE-rebench V2).
    `whole`: the parsed map has to equal `SweRow.expected` (R2E-Gym).
    """

    command: str
    parser: str
    prelude: str = ""
    only_passed: bool = False
    whole: bool = False
    always: bool = False  # even where pytest's ids would let our own runner do it


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
    dialect: str = "swe-bench"
    run: OfficialRun | None = None
    expected: Mapping[str, str] = field(default_factory=dict)

    @property
    def expected_ids(self) -> tuple[str, ...]:
        """The ids of all tests that decide."""
        return self.fail_to_pass + self.pass_to_pass or tuple(self.expected)


def semantic_key(repo: str, patch: str | None, problem_statement: str) -> str:
    """Returns what makes two tasks the same: the repository and the fix, whatever they are called.

    Only the changed lines count, without their indentation, so that context and offsets do not
    matter.
    """
    changed = re.findall(r"^[+-](?!\+\+ |-- )\s*(.*?)\s*$", patch or "", re.MULTILINE)
    body = "\n".join(changed) if changed else problem_statement.strip()
    return hashlib.sha256(f"{repo}\0{body}".encode()).hexdigest()
