"""`read_rollouts`: files of any known format as a stream of records, with a count of everything.

Promises: memory is bounded by the largest row, one small integer per group and a hash per patch and
per attempt that has an identity. An attempt that two files hold is one rollout. A row that is not
what its format says is skipped, counted by reason and named by place. Values that no record has
room for are counted by field. A file of which nothing could be read raises a `ConfigError`.
A lost attempt whose row does not name its policy or domain gets those of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.domains.formats.files import BadLine, Placed, PointerError
from meta_agent.readers.formats._draft import AttemptDraft, Numbering, digest, to_rollout
from meta_agent.readers.formats._format import CERTAIN, Format
from meta_agent.readers.formats._join import in_order, is_report, verdicts_for, without_repeats
from meta_agent.readers.formats._registry import (
    FORMATS,
    HOW_TO_READ,
    UnknownFormatError,
    format_named,
    sniff,
)
from meta_agent.readers.formats._row import RowError, SourceRow
from meta_agent.readers.formats._source import Source, parse_map, sources_of, values, with_attached
from meta_agent.readers.formats._tally import Tally

REPEATED: Final = "an attempt that another file holds too"
POINTER: Final = "a Git LFS pointer: its content was not downloaded (git lfs pull)"
UNKNOWN: Final = "a file of no known rollout format"
DAMAGED: Final = "a file that is damaged, or none of its kind"


class _Parsed(NamedTuple):
    """A draft, or a record of our own, with its format and place."""

    draft: AttemptDraft | Rollout
    format_name: str
    place: str


@dataclass(slots=True)
class Import:
    """The rollouts of files, to be iterated over once; then `tally` says what was skipped."""

    paths: Sequence[Path]
    format_: Format | None = None
    run: str = "imported"
    tally: Tally = field(default_factory=Tally)
    over: Callable[[Iterable[Placed]], Iterator[Placed]] = iter
    """Wraps the iteration over the values of each file, such as to show progress."""
    mapping: Mapping[str, str] | None = None
    """From the names of a row's fields to those of a rollout."""
    _numbering: Numbering = field(default_factory=Numbering)
    _file_of: dict[str, Path] = field(default_factory=dict)
    """The file that an attempt was read from, by the attempt's identity."""

    def __iter__(self) -> Iterator[Rollout]:
        files = [source for path in self.paths for source in sources_of(path)]
        pairs = [format_.attached for format_ in FORMATS.values() if format_.attached]
        sources = in_order(with_attached(files, pairs))
        reports = [source for source in sources if is_report(source)] if len(sources) > 1 else []
        others = [source for source in sources if source not in reports]
        if reports and others:
            yield from self._with_verdicts(reports, others)
        else:
            yield from without_repeats(self._files(sources), self.tally)
        if not self.tally.rollouts:
            raise ConfigError(
                "no rollout could be read: " + "; ".join(self.tally.lines()), hint=HOW_TO_READ
            )

    def _with_verdicts(self, reports: list[Source], others: list[Source]) -> Iterator[Rollout]:
        """Yields attempts with the outcomes that reports give them.

        It reads the files twice: first to find the tasks with a single attempt."""
        first = Import((), self.format_, over=self.over, mapping=self.mapping)
        verdicts_read = Import(())
        attempts = without_repeats(first._files(others), first.tally)
        verdicts = verdicts_for(attempts, verdicts_read._files(reports), self.tally)
        self.tally.files += len(reports)
        self.tally.add_skipped(verdicts_read.tally)
        for rollout in without_repeats(self._files(others), self.tally):
            yield verdicts.applied_to(rollout)

    def _files(self, sources: Sequence[Source]) -> Iterator[Rollout]:
        for source in sources:
            self.tally.files += 1
            for draft, format_name, place in _filled(self._file(source)):
                self.tally.rollouts += 1
                if isinstance(draft, AttemptDraft):
                    draft = to_rollout(
                        draft, self._numbering, run=self.run, format_name=format_name, place=place
                    )
                yield draft

    def _file(self, source: Source) -> Iterator[_Parsed]:
        """Yields a file's rows. Raises ConfigError if it cannot be read and the user named it."""
        try:
            yield from self._rows(source)
        except ConfigError as error:
            if not source.in_folder:
                raise
            self.tally.rows += 1
            reasons = {PointerError: POINTER, UnknownFormatError: UNKNOWN}
            self.tally.skip(reasons.get(type(error), DAMAGED), source.name)

    def _rows(self, source: Source) -> Iterator[_Parsed]:
        format_ = self.format_
        for value in self.over(values(source, self.mapping)):
            if isinstance(value.value, BadLine):
                self.tally.rows += 1
                self.tally.skip(value.value.reason, value.place)
                continue
            for placed in self._items(value):
                format_ = self._format_of(placed, format_)
                for row in format_.expand(placed) if format_.expand else (placed,):
                    yield from self._attempt(format_, row, source.path)

    def _items(self, placed: Placed) -> Iterator[Placed]:
        """Yields the items of a list of rows, or the value if a format claims all of it."""
        formats = [self.format_] if self.format_ else list(FORMATS.values())
        value = placed.value
        is_list = isinstance(value, list) and bool(value)
        if not is_list or any(format_.claims(value) for format_ in formats):
            yield placed
            return
        for index, item in enumerate(value):
            yield Placed(f"{placed.place}[{index}]", item)

    def _format_of(self, placed: Placed, before: Format | None) -> Format:
        """Returns the previous value's format, unless this value clearly has another one."""
        format_ = before or sniff(placed.value, placed.place)
        if before and not self.format_ and before.claims(placed.value) < CERTAIN:
            with suppress(ConfigError):
                format_ = sniff(placed.value, placed.place)
        mixed = self.tally.format not in ("", format_.name)
        self.tally.format = "several formats" if mixed else format_.name
        return format_

    def _attempt(self, format_: Format, placed: Placed, path: Path) -> Iterator[_Parsed]:
        """Yields the attempt of a row, unless the row is skipped."""
        self.tally.rows += 1
        left_out: list[str] = []
        try:
            if not isinstance(placed.value, dict):
                raise RowError(f"a row: expected an object, not a {type(placed.value).__name__}")
            row = SourceRow(placed.value)
            draft = format_.read(row, left_out.append)
        except RowError as error:
            self.tally.skip(error.reason, placed.place, error.shown)
            return
        if isinstance(draft, AttemptDraft):
            if format_.named_by_file and draft.task_key is None:
                draft.task_key = _stem(path)
            if draft.caveat:
                self.tally.caveats[draft.caveat] += 1
            self.tally.leave_out({*left_out, *row.unused()})
        if self._is_new(format_, placed, path):
            yield _Parsed(draft, format_.name, placed.place)

    def _is_new(self, format_: Format, placed: Placed, path: Path) -> bool:
        """Returns False for an attempt that another file held, which is counted.

        A run's summary repeats its parts, a log may lie there in two forms, an evaluation copies
        the attempts that it judges.
        """
        identity: JSON = (
            format_.identity(SourceRow(placed.value), path) if format_.identity else None
        )
        if identity is None:
            return True
        first = self._file_of.setdefault(digest([format_.name, identity]), path)
        if first != path:
            self.tally.skip(REPEATED, placed.place)
        return first == path


def read_rollouts(
    *paths: Path,
    format_name: str | None = None,
    run: str = "imported",
    fields: str | None = None,
    over: Callable[[Iterable[Placed]], Iterator[Placed]] = iter,
) -> Import:
    """Returns the rollouts of files or folders, as an iterable that reads them when it is used.

    Each file's format is recognised unless `format_name` names it. `fields` renames fields, as in
    "input=prompt,score=reward". `over` wraps the iteration over a file. Raises `ConfigError` for
    an unknown format or field.
    """
    format_ = format_named(format_name) if format_name else None
    mapping = parse_map(fields) if fields is not None else None
    return Import([Path(path) for path in paths], format_, run, over=over, mapping=mapping)


def _filled(rows: Iterable[_Parsed]) -> Iterator[_Parsed]:
    """Gives lost attempts the policy and domain of their file, if it has one of each.

    Lost attempts at the beginning of a file wait for the first row that names them.
    """
    waiting: list[_Parsed] = []
    policies: set[str] = set()
    domains: set[str] = set()
    waits = True
    for parsed in rows:
        waiting.append(parsed)
        if isinstance(parsed.draft, AttemptDraft) and parsed.draft.error is None:
            policies.update(filter(None, [parsed.draft.policy]))
            domains.update(filter(None, [parsed.draft.domain]))
            waits = False
        elif waits and isinstance(parsed.draft, AttemptDraft):
            continue
        for row in waiting:
            if isinstance(row.draft, AttemptDraft) and row.draft.error is not None:
                row.draft.policy = row.draft.policy or _only(policies)
                row.draft.domain = row.draft.domain or _only(domains) or ""
            yield row
        waiting = []
    yield from waiting


def _only(names: set[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None


def _stem(path: Path) -> str:
    name = PurePath(path).name
    for ending in (".gz", ".zst", ".json", ".jsonl", ".traj"):
        name = name.removesuffix(ending)
    return name
