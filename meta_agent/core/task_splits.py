"""Domains as a run uses them: with tasks distributed to the splits anew, or with other limits.

`Halves` is for a small task set and a frozen policy. With few tasks, fixed splits leave too few on
either side, and nothing trains on the train tasks. So the splits train, search and confirm become
two halves by a hash of the task names: one for search, one for confirm. Train tasks always join the
search half, so that what the author set apart stays apart.

`Whole` is for a task set without stated splits and a policy that is not trained. A hash assigned
two fifths of such tasks to training. These are distributed to search, confirm and vault; the others
stay where they are.

`Limited` has the limits of an attempt that the user set (`--limits`).

`WithGenerated` has further training tasks, which the domain's generators made. One training uses
it. Evaluations use the domain without them.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.chat import Effort
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, SPLITS, Domain, Environment, Outcome, Split, Task

SMALL: Final = 100
"""A set with fewer tasks needs no vault. If the policy is frozen, it is used in halves."""
_RENAMES: Final = "THEIRS=OURS pairs, such as question=prompt,answer=gold"
_FORM: Final = "NAME=LIMIT pairs, such as max_turns=100,seconds=600,reasoning=high"
_ALL_USED: Final[tuple[Split, ...]] = ("search", "confirm", "vault")

_SHOWN: Final = 3


def is_shown(task_key: str) -> bool:
    """Returns True if authors of edits may read attempts at a task. Every third is held out.

    On attempts at the others, diagnostics are judged.
    """
    return zlib.crc32(task_key.encode()) % _SHOWN != 0


class Resplit:
    """A domain whose tasks are distributed anew: `tasks` holds those of each split."""

    def __init__(self, domain: Domain, tasks: Mapping[Split, Sequence[Task]]) -> None:
        self._domain = domain
        self._tasks = {split: [replace(t, split=split) for t in of] for split, of in tasks.items()}
        self.name, self.evaluator_hash = domain.name, domain.evaluator_hash
        self.ceilings, self.sampling = domain.ceilings, domain.sampling

    def tasks(self, split: Split) -> Sequence[Task]:
        return list(self._tasks[split])

    def open(self, task: Task) -> Environment:
        return self._domain.open(task)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        return self._domain.regrade(task_key, verifier_inputs)

    @property
    def capabilities(self) -> Capabilities:
        """Returns the optional features of the wrapped domain."""
        return Capabilities.of(self._domain)


class Halves(Resplit):
    """A domain in two halves: one is the confirm split, the other serves as train and search."""

    def __init__(self, domain: Domain) -> None:
        train = list(domain.tasks("train"))
        rest = [*domain.tasks("search"), *domain.tasks("confirm")]
        rest.sort(key=lambda task: (hashlib.sha256(task.key.encode()).digest(), task.key))
        more = max(0, (len(train) + len(rest)) // 2 - len(train))
        searched = [*train, *rest[:more]]
        halves: dict[Split, Sequence[Task]] = {"search": searched, "confirm": rest[more:]}
        super().__init__(domain, {**halves, "train": searched, "vault": domain.tasks("vault")})


class Whole(Resplit):
    """A domain whose train tasks are spread over the other splits, since no policy is trained."""

    def __init__(self, domain: Domain) -> None:
        tasks: dict[Split, list[Task]] = {split: [] for split in SPLITS}
        for split in SPLITS:
            for task in domain.tasks(split):
                tasks[_split_by_hash(task.key) if split == "train" else split].append(task)
        super().__init__(domain, tasks)
        self.evaluator_hash = hashlib.sha256(f"whole {domain.evaluator_hash}".encode()).hexdigest()

    @property
    def capabilities(self) -> Capabilities:
        """Returns the optional features of the domain, with a note on the sizes of the splits."""
        sizes = ", ".join(f"{split} {len(self._tasks[split])}" for split in _ALL_USED)
        note = f"no row states a split and nothing is trained: all tasks are used ({sizes})"
        inner = super().capabilities
        return replace(inner, notes=(*inner.notes, note))


def pairs_of(text: str, form: str = _RENAMES) -> dict[str, str]:
    """Parses `NAME=VALUE,...` into a dict. Raises ValueError, which quotes `form`, if it cannot."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    if not pairs or not all(name.strip() and value.strip() for name, _, value in pairs):
        raise ValueError(f"expected {form}")
    return {name.strip(): value.strip() for name, _, value in pairs}


class Limits(BaseModel):
    """The limits of an attempt that a user sets. For each None, the domain's own limit holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_turns: int | None = Field(default=None, ge=1, le=10_000)
    """Model calls of one attempt."""
    max_tokens_per_turn: int | None = Field(default=None, ge=1, le=1 << 24)
    """Tokens of one reply."""
    max_context_tokens: int | None = Field(default=None, ge=16, le=1 << 24)
    """Tokens of one conversation."""
    seconds: float | None = Field(default=None, gt=0, le=86_400)
    """Time that one attempt may take."""
    reasoning: Effort | None = None
    """How long the policy thinks before it replies, if a model behind a server is asked."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        limits = pairs_of(value, _FORM) if isinstance(value, str) else value
        for name in limits if isinstance(limits, Mapping) else ():
            if name not in cls.model_fields:
                raise ValueError(f"there is no limit {name!r}; use {', '.join(cls.model_fields)}")
        return limits

    @model_serializer
    def to_json(self) -> dict[str, JSON]:
        """Returns the limits that the user set, by name."""
        return {name: value for name, value in self if value is not None}

    @property
    def ceilings(self) -> dict[str, JSON]:
        """Returns the user's limits without `reasoning`, and with `seconds` named `wall_sec`."""
        names = {"seconds": "wall_sec"}
        return {names.get(n, n): v for n, v in self.to_json().items() if n != "reasoning"}


class Limited(Resplit):
    """A domain whose attempts have limits that the user set, in place of the domain's own."""

    def __init__(self, domain: Domain, limits: Limits) -> None:
        super().__init__(domain, {split: domain.tasks(split) for split in SPLITS})
        self.ceilings = replace(domain.ceilings, **limits.ceilings)
        words = f"limits {json.dumps(limits.ceilings, sort_keys=True)} {domain.evaluator_hash}"
        self.evaluator_hash = hashlib.sha256(words.encode()).hexdigest()


class WithGenerated(Resplit):
    """A domain with further training tasks, which its generators make."""

    def __init__(self, domain: Domain, declared: str) -> None:
        """Makes the tasks that a recipe declares. Raises ConfigError if the domain makes none."""
        super().__init__(domain, {split: domain.tasks(split) for split in SPLITS})
        generators = Capabilities.of(domain).generators
        if generators is None:
            raise ConfigError(
                f"generate is {declared!r}, but the domain {domain.name} makes no tasks",
                hint="remove generate from recipe.toml, or use --tasks reasoning-gym:NAME",
            )
        self._source = generators.make(declared)
        self.generated = tuple(self._source.tasks("train"))
        self._tasks["train"].extend(self.generated)
        self._keys = frozenset(task.key for task in self.generated)

    def open(self, task: Task) -> Environment:
        return self._of(task.key).open(task)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        return self._of(task_key).regrade(task_key, verifier_inputs)

    @property
    def capabilities(self) -> Capabilities:
        """Returns the optional features of the domain, with the rows of the generated tasks."""
        inner = super().capabilities
        return replace(inner, rows={**inner.rows, **Capabilities.of(self._source).rows})

    def _of(self, task_key: str) -> Domain:
        return self._source if task_key in self._keys else self._domain


def _split_by_hash(key: str) -> Split:
    return _ALL_USED[int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) % len(_ALL_USED)]


# --- whether a run can be made of it ------------------------------------------------------------


def as_used(domain: Domain, *, trainable: bool) -> Domain:
    """Returns the domain as a run uses it.

    If nothing is trained, train tasks move to the other splits, unless the task file states splits.
    """
    pools_training = not trainable and not Capabilities.of(domain).splits_stated
    return Whole(domain) if pools_training else domain


def sizes(domain: Domain) -> dict[str, int]:
    """Returns the number of tasks of each split."""
    return {split: len(domain.tasks(split)) for split in SPLITS}


def lacking(counts: Mapping[str, int], *, trainable: bool, pooled: bool) -> str:
    """Returns what a task set lacks for a run, to print after "it has", or "" for nothing.

    `counts` are tasks by split. A `trainable` run needs train tasks. A small set that is `pooled`
    needs two tasks outside the vault.
    """
    rest = counts.get("search", 0) + counts.get("confirm", 0)
    if pooled and 0 < rest < SMALL:
        enough = rest + counts.get("train", 0) > 1
        return "" if enough else "one task outside the vault; a run needs two at least"
    optional = {*(() if trainable else ("train",))}
    optional |= {"vault"} if sum(counts.values()) < SMALL else set()
    needed = [split for split in SPLITS if split not in optional]
    empty = [split for split in needed if not counts.get(split)]
    sentence = f"no task in the split {' and '.join(empty)}; a run needs one at least in each of "
    return sentence + ", ".join(needed) if empty else ""
