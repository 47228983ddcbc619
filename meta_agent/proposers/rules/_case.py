"""What a rule may read: the evidence, the harness sources as text, and the evaluator's limits.

Metrics are found by name, whichever layer or diagnostic of the harness holds them. Sources are
grouped by factor as `harness.toml` says. Nothing here depends on a particular suite.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from meta_agent.core.errors import ConfigError
from meta_agent.core.evidence import Evidence
from meta_agent.core.harness import HarnessContract, parse_contract
from meta_agent.core.harness.recipe import with_preset
from meta_agent.core.proposals import Situation
from meta_agent.core.protocols import Factor, HarnessTree, Rollout
from meta_agent.proposers.rules._source import Constant, PythonFile
from meta_agent.readers.evidence.reference import Reference, reference_of


@dataclass(frozen=True)
class Case:
    """All that a rule may read about one harness version: evidence, files, and the run's limits."""

    evidence: Evidence
    tree: HarnessTree
    situation: Situation = field(default_factory=Situation)

    @cached_property
    def contract(self) -> HarnessContract:
        return parse_contract(self.tree)

    # --- the evidence ---------------------------------------------------------------------------

    @cached_property
    def _metrics(self) -> dict[str, float]:
        return self.evidence.metrics()

    def find(self, *names: str) -> tuple[str, float] | None:
        """Returns name and value of the first of the metrics `names` that was measured, or None.

        A name may be a metric's full name or its last part, after a dot.
        """
        for name in names:
            if name in self._metrics:
                return name, self._metrics[name]
            endings = sorted(full for full in self._metrics if full.endswith("." + name))
            if endings:
                return endings[0], self._metrics[endings[0]]
        return None

    def value(self, *names: str, default: float = 0.0) -> float:
        """Returns the value of the first of the metrics `names` that was measured, or `default`."""
        metric = self.find(*names)
        return default if metric is None else metric[1]

    def lines(self, *names: str) -> tuple[str, ...]:
        """Returns a text for each metric in `names`: its value, or that it was not measured."""
        metrics = ((name, self.find(name)) for name in names)
        return tuple(
            f"{metric[0]} is {metric[1]:.3g}" if metric else f"{name} was not measured"
            for name, metric in metrics
        )

    @cached_property
    def reference(self) -> Reference:
        """Returns the metric ranges of a fault-free harness of the domain; empty if unmeasured."""
        return reference_of(self.evidence.domain, trained=self.trained)

    @property
    def trained(self) -> bool:
        """Returns True if the metrics come from a policy trained with the version."""
        return self.evidence.trained

    @property
    def failing(self) -> float:
        """Returns the share of attempts without clean success, or 0 if nothing was measured."""
        return 1 - self.value("clean_success", default=1.0)

    @property
    def dead(self) -> float:
        """Returns the share of rollout groups whose rewards are equal, so they give no gradient."""
        return self.value("signal.train.dead_group_ratio.last", "signal.dead_group_ratio")

    @property
    def flagged(self) -> float:
        """Returns the larger share: flagged (cheating) attempts, or training attempts that leak."""
        return max(self.value("behaviour.flagged"), self.value("signal.train_leak_use"))

    @cached_property
    def attempts(self) -> Sequence[Rollout]:
        """Returns the version's attempts; () for policy `nano`, which writes letters, not words."""
        return () if self.situation.weights == "nano" else self.situation.attempts()

    def over(self, *names: str) -> float:
        """Returns the largest excess of the metrics over a fault-free harness's range, or 0."""
        metrics = [metric for name in names if (metric := self.find(name))]
        return max((self.reference.above(*metric) for metric in metrics), default=0.0)

    def short(self, name: str, default: float) -> float:
        """Returns how far a metric is below its range in `reference` (or `default`), else 0."""
        metric = self.find(name)
        return 0.0 if metric is None else self.reference.below(*metric, default)

    def under(self, prefix: str) -> dict[str, float]:
        """Returns the metrics whose names begin with `prefix`, keyed by what follows the prefix."""
        return {
            name[len(prefix) :]: value
            for name, value in sorted(self._metrics.items())
            if name.startswith(prefix)
        }

    # --- the sources ----------------------------------------------------------------------------

    def texts(self, factor: Factor) -> Iterator[tuple[str, str]]:
        for path in self.contract.files_of(factor, self.tree):
            yield path, self.tree.files[path].decode("utf-8", "replace")

    def python(self, factor: Factor) -> list[PythonFile]:
        return [PythonFile(p, text) for p, text in self.texts(factor) if p.endswith(".py")]

    def file(self, path: str) -> PythonFile:
        return PythonFile(path, self.tree.files[path].decode("utf-8", "replace"))

    def defining(self, factor: Factor, function: str) -> PythonFile | None:
        """Returns the file of a factor (such as the scaffold) that defines a function, or None."""
        return next((f for f in self.python(factor) if f.function(function) is not None), None)

    def constant(
        self, factor: Factor, pattern: str, kind: type | tuple[type, ...]
    ) -> Constant | None:
        """Returns the first module-level constant in a factor's Python files that fits, or None.

        Its name has to match the regular expression `pattern`, and its value the type `kind`.
        """
        for file in self.python(factor):
            for constant in file.constants():
                if re.fullmatch(pattern, constant.name) and _fits(constant.value, kind):
                    return constant
        return None

    def set_constant(self, constant: Constant, value: Any) -> dict[str, str]:
        """Returns an edit, `{path: new text}`, that gives a constant another value."""
        return {constant.path: self.file(constant.path).with_constant(constant.name, value).text}

    # --- the recipe -----------------------------------------------------------------------------

    @cached_property
    def _recipe(self) -> tuple[str, Any] | None:
        for path, text in self.texts("recipe"):
            if path.endswith(".toml"):
                try:
                    return path, tomlkit.parse(text)
                except TOMLKitError:
                    return None
        return None

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Returns the recipe file's settings, those of its preset included; {} if unreadable."""
        try:
            return with_preset(self._recipe[1].unwrap()) if self._recipe else {}
        except ConfigError:
            return {}

    def number(self, key: str) -> float | None:
        """Returns the training recipe's setting `key` if it is a number, else None."""
        value = self.recipe.get(key)
        return None if value is None or not _fits(value, (int, float)) else float(value)

    def set_recipe(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Returns an edit, `{path: new text}`, that sets recipe keys; {} if no recipe is there."""
        if self._recipe is None:
            return {}
        path = self._recipe[0]
        document = tomlkit.parse(self.tree.files[path].decode("utf-8"))
        document.update(values)
        return {path: tomlkit.dumps(document)}


def _fits(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Returns True if a value has a type. True and False are no numbers."""
    return kind is bool if isinstance(value, bool) else isinstance(value, kind)
