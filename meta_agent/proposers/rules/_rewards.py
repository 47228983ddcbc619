"""How a reward file is laid out: weights, a table of components, and safe edits of both."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, Rule, rule
from meta_agent.proposers.rules._source import PythonFile

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

    @property
    def literals(self) -> set[str]:
        """Returns the texts that stand in the file's code, such as the names that it looks up."""
        nodes = (n.value for n in ast.walk(self.file.tree) if isinstance(n, ast.Constant))
        return {value for value in nodes if isinstance(value, str)}

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
        file = self.file.with_entry(WEIGHTS, component, repr(round(weight, 6)))
        return {file.path: file.text}

    def without(self, component: str) -> dict[str, str]:
        """Returns an edit that removes a component, or sets its weight to 0 if `table` lacks it."""
        file = self.file if self.table is None else self.file.without_entry(self.table, component)
        if file == self.file:
            return self.reweighted(component, 0.0)
        function = self.function_of(component)
        file = file.without_entry(WEIGHTS, component)
        if function is not None and file.uses(function) == 0:
            file = file.without_function(function)
        return {file.path: file.text}

    def edited(self, edits: Mapping[str, str]) -> RewardFile:
        """Returns this file with its new text from `edits`. Raises KeyError if that is absent."""
        return RewardFile(self.file.with_text(edits[self.file.path]))

    def with_component(self, component: str, weight: float, function: str) -> dict[str, str]:
        """Returns an edit, `{path: new text}`, that adds a component which rates single attempts.

        `function` is its source. Returns {} if the component exists, or the file has no `WEIGHTS`.
        """
        if self.file.function(component) is not None or component in self.weights:
            return {}
        file = self.file.with_entry(WEIGHTS, component, repr(weight))
        if file == self.file:
            return {}
        if self.table is not None:
            first = self._line_of(self.table)
            file = file.with_entry(self.table, component, component)
            file = file.with_block(first, function.strip("\n") + "\n\n\n")
        else:
            file = _wrapped(file, component, function)
        return {file.path: file.text}

    def _line_of(self, table: str) -> int:
        """Returns the line of the table: functions that it names must stand above it."""
        for node in self.file.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(t, ast.Name) and t.id == table for t in targets):
                return node.lineno
        return len(self.file.text.splitlines()) + 1


def reward_rule(
    name: str, *, repairs: bool = False
) -> Callable[[Callable[[Case, RewardFile], Diagnosis | None]], Rule]:
    """Returns a decorator that makes a `Rule` of a function that suggests edits of the reward file.

    The rule suggests nothing if no file has both `reward` and `WEIGHTS` (component to weight).
    """

    def rule_of(diagnose: Callable[[Case, RewardFile], Diagnosis | None]) -> Rule:
        def with_file(case: Case) -> Diagnosis | None:
            files = case.python("reward")
            fitting = (f for f in files if f.function("reward") and f.dict_node(WEIGHTS))
            file = next(fitting, None)
            return None if file is None else diagnose(case, RewardFile(file))

        return rule(name, "reward", repairs=repairs)(with_file)

    return rule_of


def _wrapped(file: PythonFile, component: str, function: str) -> PythonFile:
    """Adds a component by a new `reward` that calls the present one, for files without a table."""
    before = f"_reward_without_{component}"
    wrapper = (
        f"def reward(rollout):\n"
        f'    return {{**{before}(rollout), "{component}": {component}(rollout)}}\n'
    )
    return file.with_end(function).with_end(f"{before} = reward").with_end(wrapper)
