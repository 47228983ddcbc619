"""The figures of conditions: what runs came to on the vault, together and against each other.

An attempt that machines lost has no outcome. It is in no share, it is counted, and beside each
figure stand the bounds: what it would be had all such attempts gone one way, or the other. A run
that lost more than a lab lets pass is *void*: no figure is made of it (`report` names it).

Figures are taken on the tasks that have an outcome in every run behind them. Where losses leave
fewer than two of those, each run's own share stands for it, and intervals are over runs alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Final

from meta_agent.core.gate.numbers.results import improvement, interval
from meta_agent.core.lab.measured import LOST_SHARE
from meta_agent.core.protocols import JSON
from meta_agent.studies.search_facts import total

Cells = tuple[int | None, ...]
"""By vault task, in their order: 1 where solved cleanly, None where machines lost the attempt."""
_DIGIT: Final[Mapping[int | None, str]] = {0: "0", 1: "1", None: "?"}


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one finished run of a comparison, with its attempts on the vault tasks."""

    arm: str
    seed: int
    workspace: str
    clean: Cells
    success: float
    """Share of tasks solved, flagged or not, of those that have an outcome."""
    policy_steps: int
    spent: int
    """Every attempt but those at vault tasks."""
    trained_on: int
    """Of `spent`, the attempts that training made."""
    standing: str
    """What the run handed over: a `proven` or `unproven` version, or the `start`."""
    proven_after: int | None
    """Attempts that the run had made at its first proof; None without a proof."""
    tokens: int
    usd: float | None
    verdicts: Mapping[str, int]
    promoted: tuple[str, ...]
    invalid: Mapping[str, tuple[str, ...]]
    """By promoted candidate that breaks validity: codes of the vetoes against it."""
    final_findings: tuple[str, ...]
    """Codes of the vetoes against the final version's attempts on the vault."""
    wall_sec: float
    search: Mapping[str, JSON] = field(default_factory=dict)
    """What the search did with its ideas (`search_facts`)."""

    @property
    def clean_success(self) -> float:
        """Returns the share of tasks solved cleanly, of those with an outcome; 0.0 without any."""
        outcomes = _with_outcome(self.clean)
        return fmean(outcomes) if outcomes else 0.0

    @property
    def lost(self) -> int:
        """Returns the number of attempts on the vault tasks that machines lost."""
        return self.clean.count(None)

    @property
    def bounds(self) -> tuple[float, float]:
        """Returns clean success if all lost attempts count as failed, and if all count as clean."""
        return fmean(_filled(self.clean, 0)), fmean(_filled(self.clean, 1))

    @property
    def void(self) -> bool:
        """Returns True if machines lost all attempts, or over 5 % of them and more than one."""
        tasks = len(self.clean)
        return self.lost > max(1, LOST_SHARE * tasks) or self.lost == tasks

    def to_json(self) -> dict[str, JSON]:
        """Returns the result as JSON. `clean` is a string of digits, `?` for each lost attempt."""
        return {
            **asdict(self),
            "clean": "".join(_DIGIT[cell] for cell in self.clean),
            "clean_success": self.clean_success,
            "clean_bounds": list(self.bounds),
            "lost": self.lost,
        }


def summary(results: Sequence[Result], others: Mapping[str, Sequence[Result]]) -> JSON:
    """Returns a condition's figures and its differences from `others`; {"runs": 0} without runs."""
    if not results:
        return {"runs": 0}
    scores = _table([result.clean for result in results])
    against = {name: _versus(results, theirs) for name, theirs in others.items()}
    return {
        "runs": len(results),
        "mean": interval(scores, "mean").to_json(),
        "iqm": interval(scores, "iqm").to_json(),
        "lost": sum(result.lost for result in results),
        "planned": sum(len(result.clean) for result in results),
        "bounds": [fmean(result.bounds[end] for result in results) for end in (0, 1)],
        "success": fmean(result.success for result in results),
        "spent": fmean(result.spent for result in results),
        "trained_on": fmean(result.trained_on for result in results),
        "proven": sum(result.standing == "proven" for result in results),
        "tokens": sum(result.tokens for result in results),
        "usd": _total([result.usd for result in results]),
        "promotions": sum(len(result.promoted) for result in results),
        "invalid_promotions": sum(len(result.invalid) for result in results),
        "invalid_finals": sum(bool(result.final_findings) for result in results),
        "wall_sec": round(sum(result.wall_sec for result in results), 1),
        "search": total([result.search for result in results if result.search]),
        "versus": {name: versus for name, versus in against.items() if versus},
    }


def _versus(results: Sequence[Result], other: Sequence[Result]) -> JSON:
    """Returns how two conditions differ, over the seeds that both have finished; None if none."""
    theirs = {run.seed: run for run in other}
    pairs = [(run, theirs[run.seed]) for run in results if run.seed in theirs]
    pairs = [(x, y) for x, y in pairs if _with_outcome(_gaps(x.clean, y.clean))]
    if not pairs:
        return None
    gaps = [_gaps(x.clean, y.clean) for x, y in pairs]
    ours, others = (
        _table([side.clean for side in sides], gaps) for sides in zip(*pairs, strict=True)
    )
    return {
        "seeds": [run.seed for run, _ in pairs],
        "difference": interval(_table(gaps), "mean").to_json(),
        "lost_pairs": sum(gap.count(None) for gap in gaps),
        "bounds": [fmean(_gap_at(x, y, end) for x, y in pairs) for end in (0, 1)],
        "improvement": improvement(ours, others).to_json(),
        "better_seeds": sum(sum(_with_outcome(gap)) > 0 for gap in gaps),
    }


def _gaps(ours: Cells, theirs: Cells) -> Cells:
    both = zip(ours, theirs, strict=True)
    return tuple(None if a is None or b is None else a - b for a, b in both)


def _gap_at(ours: Result, theirs: Result, end: int) -> float:
    """Returns the difference if each lost attempt counts against `ours` (`end` 0) or for it (1)."""
    return fmean(_filled(ours.clean, end)) - fmean(_filled(theirs.clean, 1 - end))


def _table(rows: Sequence[Cells], by: Sequence[Cells] | None = None) -> list[list[float]]:
    """Returns the rows, cut to the tasks that have an outcome in all rows (or in all of `by`).

    With fewer than two such tasks, each row is its mean over its own known tasks.
    """
    columns = list(zip(*(by or rows), strict=True))
    whole = [at for at, column in enumerate(columns) if None not in column]
    if len(whole) < 2:
        return [[fmean(_with_outcome(row))] for row in rows]
    return [[float(row[at] or 0) for at in whole] for row in rows]


def _with_outcome(cells: Sequence[int | None]) -> list[int]:
    return [cell for cell in cells if cell is not None]


def _filled(cells: Cells, value: int) -> list[int]:
    return [value if cell is None else cell for cell in cells]


def _total(amounts: Sequence[float | None]) -> float | None:
    priced = [amount for amount in amounts if amount is not None]
    return sum(priced) if len(priced) == len(amounts) else None
