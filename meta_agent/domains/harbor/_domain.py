"""`HarborDomain`: a folder of Harbor task folders as a domain.

Promises: agent and verifier run in separate containers (`_trial`), the reward is read as untrusted
(`_grade`), a task's limits and timeouts are kept, its solution is never where an agent works, and a
folder that says something that cannot be kept is refused by name (`_task`).

Does not cover: the network, which no container has, also where a task would get it from Harbor
(`notes` says how many would): tests that install their tools from there fail as verifiers, and an
image that has them is needed. An agent that works as root can change the tools that the verifier
uses in its own environment, as it can in Harbor; `environment_mode = "separate"` is against that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError, SandboxError
from meta_agent.core.protocols import JSON, Ceilings, Environment, Outcome, Task, ToolResult
from meta_agent.domains._identity import ReadTasks, code_hash
from meta_agent.domains._scratch import result_of
from meta_agent.domains.harbor._grade import VerifierError, outcome_of
from meta_agent.domains.harbor._task import FILE, HarborTask, read_task
from meta_agent.domains.harbor._trial import HarborTrial, image_of
from meta_agent.sandboxes import folder_hash

DEPTH: Final = 6
RUN_SEC: Final = 180.0
OUTPUT_CHARS: Final = (
    30_000  # of one command; how much of it a model reads is the scaffold's affair
)
_RUN: Final = {
    "type": "function",
    "function": {
        "name": "run",
        "description": "Run a shell command in the task's container. Each starts anew: `cd` does "
        "not last, files do.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
_SOURCES: Final = ("_task.py", "_trial.py", "_grade.py", "_domain.py")


class HarborDomain(ReadTasks):
    """The domain of Harbor tasks: a folder for each, tried and graded in containers."""

    name = "harbor"
    open_at_once = 4

    def __init__(
        self, path: Path, *, run: str, engine: str = "docker", threshold: float | None = None
    ) -> None:
        self.path, self._run, self._engine, self.threshold = path, run, engine, threshold
        self.rows = {task.key: task for task in map(read_task, task_folders(path))}
        self._require_images()
        self.splits_stated = any(task.split_is_stated for task in self.rows.values())
        self._hashes = {key: folder_hash(task.folder) for key, task in self.rows.items()}
        self.ceilings = Ceilings(
            max_turns=100,
            max_tokens_per_turn=8192,
            max_context_tokens=131_072,
            wall_sec=max(task.agent.timeout_sec for task in self.rows.values()),
        )
        self.notes = self._notes()
        code = code_hash(harbor=_SOURCES)
        self.evaluator_hash = self.hash_with(code=code, threshold=threshold)

    def _notes(self) -> tuple[str, ...]:
        tasks, notes = self.rows.values(), list[str]()
        if online := sum(task.wants_network for task in tasks):
            notes.append(f"{online} of {len(tasks)} tasks would have the network; none has it here")
        if bare := sum(not (task.artifacts or task.own_place) for task in tasks):
            notes.append(
                f"{bare} of {len(tasks)} tasks declare no artifacts: their verifier runs in what "
                "the agent left, and is unchecked if more changed than the working directory"
            )
        return tuple(notes)

    def content_hash(self, row: HarborTask) -> str:
        return self._hashes[row.key]

    def view(self, row: HarborTask) -> dict[str, JSON]:
        tools = list(HarborEnvironment.tools)
        return {"prompt": row.instruction, "tools": tools, "schemas": [_RUN]}

    def open(self, task: Task) -> Environment:
        """Returns a new attempt's environment. Its container starts at the first `run`."""
        return HarborEnvironment(self.trial(task.key), self.threshold)

    def trial(self, key: str) -> HarborTrial:
        """Returns a new attempt that can run solution and verifier, for trusted code only."""
        return HarborTrial(self.rows[key], self._run, engine=self._engine)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        """Returns the outcome of stored rewards (`verifier_inputs`); no verifier runs again."""
        del task_key
        return _graded(dict(verifier_inputs), self.threshold)

    def _require_images(self) -> None:
        for task in self.rows.values():
            for place in (task.place, task.own_place):
                try:
                    _ = place and image_of(place, engine=self._engine)
                except SandboxError as error:
                    if error.kind != "image":
                        raise
                    raise ConfigError(
                        f"{task.key}: {error}",
                        hint=f"meta-agent tasks check {self.path} --domain harbor --pull",
                    ) from error


class HarborEnvironment:
    """One attempt at a Harbor task. Its tools: `run` (a shell command) and `submit`."""

    tools: Sequence[str] = ("run", "submit")

    def __init__(self, trial: HarborTrial, threshold: float | None) -> None:
        self._trial, self._threshold = trial, threshold
        self._stored: dict[str, JSON] = {}
        self._over = False

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        if self._over or self._trial.late:
            return ToolResult("the attempt is over", ok=False, done=True)
        if tool == "submit":
            self._over = True
            return ToolResult("handed over", done=True)
        command = arguments.get("command")
        if not isinstance(command, str):
            return ToolResult("run needs the argument command, a string", ok=False)
        return result_of(self._trial.exec(command, RUN_SEC), RUN_SEC, OUTPUT_CHARS)

    def grade(self) -> Outcome:
        if not self._stored:
            rewards = self._trial.rewards()
            self._stored = {"rewards": dict(rewards), "flags": list(self._trial.flags)}
        return _graded(self._stored, self._threshold)

    def verifier_inputs(self) -> dict[str, JSON]:
        return dict(self._stored)

    def close(self) -> None:
        """Ends the agent's container."""
        self._trial.close()


def _graded(stored: Mapping[str, JSON], threshold: float | None) -> Outcome:
    outcome = outcome_of(dict(stored["rewards"]), threshold)
    return dataclasses.replace(outcome, flags=tuple(stored.get("flags", ())))


def make_images(
    path: Path,
    *,
    engine: str = "docker",
    pull: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, str]:
    """Finds, builds or (with `pull`) downloads all tasks' images. Returns one image id per task."""
    images = {}
    for task in map(read_task, task_folders(path)):
        for place in filter(None, (task.own_place, task.place)):  # the last is the agent's
            images[task.key] = image_of(place, engine=engine, pull=pull)
        progress(f"{task.key}: {images[task.key][:19]}")
    return images


def task_folders(path: Path) -> list[Path]:
    """Returns `path` or the task folders in it. Raises ConfigError if none, or if names repeat."""
    if not path.is_dir():
        raise ConfigError(
            f"{path} is not a folder of Harbor tasks",
            hint="--tasks FOLDER, with a folder for each task",
        )
    if (path / FILE).is_file():
        return [path]
    folders = [
        file.parent
        for file in sorted(path.rglob(FILE))
        if len(file.relative_to(path).parts) <= DEPTH + 1
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not folders:
        raise ConfigError(
            f"no folder in {path} is a task: none has a {FILE}",
            hint="--tasks FOLDER, with a folder for each task",
        )
    names: dict[str, Path] = {}
    for folder in folders:
        if folder.name in names:
            raise ConfigError(
                f"two task folders have the name {folder.name}: {names[folder.name]} and {folder}",
                hint="rename one: the folder's name is the task's key",
            )
        names[folder.name] = folder
    return folders


__all__ = ["HarborDomain", "HarborEnvironment", "VerifierError", "task_folders"]
