"""The figures of conditions: what runs came to on the vault, together and against each other.

An attempt that machines lost has no outcome. It is in no share, it is counted, and beside each
figure stand the bounds: what it would be had all such attempts gone one way, or the other. A run
that lost more than a lab lets pass is *void*: no figure is made of it (`report` names it).

Figures are taken on the tasks that have an outcome in every run behind them. Where losses leave
fewer than two of those, each run's own share stands for it, and intervals are over runs alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Final

from meta_agent.core.gate.numbers.results import improvement, interval
from meta_agent.core.lab.measured import LOST_SHARE
from meta_agent.core.protocols import JSON

Cells = tuple[int | None, ...]
"""By vault task, in their order: 1 where solved cleanly, None where machines lost the attempt."""
_DIGIT: Final[Mapping[int | None, str]] = {0: "0", 1: "1", None: "?"}


@dataclass(frozen=True, slots=True)
class Result:
    """One run that came to its end."""

    arm: str
    seed: int
    workspace: str
    clean: Cells
    success: float
    """Solved, flagged or not, of the tasks that have an outcome."""
    policy_steps: int
    spent: int
    """Every attempt but those at vault tasks."""
    trained_on: int
    """Of them those that training made."""
    standing: str
    """What is known of what was handed over: proven, unproven, or the start."""
    proven_after: int | None
    """Attempts that had been made when it was proven; None: it was not."""
    tokens: int
    usd: float | None
    verdicts: Mapping[str, int]
    promoted: tuple[str, ...]
    invalid: Mapping[str, tuple[str, ...]]
    """Promotions that were none, and the findings that say so."""
    final_findings: tuple[str, ...]
    """What speaks against the final version's own vault score."""
    wall_sec: float

    @property
    def clean_success(self) -> float:
        """Of the tasks that have an outcome."""
        known = _known(self.clean)
        return fmean(known) if known else 0.0

    @property
    def lost(self) -> int:
        """Attempts that machines lost."""
        return self.clean.count(None)

    @property
    def bounds(self) -> tuple[float, float]:
        """Clean success had all lost attempts failed, and had all been solved cleanly."""
        return fmean(_filled(self.clean, 0)), fmean(_filled(self.clean, 1))

    @property
    def void(self) -> bool:
        """More is lost than may be (`Lab.require`)."""
        tasks = len(self.clean)
        return self.lost > max(1, LOST_SHARE * tasks) or self.lost == tasks

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON; the tasks as a string of digits, `?` where there is no outcome."""
        return {
            **asdict(self),
            "clean": "".join(_DIGIT[cell] for cell in self.clean),
            "clean_success": self.clean_success,
            "clean_bounds": list(self.bounds),
            "lost": self.lost,
        }


def summary(found: Sequence[Result], others: Mapping[str, Sequence[Result]]) -> JSON:
    """A condition's runs together, and against those of other conditions."""
    if not found:
        return {"runs": 0}
    scores = _table([one.clean for one in found])
    against = {name: _versus(found, theirs) for name, theirs in others.items()}
    return {
        "runs": len(found),
        "mean": interval(scores, "mean").to_json(),
        "iqm": interval(scores, "iqm").to_json(),
        "lost": sum(one.lost for one in found),
        "planned": sum(len(one.clean) for one in found),
        "bounds": [fmean(one.bounds[end] for one in found) for end in (0, 1)],
        "success": fmean(one.success for one in found),
        "spent": fmean(one.spent for one in found),
        "trained_on": fmean(one.trained_on for one in found),
        "proven": sum(one.standing == "proven" for one in found),
        "tokens": sum(one.tokens for one in found),
        "usd": _total([one.usd for one in found]),
        "promotions": sum(len(one.promoted) for one in found),
        "invalid_promotions": sum(len(one.invalid) for one in found),
        "invalid_finals": sum(bool(one.final_findings) for one in found),
        "wall_sec": round(sum(one.wall_sec for one in found), 1),
        "versus": {name: told for name, told in against.items() if told},
    }


def _versus(found: Sequence[Result], other: Sequence[Result]) -> JSON:
    """The difference by seed and task, over seeds that both conditions have finished."""
    theirs = {one.seed: one for one in other}
    pairs = [(one, theirs[one.seed]) for one in found if one.seed in theirs]
    pairs = [(x, y) for x, y in pairs if _known(_gaps(x.clean, y.clean))]
    if not pairs:
        return None
    gaps = [_gaps(x.clean, y.clean) for x, y in pairs]
    ours, others = (
        _table([side.clean for side in sides], gaps) for sides in zip(*pairs, strict=True)
    )
    return {
        "seeds": [one.seed for one, _ in pairs],
        "difference": interval(_table(gaps), "mean").to_json(),
        "lost_pairs": sum(gap.count(None) for gap in gaps),
        "bounds": [fmean(_gap_at(x, y, end) for x, y in pairs) for end in (0, 1)],
        "improvement": improvement(ours, others).to_json(),
        "better_seeds": sum(sum(_known(gap)) > 0 for gap in gaps),
    }


def _gaps(ours: Cells, theirs: Cells) -> Cells:
    both = zip(ours, theirs, strict=True)
    return tuple(None if a is None or b is None else a - b for a, b in both)


def _gap_at(one: Result, other: Result, end: int) -> float:
    """The difference had each lost attempt gone against the first (0), or for it (1)."""
    return fmean(_filled(one.clean, end)) - fmean(_filled(other.clean, 1 - end))


def _table(rows: Sequence[Cells], by: Sequence[Cells] | None = None) -> list[list[float]]:
    """Rows on the tasks that are known in all of them (in all of `by`, where that is given)."""
    columns = list(zip(*(by or rows), strict=True))
    whole = [at for at, column in enumerate(columns) if None not in column]
    if len(whole) < 2:
        return [[fmean(_known(row))] for row in rows]
    return [[float(row[at] or 0) for at in whole] for row in rows]


def _known(cells: Sequence[int | None]) -> list[int]:
    return [cell for cell in cells if cell is not None]


def _filled(cells: Cells, value: int) -> list[int]:
    return [value if cell is None else cell for cell in cells]


def _total(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
