"""`RealSwe`: a file of repository tasks, of any known set, as a domain with a sealed grader.

Promises: a file that cannot be used is refused while it is loaded, before anything starts; an
agent sees neither the gold fix nor the tests that decide, and neither its tree nor its container
holds any history (`_places`); grading happens in a container of its own; `evaluator_hash` changes
with the file, the archives, the code that grades, the ceilings and the sampling.

Does not cover: the identity of an image behind a tag (pin it by digest in the row).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from meta_agent.core.errors import ConfigError, SandboxError
from meta_agent.core.protocols import (
    JSON,
    SPLITS,
    Ceilings,
    Environment,
    Outcome,
    SandboxLimits,
    Task,
)
from meta_agent.domains._identity import ReadTasks, code_hash
from meta_agent.domains._options import lasting
from meta_agent.domains.formats import SourceSpec, SweRow, read_swebench
from meta_agent.domains.swe._attempt import SweEnvironment
from meta_agent.domains.swe._patch import PatchError, apply, parse
from meta_agent.domains.swe._places import ImageFinder, Places
from meta_agent.domains.swe._tree import Tree, prepared
from meta_agent.domains.swe.grading._command import by_command
from meta_agent.domains.swe.grading._grade import grade_patch
from meta_agent.domains.swe.grading._logs import PARSERS
from meta_agent.domains.swe.grading._runs import (
    GRADE_CPU_SEC,
    GRADE_TIMEOUT_SEC,
    SandboxFactory,
    staged,
)
from meta_agent.domains.swe.grading._sift import TaskFiles

SMALL_FILE_TASKS = 100
_CEILINGS = Ceilings(
    max_turns=40, max_tokens_per_turn=2048, max_context_tokens=32_768, wall_sec=900.0
)
_CODE: Mapping[str, Sequence[str]] = {
    "swe": ("*",),
    "swe__grading": ("*",),
    "": ("_scratch.py",),
    # What a reader made of a file is in the hash of each row.
    "formats": ("swebench.py", "_swe_sets.py", "_swe_row.py"),
}
_LIMITS = SandboxLimits(memory_mb=1024, cpus=1.0, pids=128, scratch_mb=256, deadline_sec=1800.0)


class RealSwe(ReadTasks):
    """The domain of tasks from real repositories (as in SWE-bench), graded by their tests."""

    name = "swe"
    open_at_once = 4
    regrade_at_most = 6  # each takes a sandbox or two
    ceilings = _CEILINGS

    def __init__(
        self, path: Path, factory: SandboxFactory, images: ImageFinder | None = None
    ) -> None:
        self.path = path
        self.rows = {row.instance_id: row for row in read_swebench(path)}
        self._factory = factory
        self._places = Places(path.parent, lambda image: self._factory(image), images)
        self._files: dict[str, TaskFiles] = {}
        self.splits_stated = any(row.split_is_explicit for row in self.rows.values())
        for row in self.rows.values():
            self._check(row)
        self.notes = tuple(filter(None, (self._size_note(), self._shown_note())))
        self.evaluator_hash = self.hash_with(
            grader=code_hash(**_CODE),
            limits=dataclasses.asdict(_LIMITS),
            grade_sec=[GRADE_CPU_SEC, GRADE_TIMEOUT_SEC],
        )

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
        note = f"{count} tasks show the deciding tests to the agent (no test_patch)"
        return note if count else ""

    def view(self, row: SweRow) -> dict[str, JSON]:
        tools = list(SweEnvironment.tools)
        return {"repo": row.repo, "issue": row.problem_statement, "tools": tools}

    def open(self, task: Task) -> Environment:
        """Returns a new attempt's environment, whose sandbox holds the files with the bug."""
        files = self.files(task.key)
        start = partial(staged, files.row, files.visible, self._factory)
        return SweEnvironment(files, start, self._factory, _source(files.row).python)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        """Returns the outcome of a stored attempt: the patch in `verifier_inputs`, tested again."""
        return grade_patch(self.files(task_key), str(verifier_inputs["patch"]), self._factory)

    def files(self, key: str) -> TaskFiles:
        """Returns one task's source files and gold fix, for trusted code only."""
        if key not in self._files:
            self._files[key] = self._worked_out(self.rows[key])
        return self._files[key]

    def _worked_out(self, row: SweRow) -> TaskFiles:
        source = _source(row)
        base = self._places.base(row.image, source)
        tree = prepared(base.tree, source, row.instance_id)
        hidden = tuple(f"{prefix}/" for prefix in source.hidden)
        restored = {path: tree[path] for path in tree if f"{path}/".startswith(hidden)}
        visible = {path: content for path, content in tree.items() if path not in restored}
        here = dataclasses.replace(row, image=base.image)
        return TaskFiles(here, visible, _gold_changes(row, visible), restored)

    def _check(self, row: SweRow) -> None:
        """Raises ConfigError for a row whose tests could not be run or graded."""
        where = f"{self.path}:{row.line}: {row.instance_id}"
        if why := _unfit(row):
            raise _unusable(where, why)
        if _source(row).archive is not None:
            self._check_patches(where, self.files(row.instance_id))

    def _check_patches(self, where: str, files: TaskFiles) -> None:
        try:
            test_paths = {test.split("::", 1)[0] for test in files.row.expected_ids}
            missing = [] if by_command(files.row) else sorted(test_paths - files.graded.keys())
        except PatchError as problem:
            raise _unusable(where, f"has a misfitting test_patch: {problem}") from problem
        if missing:
            raise _unusable(where, f"expects tests in {missing[0]}, which the base commit lacks")


def load_tasks_domain(
    path: Path,
    *,
    sandbox: str = "docker",
    run: str = "tasks",
    images: Path | None = None,
    seconds: float = 0.0,
) -> RealSwe:
    """Opens a file of repository tasks as a domain. Raises ConfigError if a row cannot be used.

    `run` labels the sandboxes, and `seconds` is the longest attempt (0: the default). Container
    images come from this machine, or from tar files in the folder `images` or beside the task file.
    """
    from meta_agent.sandboxes import CONTAINERS, Images, WorkerSandbox, open_sandbox

    path, limits = Path(path), lasting(_LIMITS, seconds)

    def factory(image: str | None) -> WorkerSandbox:
        return open_sandbox(sandbox, run=run, limits=limits, image=image)

    folders = image_folders(path, images)
    finder = Images(folders, engine=sandbox) if sandbox in CONTAINERS else None
    return RealSwe(path, factory, finder)


def image_folders(path: Path, images: Path | None = None) -> list[Path]:
    """Returns the folders that are searched for tar files of a task file's container images."""
    return [*([images] if images else []), path.with_name(f"{path.stem}.images"), path.parent]


class Fetched(NamedTuple):
    """The container images of a task file: their ids by name, and why others are missing."""

    image_ids: dict[str, str]
    missing: dict[str, str]


def fetch_images(
    path: Path,
    *,
    images: Path | None = None,
    engine: str = "docker",
    pull: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> Fetched:
    """Finds a task file's container images on this machine. `pull` downloads missing ones."""
    from meta_agent.sandboxes import Images

    finder = Images(image_folders(path, images), engine=engine, pull=pull, progress=progress)
    fetched = Fetched({}, {})
    for name in sorted({row.image for row in read_swebench(path) if row.image}):
        try:
            fetched.image_ids[name] = finder.find(name)
        except SandboxError as problem:
            if problem.kind == "engine" and "pull" not in str(problem):
                raise
            fetched.missing[name] = str(problem)[:300]
    return fetched


def _unusable(where: str, why: str) -> ConfigError:
    return ConfigError(f"{where} {why}", hint="correct the row, or leave it out")


def _unfit(row: SweRow) -> str:
    """Returns why a row cannot be worked on or graded, or an empty text."""
    if row.source is None:
        return "has no field `source`: add archive and sha256 to it, or image and image_path"
    if row.extra.get("eval_type") == "fail_only":
        return "has eval_type fail_only, which says nothing of passing tests"
    if by_command(row):
        parser = row.run.parser if row.run else ""
        names = ", ".join(sorted(PARSERS))
        return "" if parser in PARSERS else f"names the log parser {parser!r}, not one of {names}"
    odd = next((test for test in row.expected_ids if "::" not in test), None)
    return f"expects the test {odd!r}, which is not a pytest id (file::name)" if odd else ""


def _source(row: SweRow) -> SourceSpec:
    assert row.source is not None, "a row without a source is refused where the file is loaded"
    return row.source


def _gold_changes(row: SweRow, visible: Tree) -> dict[str, bytes | None] | None:
    """Returns the gold fix, or None if there is none or if it does not fit."""
    try:
        return apply(visible, parse(row.patch)) if row.patch else None
    except PatchError:
        return None
