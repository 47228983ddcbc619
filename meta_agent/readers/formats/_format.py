"""`Format`: how one tool's rows are recognised and read. `Keys`: which fields of a row hold what.

A reader gets one row at a time and returns a `Draft` or raises `RowError`. It never sees the file,
so no format needs more memory than its largest row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from meta_agent.core.protocols import JSON, Rollout, RolloutFailure, StopReason
from meta_agent.domains.formats.files import Placed
from meta_agent.readers.formats._draft import Draft, cost_of
from meta_agent.readers.formats._row import Row, finite, has

CERTAIN: Final = 3
ERROR_CHARS: Final = 2000
Count = Callable[[str], None]


class Attached(NamedTuple):
    """Two files: what `beside` holds is added to each row of `file`, as the row's field `field`."""

    file: str
    beside: str
    field: str


@dataclass(frozen=True, slots=True)
class Format:
    """How one tool writes rollouts to files, and the functions that recognise and read them.

    `marks` lists in words the fields that identify the format. `claims` returns how surely a value
    has it, from 0 to `CERTAIN`. `expand` turns a value of a file into rows. `identity` returns an
    id, so that an attempt in several files is read once, or None.
    """

    name: str
    what: str
    marks: str
    claims: Callable[[JSON], int]
    read: Callable[[Row, Count], Draft | Rollout]
    expand: Callable[[Placed], Iterator[Placed]] | None = None
    identity: Callable[[Row, Path], JSON] | None = None
    attached: Attached | None = None
    layout: Literal["lines", "document", "parquet"] = "lines"


@dataclass(frozen=True, slots=True)
class Keys:
    """The fields of a tool's rows, by meaning. Blanks separate alternatives; `a.b` is nested.

    `rewards` and `weights` are objects of numbers. `error` is text that means a failed machine.
    `tokens` are added up. `inputs` are what the verifier was given. `stops` maps a tool's stop
    reasons to those of a rollout. `skip` lists fields that are ignored.
    """

    task: str = ""
    group: str = ""
    sample: str = ""
    policy: str = ""
    domain: str = ""
    version: str = ""
    reward: str = ""
    rewards: str = ""
    weights: str = ""
    advantage: str = ""
    outcome: str = ""
    error: str = ""
    stop: str = ""
    flags: str = ""
    usd: str = ""
    tokens: str = ""
    inputs: str = ""
    skip: str = ""
    stops: Mapping[str, StopReason] = field(default_factory=dict)

    def draft(self, row: Row, count: Count, *, needs_task: bool = False) -> Draft:
        """Returns a draft of the attempt in a row. Raises `RowError` if a field has the wrong type.

        `count` is called with the name of each value that is left out.
        """
        row.skip(*self.skip.split())
        failure = row.text(*self.error.split())
        rewards = numbers_of(row.object(self.rewards), count) if self.rewards else {}
        single = row.number(*self.reward.split())
        draft = Draft(
            task_key=row.label(*self.task.split()),
            group=row.label(*self.group.split()),
            sample_idx=row.integer(*self.sample.split()),
            policy=row.text(*self.policy.split()) or None,
            domain=row.text(*self.domain.split()) or "",
            version=row.text(*self.version.split()),
            rewards=rewards or (None if single is None else {"reward": single}),
            weights=numbers_of(row.object(self.weights), count) if self.weights else {},
            advantage=row.number(*self.advantage.split()),
            outcome=row.flag(*self.outcome.split()),
            error=RolloutFailure("infra", failure[:ERROR_CHARS]) if failure else None,
            stop_reason=self.stop_of(row, count),
            flags=row.words(self.flags) if self.flags else None,
            verifier_inputs={
                name: value
                for name in self.inputs.split()
                if (value := row.get(name)) not in (None, {}, "")
            },
            # Tools write 0 tokens where they counted none.
            cost=cost_of(
                row.number(*self.usd.split()),
                *(row.number(name) or None for name in self.tokens.split()),
            ),
        )
        if needs_task and not draft.task_key:
            raise row.need(self.task.split()[0], "a name or a number")
        return draft

    def stop_of(self, row: Row, count: Count) -> StopReason | None:
        """Returns a row's stop reason in a rollout's terms, or None; `count` gets unknown ones."""
        words = [word for name in self.stop.split() if (word := row.text(name))]
        for word in words:
            if word in self.stops:
                return self.stops[word]
            if word in get_args(StopReason):
                return word  # type: ignore[return-value]
        if words:
            count(f"stop reason {words[0]}")
        return None


def numbers_of(row: Row, count: Count) -> dict[str, float]:
    """Returns an object's finite numbers by name; `count` gets the names of other values."""
    numbers: dict[str, float] = {}
    for name in row.values:
        value = row.get(name)
        number = finite(value)
        if number is not None:
            numbers[name] = number
        elif value is not None:
            count(f"{row.prefix}{name} (not a number)")
    return numbers


def having(*names: str, claim: int = CERTAIN) -> Callable[[JSON], int]:
    """Returns a function that gives `claim` for an object with all the fields `names`, else 0."""
    return lambda value: claim if has(value, *names) else 0


def rows_under(
    name: str, beside: str = "", field_name: str = ""
) -> Callable[[Placed], Iterator[Placed]]:
    """Returns a function that yields the items of an object's list `name`, each as a row.

    Each row also gets the object's field `beside`, named `field_name`. A value without the list is
    yielded whole.
    """

    def expand(placed: Placed) -> Iterator[Placed]:
        value = placed.value
        rows = value.get(name) if isinstance(value, dict) else None
        if not isinstance(rows, list):
            yield placed
            return
        for index, row in enumerate(rows):
            more = {field_name: value.get(beside)} if beside and isinstance(row, dict) else {}
            yield Placed(f"{placed.place}[{index}]", {**row, **more} if more else row)

    return expand


def identity_by(*names: str) -> Callable[[Row, Path], JSON]:
    """Returns a function that gives a row's values of the fields `names`; None if all are empty."""

    def identity(row: Row, path: Path) -> JSON:
        values = [Row(row.values).get(name) for name in names]
        return values if any(value is not None for value in values) else None

    return identity
