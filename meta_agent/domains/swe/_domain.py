"""`RealSwe`: a file of SWE-bench-format rows as a domain with a sealed grader.

Promises: a file that cannot be used is refused while it is loaded, before anything starts; an
agent sees neither the gold fix nor the tests that decide, and its tree has no history;
`evaluator_hash` changes with the file, the archives, the code that grades, the ceilings and the
sampling.

Does not cover: the identity of an image behind a tag (pin it by digest in the row), and rows whose
tests pytest does not run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path

from meta_agent.domains.formats import SourceSpec, SweRow, read_swebench
from meta_agent.domains.swe._environment import SweEnvironment
from meta_agent.domains.swe._grade import (
    GRADE_CPU_SEC,
    GRADE_TIMEOUT_SEC,
    SandboxFactory,
    grade_patch,
    staged,
)
from meta_agent.domains.swe._patch import PatchError, apply, parse
from meta_agent.domains.swe._sift import TaskFiles
from meta_agent.domains.swe._tree import Tree, prepared, read_archive, read_from_image
from meta_agent.errors import ConfigError
from meta_agent.protocols import (
    JSON,
    SPLITS,
    Ceilings,
    Environment,
    Outcome,
    Sampling,
    Sandbox,
    SandboxLimits,
    Split,
    Task,
)

SMALL_FILE_TASKS = 100
_CEILINGS = Ceilings(
    max_turns=40, max_tokens_per_turn=2048, max_context_tokens=32_768, wall_sec=900.0
)
_SAMPLING = Sampling(temperature=0.7)
_LIMITS = SandboxLimits(memory_mb=1024, cpus=1.0, pids=128, scratch_mb=256, deadline_sec=1800.0)


class RealSwe:
    """Tasks from real repositories. See `protocols.Domain`."""

    name = "swe"
    ceilings = _CEILINGS
    sampling = _SAMPLING
    open_at_once = 4
    """Task sandboxes at the same time in lock-step (read by `rollouts.Runner`)."""

    def __init__(self, path: Path, factory: SandboxFactory) -> None:
        self.path = path
        self.rows = {row.instance_id: row for row in read_swebench(path)}
        self._factory = factory
        self._archives: dict[tuple[str, str], Tree] = {}
        self._files: dict[str, TaskFiles] = {}
        for row in self.rows.values():
            self._check(row)
        self.evaluator_hash = self._hash()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about this file before trusting numbers from it."""
        return tuple(note for note in (self._size_note(), self._shown_note()) if note)

    def _size_note(self) -> str:
        if len(self.rows) >= SMALL_FILE_TASKS:
            return ""
        sizes = ", ".join(f"{split} {len(self.tasks(split))}" for split in SPLITS)
        return (
            f"{self.path.name} has {len(self.rows)} tasks ({sizes}), fewer than "
            f"{SMALL_FILE_TASKS}: expect INCONCLUSIVE verdicts unless an effect is large"
        )

    def _shown_note(self) -> str:
        count = sum(not row.test_patch for row in self.rows.values())
        return (
            f"{count} tasks show the deciding tests to the agent (no test_patch)" if count else ""
        )

    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of one split, in the order of the file."""
        return [self.task(key) for key, row in self.rows.items() if row.split == split]

    def task(self, key: str) -> Task:
        """One task as the agent may see it."""
        row = self.rows[key]
        view = {
            "repo": row.repo,
            "issue": row.problem_statement,
            "tools": list(SweEnvironment.tools),
        }
        return Task(self.name, key, row.split, _row_hash(row), view)

    def open(self, task: Task) -> Environment:
        """An attempt, with the tree that has the bug in the task's own sandbox."""
        files = self.files(task.key)
        start = partial(staged, files.row, files.visible, self._factory)
        return SweEnvironment(files, start, self._factory, _source(files.row).python)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        """Grades a stored attempt again, from its patch alone."""
        return grade_patch(self.files(task_key), str(verifier_inputs["patch"]), self._factory)

    def files(self, key: str) -> TaskFiles:
        """The trees of one task (trusted code only: they hold the answer)."""
        if key not in self._files:
            row = self.rows[key]
            visible = prepared(self._shipped(row), _source(row), key)
            self._files[key] = TaskFiles(row, visible, _gold_changes(row, visible))
        return self._files[key]

    def _check(self, row: SweRow) -> None:
        """Refuses a row that could not be staged or graded."""
        where = f"{self.path}:{row.line}: {row.instance_id}"
        if row.source is None:
            raise ConfigError(
                f"{where} has no field source, so there is no tree to work on",
                hint="add source.archive and source.sha256, or image and source.image_path",
            )
        if row.extra.get("eval_type") == "fail_only":
            raise ConfigError(
                f"{where} has eval_type fail_only; only tests that report a pass can be graded"
            )
        odd = next((test for test in row.expected_ids if "::" not in test), None)
        if odd is not None:
            raise ConfigError(
                f"{where} expects the test {odd!r}, which is not a pytest id (file::name)"
            )
        if row.source.archive is not None:
            self._check_patches(where, self.files(row.instance_id))

    def _check_patches(self, where: str, files: TaskFiles) -> None:
        try:
            missing = sorted(
                {test.split("::", 1)[0] for test in files.row.expected_ids} - files.graded.keys()
            )
        except PatchError as problem:
            raise ConfigError(
                f"{where}: field test_patch does not fit the tree: {problem}"
            ) from problem
        if missing:
            raise ConfigError(f"{where} expects tests in {missing[0]}, which is not in the tree")

    def _shipped(self, row: SweRow) -> Tree:
        source = _source(row)
        if source.archive is not None:
            return self._archive(source.archive, source.sha256)
        place = (row.image or "", str(source.image_path))
        if place not in self._archives:
            self._archives[place] = self._image_tree(
                row.image, str(source.image_path), source.python
            )
        return self._archives[place]

    def _archive(self, name: str, sha256: str) -> Tree:
        if (name, sha256) not in self._archives:
            self._archives[name, sha256] = read_archive(self.path.parent / name, sha256)
        return self._archives[name, sha256]

    def _image_tree(self, image: str | None, directory: str, python: str) -> Tree:
        sandbox = self._factory(image)
        try:
            return read_from_image(sandbox, directory, python)
        finally:
            sandbox.close()

    def _hash(self) -> str:
        parts = {
            "rows": [_row_hash(row) + row.split for row in self.rows.values()],
            "grader": _grader_hash(),
            "ceilings": dataclasses.asdict(self.ceilings),
            "sampling": dataclasses.asdict(self.sampling),
            "limits": dataclasses.asdict(_LIMITS),
            "grade_sec": [GRADE_CPU_SEC, GRADE_TIMEOUT_SEC],
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def load_tasks_domain(path: Path, *, sandbox: str = "docker", run: str = "tasks") -> RealSwe:
    """A task file as a domain whose sandboxes belong to `run`."""
    from meta_agent.sandbox import open_sandbox

    def factory(image: str | None) -> Sandbox:
        return open_sandbox(sandbox, run=run, limits=_LIMITS, image=image)

    return RealSwe(Path(path), factory)


def _source(row: SweRow) -> SourceSpec:
    if row.source is None:
        raise ConfigError(f"{row.instance_id} has no field source")
    return row.source


def _gold_changes(row: SweRow, visible: Tree) -> dict[str, bytes | None] | None:
    """None where there is no gold patch or it does not fit; `tasks check` says so per task."""
    try:
        return apply(visible, parse(row.patch)) if row.patch else None
    except PatchError:
        return None


def _row_hash(row: SweRow) -> str:
    content = dataclasses.asdict(row)
    del content["line"]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _grader_hash() -> str:
    digest = hashlib.sha256()
    # What a reader made of a file is in the hash of each row.
    files = [resources.files("meta_agent.domains.formats") / "swebench.py"]
    files += resources.files("meta_agent.domains.swe").iterdir()
    for file in sorted(files, key=lambda item: item.name):
        if file.name.endswith(".py"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
