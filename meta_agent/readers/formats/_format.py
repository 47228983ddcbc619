"""`Format`: how one tool's rows are recognised and read. `Keys`: which fields of a row hold what.

A reader gets one row at a time and returns an `AttemptDraft`, or raises `RowError`. It never sees
the file, so no format needs more memory than its largest row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, get_args

from meta_agent.core.protocols import JSON, Rollout, RolloutFailure, StopReason
from meta_agent.domains.formats.files import Placed
from meta_agent.readers.formats._draft import AttemptDraft, cost_of
from meta_agent.readers.formats._messages import LeaveOut, dialogue, parse_exchange
from meta_agent.readers.formats._row import RowError, SourceRow, finite, has

CERTAIN: Final = 3
ERROR_CHARS: Final = 2000


class AttachedFile(NamedTuple):
    """Two files: what `beside` holds is added to each row of `file`, as the row's field `field`."""

    file: str
    beside: str
    field: str


@dataclass(frozen=True, slots=True)
class Format:
    """How one tool writes rollouts to files, and the functions that recognise and read them.

    `marks` lists in words the fields that identify the format. `claims` returns how surely a value
    has it, from 0 to `CERTAIN`. `read` returns the attempt of a row. `expand` turns a value of a
    file into rows. `identity` returns an id, so that an attempt in several files is read once, or
    None. If `named_by_file`, the file's name stands for a task that the row does not name.
    """

    name: str
    what: str
    marks: str
    claims: Callable[[JSON], int]
    read: Callable[[SourceRow, LeaveOut], AttemptDraft | Rollout]
    expand: Callable[[Placed], Iterator[Placed]] | None = None
    identity: Callable[[SourceRow, Path], JSON] | None = None
    attached: AttachedFile | None = None
    named_by_file: bool = False


@dataclass(frozen=True, slots=True)
class Keys:
    """The fields of a tool's rows, by meaning. Blanks separate alternatives; `a.b` is nested.

    `rewards`, `weights` and `metrics` are objects of numbers; metrics become reward components of
    weight 0. `error` is text that means a failed machine, `unjudged` a failed grader. `tokens` are
    added up. `inputs` are what the verifier was given. `prompt` and `completion` count where there
    are no `messages`. Attempts at one prompt in one `step` form a group. `skip` lists fields that
    are ignored, and `needs` those without which a row is no attempt. `suite` is the domain of all
    rows. A reward of `solved_at` is a solved task. `stops` maps a tool's stop reasons to those of a
    rollout.
    """

    task: str = ""
    group: str = ""
    sample: str = ""
    step: str = ""
    policy: str = ""
    domain: str = ""
    version: str = ""
    messages: str = ""
    prompt: str = ""
    completion: str = ""
    reward: str = ""
    rewards: str = ""
    weights: str = ""
    metrics: str = ""
    advantage: str = ""
    outcome: str = ""
    error: str = ""
    unjudged: str = ""
    stop: str = ""
    flags: str = ""
    usd: str = ""
    tokens: str = ""
    inputs: str = ""
    patch: str = ""
    skip: str = ""
    needs: str = ""
    suite: str = ""
    solved_at: float | None = None
    stops: Mapping[str, StopReason] = field(default_factory=dict)

    def draft(self, row: SourceRow, count: LeaveOut) -> AttemptDraft:
        """Returns a draft of the attempt in a row.

        `count` is called with the name of each value that is left out. Raises `RowError` if a field
        has the wrong type, or one of `needs` is missing.
        """
        row.skip(*self.skip.split())
        for name in self.needs.split():
            if row.get(name) is None:
                raise row.need(name, "a value")
        draft = AttemptDraft(
            task_key=row.label(*self.task.split()),
            group=row.label(*self.group.split()),
            sample_idx=row.integer(*self.sample.split()),
            policy=row.text(*self.policy.split()) or None,
            domain=row.text(*self.domain.split()) or self.suite,
            version=row.text(*self.version.split()),
            advantage=row.number(*self.advantage.split()),
            outcome=row.flag(*self.outcome.split()),
            error=self._error(row),
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
        self._add_rewards(draft, row, count)
        self._add_conversation(draft, row, count)
        if self.patch and row.has(self.patch):  # a patch of null is a blank one
            patch = row.get(self.patch)
            if patch is None or isinstance(patch, str):
                draft.verifier_inputs["patch"] = patch or ""
            elif not isinstance(patch, Mapping):  # of a reviewer's pick it is an object
                raise row.need(self.patch, "a string")
        if self.step:
            draft.of_step(row.integer(self.step))
        return draft

    def _error(self, row: SourceRow) -> RolloutFailure | None:
        machine, grader = row.text(*self.error.split()), row.text(*self.unjudged.split())
        if machine:
            return RolloutFailure("infra", machine[:ERROR_CHARS])
        return RolloutFailure("verifier", grader[:ERROR_CHARS]) if grader else None

    def _add_rewards(self, draft: AttemptDraft, row: SourceRow, count: LeaveOut) -> None:
        rewards = numbers_of(row.object(self.rewards), count) if self.rewards else {}
        single = row.number(*self.reward.split())
        draft.rewards = rewards or (None if single is None else {"reward": single})
        if single is not None and self.solved_at is not None:
            draft.outcome = single >= self.solved_at
        draft.weights = numbers_of(row.object(self.weights), count) if self.weights else {}
        metrics = numbers_of(row.object(self.metrics), count) if self.metrics else {}
        row.skip(*metrics)  # some rows repeat them flat
        draft.add_metrics(metrics)

    def _add_conversation(self, draft: AttemptDraft, row: SourceRow, count: LeaveOut) -> None:
        """Sets the conversation. Raises RowError if the row has none where it should."""
        if self.messages and (row.has(self.messages) or not self.prompt):
            value = row.get(self.messages)
            draft.converse(dialogue([] if value is None else value, self.messages, count))
        elif self.prompt:
            names = self.completion.split()
            name = next((name for name in names if row.has(name)), names[0])
            completion = row.get(name)
            fields = (self.prompt, name)
            draft.converse(*parse_exchange(row.get(self.prompt), completion, count, fields))
            if isinstance(completion, str):
                draft.tool_events = None  # a plain string says nothing about tools
        if self.prompt and draft.messages is None:
            raise RowError("a dialogue: expected at least one message")

    def stop_of(self, row: SourceRow, count: LeaveOut) -> StopReason | None:
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


def numbers_of(row: SourceRow, count: LeaveOut) -> dict[str, float]:
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


def identity_by(*names: str) -> Callable[[SourceRow, Path], JSON]:
    """Returns a function that gives a row's values of the fields `names`; None if all are empty."""

    def identity(row: SourceRow, path: Path) -> JSON:
        values = [SourceRow(row.values).get(name) for name in names]
        return values if any(value is not None for value in values) else None

    return identity
