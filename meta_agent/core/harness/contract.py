"""The harness contract: what `harness.toml` says, and which paths a change may touch.

A harness is any directory with a `harness.toml`. This file parses that text once, into a
`HarnessContract`; no other code reads it. There are two error types for two people: `ConfigError`
for the owner who wrote the file, `CandidateError` for a change that breaks the contract.
Does not cover: what the harness code does (`guest.py`, in the sandbox) or what the recipe says
(`recipe.py`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, cast

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.harness._paths import (
    check_pattern,
    collisions,
    matches,
    matches_any,
    safe_path,
)
from meta_agent.core.protocols import FACTORS, Factor, HarnessTree
from meta_agent.core.task_splits import Limits

CONTRACT_FILE = "harness.toml"
TRAINING_FOLDER = "meta-agent-training"
"""The folder of ours beside a brought agent: how its policy is trained. The agent never sees it."""
_HARNESS_KEYS = {"name", "entry", "command", "image", "editable", "protected", "check", "env"}


class Entry(NamedTuple):
    """Where a Python agent starts: a file of the harness and a coroutine function in it."""

    path: str
    function: str


@dataclass(frozen=True, slots=True)
class HarnessContract:
    """A parsed `harness.toml`: how the agent starts, and which files a change may touch.

    Either `entry` or `command` is set. `factors` are the path patterns of each kind of change.
    `env` are environment variables of the command, and `needs` the least limits of an attempt.
    """

    name: str
    entry: Entry | None
    command: tuple[str, ...]
    image: str
    editable: tuple[str, ...]
    protected: tuple[str, ...]
    check: tuple[str, ...]
    factors: Mapping[Factor, tuple[str, ...]]
    env: Mapping[str, str] = field(default_factory=dict)  # variables of a command
    needs: Mapping[str, float] = field(default_factory=dict)
    """The least limits of an attempt under which the agent can work, by their names in `Limits`."""

    def check_paths(self, paths: Iterable[str]) -> None:
        """Raises `CandidateError` unless every path is well formed and harness.toml allows it."""
        for path in paths:
            safe_path(path)
            if matches_any(self.protected, path):
                raise CandidateError(
                    f"{path} is protected by harness.toml; leave it as it is",
                    reason="protected_path",
                )
            if not matches_any(self.editable, path):
                allowed = ", ".join(self.editable)
                raise CandidateError(
                    f"{path} may not be edited by this change; only these paths may: {allowed}",
                    reason="path_outside_allowlist",
                )

    def factor_of(self, paths: Iterable[str]) -> Factor:
        """Returns the one factor (group of files that change together) that a change touches.

        Raises `CandidateError`, naming the paths, if the change touches several factors or none.
        """
        touched = self._touched(paths)
        if len(touched) > 1:
            raise CandidateError(
                "the change edits files of several factors; keep to those of one: "
                + _paths_and_factors(touched),
                reason="several_factors",
            )
        return next(iter(touched))

    def require_factors(self, paths: Iterable[str], factors: Iterable[Factor]) -> None:
        """Raises `CandidateError` unless the changed `paths` belong to exactly these factors.

        A factor is a group of files. Diagnostics (metrics) never change with another factor.
        """
        touched, labels = self._touched(paths), tuple(factors)
        if "diagnostics" in touched and len(touched) > 1:
            # What is measured stays as it is while behaviour is compared.
            raise CandidateError(
                "edit diagnostics in a change of their own; this change also edits others: "
                + _paths_and_factors(touched),
                reason="several_factors",
            )
        if set(touched) != set(labels):
            raise CandidateError(
                f"the change is labelled {'+'.join(labels)}; label it after all that it edits: "
                + _paths_and_factors(touched),
                reason="factor_mismatch",
            )

    def _touched(self, paths: Iterable[str]) -> dict[Factor, str]:
        """Returns the factors that a change touches, each with the first of its paths."""
        touched: dict[Factor, str] = {}
        for path in paths:
            touched.setdefault(self._factor_of_path(path), path)
        if not touched:
            raise CandidateError(
                "the change edits no file; edit at least one", reason="empty_change"
            )
        return touched

    def _factor_of_path(self, path: str) -> Factor:
        self.check_paths([path])
        factors = self.factors_matching(path)
        if not factors:
            raise CandidateError(
                f"{path} matches no pattern under [factors] of harness.toml; change another file",
                reason="no_factor",
            )
        if len(factors) > 1:
            raise CandidateError(
                f"harness.toml lists {path} under {' and '.join(factors)}; list it under one",
                reason="several_factors",
            )
        return factors[0]

    def factors_matching(self, path: str) -> list[Factor]:
        """Returns all factors (groups of files) whose patterns cover `path`, in a fixed order.

        For a path in `meta-agent-training/` only patterns that begin with this folder count.
        """
        home = f"{TRAINING_FOLDER}/"
        ours = path.startswith(home)
        return [
            name
            for name in FACTORS
            if any(
                matches(pattern, path)
                for pattern in self.factors.get(name, ())
                if not ours or pattern.startswith(home)
            )
        ]

    def files_of(self, factor: Factor, tree: HarnessTree) -> list[str]:
        """Returns the paths of the tree's files that belong to a factor, sorted."""
        return sorted(path for path in tree.files if factor in self.factors_matching(path))


def _paths_and_factors(touched: Mapping[Factor, str]) -> str:
    return ", ".join(f"{path} ({factor})" for factor, path in sorted(touched.items()))


def parse_contract(tree: HarnessTree) -> HarnessContract:
    """Parses the `harness.toml` of a harness. Raises `ConfigError` if it is missing or wrong."""
    return _parsed(tree.files.get(CONTRACT_FILE), tuple(tree.files))


@lru_cache(maxsize=64)
def _parsed(raw: bytes | None, paths: tuple[str, ...]) -> HarnessContract:
    """Cached, because every name of a step of a run needs it: a parse takes 4 ms."""
    contract = _build(_load(raw, paths))
    _check_tree(contract, paths)
    return contract


def _load(raw: bytes | None, paths: tuple[str, ...]) -> dict[str, Any]:
    if raw is None:
        raise ConfigError(
            f"there is no {CONTRACT_FILE} among the {len(paths)} files of the harness",
            hint="`meta-agent init` writes a harness to start from",
        )
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{CONTRACT_FILE} is not valid TOML, correct it: {error}") from error


def _build(data: dict[str, Any]) -> HarnessContract:
    _only(data, {"harness", "factors", "needs"}, "")
    table = _table(data, "harness")
    _only(table, _HARNESS_KEYS, "[harness] ")
    entry, command = _start(table)
    return HarnessContract(
        name=_text(table, "name"),
        entry=entry,
        command=command,
        image=_text(table, "image", "base"),
        editable=_patterns(table, "editable"),
        protected=(*_patterns(table, "protected", ()), CONTRACT_FILE),
        check=_strings(table, "check", ()),
        factors=_factors(_table(data, "factors")),
        env=_variables(table),
        needs=_needs(data.get("needs", {})),
    )


def _start(table: dict[str, Any]) -> tuple[Entry | None, tuple[str, ...]]:
    if ("entry" in table) == ("command" in table):
        raise ConfigError(f"{CONTRACT_FILE}: set exactly one of entry and command in [harness]")
    if "command" in table:
        return None, _strings(table, "command")
    path, colon, function = _text(table, "entry").partition(":")
    if not colon or not path.endswith(".py") or not function.isidentifier():
        raise ConfigError(
            f"{CONTRACT_FILE}: entry is {table['entry']!r}; write it as FILE.py:FUNCTION"
        )
    return Entry(path, function), ()


def _variables(table: dict[str, Any]) -> dict[str, str]:
    value = table.get("env", {})
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ConfigError(f"{CONTRACT_FILE}: env must be a table of strings, not {value!r}")
    if value and "command" not in table:
        raise ConfigError(f"{CONTRACT_FILE}: remove env; it works with command, not with entry")
    return value


def _needs(table: Any) -> dict[str, float]:
    if not isinstance(table, dict):
        raise ConfigError(f"{CONTRACT_FILE}: needs is {table!r}; write it as a table [needs]")
    _only(table, set(Limits.model_fields) - {"reasoning"}, "[needs] ")
    for name, least in table.items():
        if type(least) not in (int, float) or not least > 0:
            raise ConfigError(f"{CONTRACT_FILE}: {name} must be a number above 0, not {least!r}")
    return table


def _factors(table: dict[str, Any]) -> dict[Factor, tuple[str, ...]]:
    _only(table, set(FACTORS), "[factors] ")
    return {cast("Factor", name): _patterns(table, name) for name in table}


def _check_tree(contract: HarnessContract, paths: tuple[str, ...]) -> None:
    try:
        for path in paths:
            safe_path(path)
    except CandidateError as error:
        raise ConfigError(
            f"{CONTRACT_FILE}: a file has a bad name, so rename or remove it: {error}"
        ) from error
    for first, second in collisions(paths):
        raise ConfigError(f"{first} and {second} differ only in case; rename one of them")
    if contract.entry and contract.entry.path not in paths:
        raise ConfigError(
            f"{CONTRACT_FILE}: entry {contract.entry.path} is not a file of the harness; correct it"
        )
    for path in paths:
        factors = contract.factors_matching(path)
        if len(factors) > 1:
            raise ConfigError(
                f"{CONTRACT_FILE}: {path} is in the factors {' and '.join(factors)}; list it in one"
            )


def _only(table: Mapping[str, Any], allowed_keys: set[str], where: str) -> None:
    for key in table:
        if key not in allowed_keys:
            names = ", ".join(sorted(allowed_keys))
            raise ConfigError(f"{CONTRACT_FILE}: {where}unknown key {key!r}; known: {names}")


def _table(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    if not isinstance(value, dict):
        raise ConfigError(f"{CONTRACT_FILE}: add the missing table [{key}]")
    return value


def _text(table: dict[str, Any], key: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{CONTRACT_FILE}: {key} must be a non-empty string, not {value!r}")
    return value


def _strings(
    table: dict[str, Any], key: str, default: Sequence[str] | None = None
) -> tuple[str, ...]:
    value = table.get(key, default)
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) and v for v in value):
        raise ConfigError(f"{CONTRACT_FILE}: {key} must be a list of strings, not {value!r}")
    if not value and default is None:
        raise ConfigError(f"{CONTRACT_FILE}: {key} is an empty list; add an entry")
    return tuple(value)


def _patterns(
    table: dict[str, Any], key: str, default: Sequence[str] | None = None
) -> tuple[str, ...]:
    return tuple(check_pattern(pattern) for pattern in _strings(table, key, default))
