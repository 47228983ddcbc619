"""`read_rollouts`: files of any known format as a stream of records, with a count of everything.

Promises: memory is bounded by the largest row, one small integer per group and one hash per patch;
an attempt that two files speak of is one rollout (`_join.py`); a row that is not what its format
says is skipped, counted by reason and named by place; values that no record has room for are
counted by field; a file of which nothing could be read is a `ConfigError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePath

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import Rollout
from meta_agent.readers.formats import _native
from meta_agent.readers.formats._draft import Numbering, to_rollout
from meta_agent.readers.formats._format import CERTAIN, Format, Placed
from meta_agent.readers.formats._join import in_order, is_report, once, paired, verdicts_for
from meta_agent.readers.formats._registry import (
    FORMATS,
    FORMS,
    UnknownFormatError,
    format_named,
    sniff,
)
from meta_agent.readers.formats._row import Row, RowError
from meta_agent.readers.formats._source import BadLine, Source, sources_of, values
from meta_agent.readers.formats._tally import Tally


@dataclass(slots=True)
class Reading:
    """Iterate once; `tally` is complete when the iteration is."""

    paths: Sequence[Path]
    format_name: str | None = None
    run: str = "imported"
    tally: Tally = field(default_factory=Tally)
    over: Callable[[Iterable[Placed]], Iterator[Placed]] = iter
    """Goes over the values as they are read, to count them."""
    _numbering: Numbering = field(default_factory=Numbering)

    def __iter__(self) -> Iterator[Rollout]:
        found = [source for path in self.paths for source in sources_of(path)]
        sources = in_order(paired(found))
        reports = [one for one in sources if is_report(one)] if len(sources) > 1 else []
        others = [one for one in sources if one not in reports]
        if reports and others:
            yield from self._judged(reports, others)
        else:
            yield from once(self._files(sources), self.tally)
        if not self.tally.rollouts:
            raise ConfigError(
                "no rollout could be read: " + "; ".join(self.tally.lines()),
                hint=FORMS,
            )

    def _judged(self, reports: list[Source], others: list[Source]) -> Iterator[Rollout]:
        """Attempts with the outcomes that reports give them. Reads twice: first who is alone."""
        aside = Reading((), self.format_name, over=self.over), Reading(())
        attempts = once(aside[0]._files(others), aside[0].tally)
        verdicts = verdicts_for(attempts, aside[1]._files(reports), self.tally)
        self.tally.files += len(reports)
        self.tally.add_skipped(aside[1].tally)
        for rollout in once(self._files(others), self.tally):
            yield verdicts.given(rollout)

    def _files(self, sources: Sequence[Source]) -> Iterator[Rollout]:
        for source in sources:
            self.tally.files += 1
            yield from self._file(source)

    def _file(self, source: Source) -> Iterator[Rollout]:
        """A file that was named must be one of rollouts; a folder holds other things."""
        try:
            yield from self._rows(source)
        except UnknownFormatError:
            if not source.in_folder:
                raise
            self.tally.rows += 1
            self.tally.skip("a file of no known rollout format", source.name)
        except ConfigError:
            if not source.in_folder:
                raise
            self.tally.rows += 1
            self.tally.skip("a file that is damaged, or none of its kind", source.name)

    def _rows(self, source: Source) -> Iterator[Rollout]:
        found = format_named(self.format_name) if self.format_name else None
        found_in = self.over(values(source))
        for placed in found_in:
            if isinstance(placed.value, BadLine):
                self.tally.rows += 1
                self.tally.skip(placed.value.reason, placed.place)
                continue
            found = self._format_of(placed, found)
            for one in found.gather(chain([placed], found_in)) if found.gather else (placed,):
                yield from self._value(found, one, source.path)

    def _format_of(self, placed: Placed, before: Format | None) -> Format:
        """As the value before, unless the value bears the marks of another format more clearly."""
        if before is None:
            return self._recognised(placed)
        if self.format_name is None and before.claims(placed.value) < CERTAIN:
            with suppress(ConfigError):
                return self._recognised(placed)
        return before

    def _recognised(self, placed: Placed) -> Format:
        """The format of a value. A list is recognised by its first item too."""
        value = placed.value
        if isinstance(value, list) and value and not _claimed_whole(value):
            value = value[0]
        found = sniff(value, placed.place)
        if self.tally.format not in ("", found.name):
            self.tally.format = "several formats"
        else:
            self.tally.format = found.name
        return found

    def _value(self, found: Format, placed: Placed, path: Path) -> Iterator[Rollout]:
        self.tally.format = self.tally.format or found.name
        for one in _items(found, placed):
            for row in found.expand(one) if found.expand else (one,):
                self.tally.rows += 1
                rollout = self._rollout(found, row, path)
                if rollout is not None:
                    self.tally.rollouts += 1
                    yield rollout

    def _rollout(self, found: Format, placed: Placed, path: Path) -> Rollout | None:
        try:
            if not isinstance(placed.value, dict):
                raise RowError(f"expected an object, not a {type(placed.value).__name__}")
            if found.name == _native.NAME:
                return _native.read_record(placed.value)
            return self._from_draft(found, placed, path)
        except RowError as error:
            self.tally.skip(error.reason, placed.place, error.shown)
            return None

    def _from_draft(self, found: Format, placed: Placed, path: Path) -> Rollout:
        counted: list[str] = []
        row = Row(placed.value)
        draft = found.read(row, counted.append)
        if found.layout == "document" and draft.task_key is None:
            draft.task_key = _stem(path)
        if draft.caveat:
            self.tally.caveats[draft.caveat] += 1
        self.tally.leave_out({*counted, *row.unused()})
        return to_rollout(
            draft, self._numbering, run=self.run, format_name=found.name, place=placed.place
        )


def read_rollouts(
    *paths: Path,
    format_name: str | None = None,
    run: str = "imported",
    over: Callable[[Iterable[Placed]], Iterator[Placed]] = iter,
) -> Reading:
    """Rollouts of files or folders; the format is recognised per file unless it is named."""
    if format_name is not None:
        format_named(format_name)
    return Reading([Path(path) for path in paths], format_name, run, over=over)


def write_rollouts(rollouts: Iterable[Rollout], path: Path, format_name: str) -> int:
    """Writes rollouts in a format; returns how many: those without messages have no dialogue."""
    found = format_named(format_name)
    if found.write is None:
        known = ", ".join(sorted(name for name, one in FORMATS.items() if one.write))
        raise ConfigError(f"{format_name} can be read, not written", hint=f"choose one of: {known}")
    if found.dialogues:
        rollouts = _with_messages(rollouts, format_name)
    with suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
    write: Callable[[Iterable[Rollout], Path], int] = found.write
    return write(rollouts, path)


def _with_messages(rollouts: Iterable[Rollout], format_name: str) -> Iterator[Rollout]:
    given = written = 0
    for rollout in rollouts:
        given += 1
        if rollout.messages:
            written += 1
            yield rollout
    if given and not written:
        raise ConfigError(
            f"none of {given} rollouts has messages, and {format_name} is a format of dialogues",
            hint="choose meta-agent, nemo-gym or swe-bench-predictions",
        )


def _claimed_whole(value: list[object]) -> bool:
    with suppress(ConfigError):
        sniff(value, "")
        return True
    return False


def _items(found: Format, placed: Placed) -> Iterator[Placed]:
    """A list of rows is its items, unless the list itself is the row."""
    value = placed.value
    if isinstance(value, list) and value and not found.claims(value):
        for index, item in enumerate(value):
            yield Placed(f"{placed.place}[{index}]", item)
    else:
        yield placed


def _stem(path: Path) -> str:
    name = PurePath(path).name
    for ending in (".gz", ".zst", ".json", ".jsonl", ".traj"):
        name = name.removesuffix(ending)
    return name
