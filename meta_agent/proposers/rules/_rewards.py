"""How a reward file is laid out: weights, a table of components, and safe edits of both."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._source import PythonFile, renewed

WEIGHTS = "WEIGHTS"


@dataclass(frozen=True)
class RewardFile:
    """A harness file with the function `reward` and the dict `WEIGHTS` (component to weight)."""

    file: PythonFile

    @property
    def weights(self) -> Mapping[str, float]:
        values: Any = next((c.value for c in self.file.constants() if c.name == WEIGHTS), {})
        return {k: float(v) for k, v in values.items()} if isinstance(values, dict) else {}

    @property
    def table(self) -> str | None:
        """Returns the name of the dict from reward components to functions, if the file has one."""
        nodes = self.file.assignments.items()
        tables = ((name, node.values) for name, node in nodes if isinstance(node, ast.Dict))
        return next(
            (
                name
                for name, values in tables
                if name != WEIGHTS and values and all(isinstance(v, ast.Name) for v in values)
            ),
            None,
        )

    def function_of(self, component: str) -> str | None:
        """Returns the name of the function that computes a reward component, or None."""
        node = self.file.dict_node(self.table) if self.table else None
        if node is not None:
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == component:
                    return value.id if isinstance(value, ast.Name) else None
        return component if self.file.function(component) else None

    def reweighted(self, component: str, weight: float) -> dict[str, str]:
        """Returns an edit, `{path: new text}`, that gives a reward component another weight."""
        text = self.file.with_entry(WEIGHTS, component, repr(round(weight, 6)))
        return {} if text is None else {self.file.path: text}

    def without(self, component: str) -> dict[str, str]:
        """Returns an edit, `{path: new text}`, that removes a component or sets its weight to 0."""
        if self.table is None or self.file.without_entry(self.table, component) is None:
            return self.reweighted(component, 0.0)
        function = self.function_of(component)
        file = renewed(self.file, self.file.without_entry(self.table, component))
        file = renewed(file, file.without_entry(WEIGHTS, component))
        if function is not None and file.uses(function) == 0:
            file = renewed(file, file.without_function(function))
        return {self.file.path: file.text}

    def edited(self, edits: Mapping[str, str]) -> RewardFile:
        """Returns this reward file after an edit, which maps paths to new texts."""
        return RewardFile(renewed(self.file, edits.get(self.file.path)))

    def with_component(self, component: str, weight: float, function: str) -> dict[str, str]:
        """Returns an edit, `{path: new text}`, that adds a reward component for single attempts.

        `function` is the source of the component's function. Returns {} if the component exists.
        """
        if self.file.function(component) is not None or component in self.weights:
            return {}
        file = renewed(self.file, self.file.with_entry(WEIGHTS, component, repr(weight)))
        if self.table is not None:
            first = self._line_of(self.table)
            file = renewed(file, file.with_entry(self.table, component, component))
            text = _before_line(file.text, first, function)
        else:
            text = _wrapped(file.text, component, function)
        return {self.file.path: text} if file.text != self.file.text else {}

    def with_group(self, component: str, weight: float, function: str) -> dict[str, str]:
        """Returns an edit, `{path: new text}`, that adds a reward by comparison within a group.

        `function` is the source of the function `reward_group`.
        """
        file = renewed(self.file, self.file.with_entry(WEIGHTS, component, repr(weight)))
        return {self.file.path: f"{file.text.rstrip()}\n\n\n{function.strip()}\n"}

    def _line_of(self, table: str) -> int:
        """Returns the line of the table: functions that it names must stand above it."""
        for node in self.file.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(t, ast.Name) and t.id == table for t in targets):
                return node.lineno
        return len(self.file.text.splitlines()) + 1


def reward_file(case: Case) -> RewardFile | None:
    """Returns the harness's file with `reward` and `WEIGHTS` (component to weight), or None."""
    files = (f for f in case.python("reward") if f.function("reward") and f.dict_node(WEIGHTS))
    return next(map(RewardFile, files), None)


def _before_line(text: str, line: int, block: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: line - 1], block.strip("\n") + "\n\n\n", *lines[line - 1 :]])


def _wrapped(text: str, component: str, function: str) -> str:
    """Adds the component, if there is no table, around the function that is there."""
    before = f"_reward_without_{component}"
    return (
        f"{text.rstrip()}\n\n\n{function.strip()}\n\n\n{before} = reward\n\n\n"
        f"def reward(rollout):\n"
        f'    return {{**{before}(rollout), "{component}": {component}(rollout)}}\n'
    )
