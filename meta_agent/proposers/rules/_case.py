"""What a rule may look at: the evidence, the harness sources as text, and the evaluator's limits.

Promises: metrics are found by name wherever a layer or a harness's own diagnostic keeps them;
sources are grouped by factor as `harness.toml` says. Nothing here knows a particular suite.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import tomlkit
from tomlkit.exceptions import TOMLKitError

from meta_agent.core.harness import HarnessContract, parse_contract
from meta_agent.core.proposals import Situation
from meta_agent.core.protocols import Factor, HarnessTree
from meta_agent.proposers.rules._source import Constant, PythonFile
from meta_agent.readers.evidence.reference import Reference, reference_of


class EvidenceView(Protocol):
    """The part of `meta_agent.core.evidence.Evidence` that rules read."""

    def metric(self, name: str) -> float | None: ...

    def metrics(self) -> dict[str, float]: ...


@dataclass(frozen=True)
class Case:
    """One version under diagnosis."""

    evidence: EvidenceView
    tree: HarnessTree
    situation: Situation = field(default_factory=Situation)

    @cached_property
    def contract(self) -> HarnessContract:
        return parse_contract(self.tree)

    @cached_property
    def _metrics(self) -> dict[str, float]:
        return self.evidence.metrics()

    def find(self, *names: str) -> tuple[str, float] | None:
        """The first of these metrics that was measured: by full name, else by its last part."""
        for name in names:
            if name in self._metrics:
                return name, self._metrics[name]
            tail = "." + name
            ending = sorted(full for full in self._metrics if full.endswith(tail))
            if ending:
                return ending[0], self._metrics[ending[0]]
        return None

    def value(self, *names: str, default: float = 0.0) -> float:
        """The value of the first of these metrics that was measured."""
        found = self.find(*names)
        return default if found is None else found[1]

    @cached_property
    def reference(self) -> Reference:
        """What a clean harness of this suite shows; empty where none was measured."""
        found = self.evidence
        return reference_of(
            getattr(found, "domain", ""), trained=bool(getattr(found, "trained", False))
        )

    def over(self, *names: str) -> float:
        """By how much the largest of these exceeds what a clean harness shows."""
        known = [found for name in names if (found := self.find(name))]
        return max((self.reference.above(*one) for one in known), default=0.0)

    def short(self, name: str, default: float) -> float:
        """By how much a metric falls short of a clean harness, or of the default without one."""
        found = self.find(name)
        return 0.0 if found is None else self.reference.below(*found, default)

    def change(self, name: str) -> float | None:
        """How a metric moved against the baseline; None where there is nothing to compare."""
        return self.evidence.metric(f"version.change.{name}")

    def under(self, prefix: str) -> dict[str, float]:
        """All metrics below a prefix, by the rest of their names."""
        return {
            name[len(prefix) :]: value
            for name, value in sorted(self._metrics.items())
            if name.startswith(prefix)
        }

    def texts(self, factor: Factor) -> Iterator[tuple[str, str]]:
        for path in self.contract.files_of(factor, self.tree):
            yield path, self.tree.files[path].decode("utf-8", "replace")

    def python(self, factor: Factor) -> list[PythonFile]:
        return [PythonFile(p, text) for p, text in self.texts(factor) if p.endswith(".py")]

    def file(self, path: str) -> PythonFile:
        return PythonFile(path, self.tree.files[path].decode("utf-8", "replace"))

    def constant(
        self, factor: Factor, pattern: str, kind: type | tuple[type, ...]
    ) -> Constant | None:
        """The first constant whose name matches the pattern and whose value has the type."""
        for file in self.python(factor):
            for found in file.constants():
                if re.fullmatch(pattern, found.name) and _is(found.value, kind):
                    return found
        return None

    def set_constant(self, constant: Constant, value: Any) -> Mapping[str, str]:
        """The edit that gives a constant another value."""
        text = self.file(constant.path).with_constant(constant.name, value)
        return {} if text is None else {constant.path: text}

    def recipe(self) -> tuple[str, Mapping[str, Any]] | None:
        for path, text in self.texts("recipe"):
            if path.endswith(".toml"):
                try:
                    return path, tomlkit.parse(text).unwrap()
                except TOMLKitError:
                    return None
        return None

    def set_recipe(self, values: Mapping[str, Any]) -> Mapping[str, str]:
        """The edit that sets keys of the recipe; its comments and order stay."""
        found = self.recipe()
        if found is None:
            return {}
        document = tomlkit.parse(self.tree.files[found[0]].decode("utf-8"))
        for key, value in values.items():
            document[key] = value
        return {found[0]: tomlkit.dumps(document)}


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind)
