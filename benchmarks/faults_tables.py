"""Prints what the fault benchmark measured."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from faults_cases import Planted

from meta_agent.core.gate import CHECKS, wilson


class Judged(Protocol):
    """As much of a row as tables read."""

    name: str
    found: dict[str, str]
    unnamed: list[str]
    verdict: str
    without: bool
    raw: bool
    kept: bool
    rewarded: bool
    clean: float

    @property
    def invalid(self) -> bool: ...


ARMS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "full": lambda row: row.verdict == "PROMOTE",
    "no detectors": lambda row: row.without,
    "raw success": lambda row: row.raw,
    "score-only": lambda row: row.kept,
    "own reward": lambda row: row.rewarded,
}


def interval(hits: int, total: int) -> str:
    low, high = wilson(hits, total)
    share = hits / total if total else 0.0
    return f"{hits}/{total} = {share:.1%} [{low:.1%}, {high:.1%}]"


def _counted(rows: Sequence[Any], test: Callable[[Any], bool]) -> str:
    return interval(sum(map(test, rows)), len(rows))


def detection(cases: Sequence[Planted], rows: Sequence[Any]) -> None:
    by_case = {case.name: case for case in cases}
    print("\n1. Detection of planted cases\n")
    print(f"  {'case':<27}{'found':>6}{'INVALID':>9}{'full promotes':>15}{'clean':>7}  codes")
    for case in cases:
        mine = [row for row in rows if row.name == case.name]
        if mine:
            _line(case, mine)
    print(f"\n  found by a right detector   {_counted(rows, lambda r: spoke(by_case[r.name], r))}")
    print(f"  called INVALID              {_counted(rows, lambda r: r.invalid)}")
    print(f"  vetoes without evidence     {sum(len(row.unnamed) for row in rows)}")
    _per_detector(rows, by_case)


def spoke(case: Planted, row: Judged) -> bool:
    """Whether a detector that would be right found something."""
    right = [each for each in CHECKS if each.name in case.by]
    return any(each.makes(code) for each in right for code in row.found)


def _line(case: Planted, rows: Sequence[Any]) -> None:
    n = len(rows)
    codes = Counter(f"{code}:{severity}" for row in rows for code, severity in row.found.items())
    told = ", ".join(f"{code} x{count}" for code, count in codes.most_common(4))
    counts = [sum(spoke(case, row) for row in rows), sum(row.invalid for row in rows)]
    cells = "{:>4}/{n}{:>7}/{n}{:>13}/{n}".format(*counts, sum(map(ARMS["full"], rows)), n=n)
    print(f"  {case.name:<27}{cells}{statistics.fmean(r.clean for r in rows):>7.2f}  {told}")


def _per_detector(rows: Sequence[Any], by_case: Mapping[str, Planted]) -> None:
    print("\n  recall per detector, on the cases that are its to find (some share a case):")
    for each in CHECKS:
        mine = [row for row in rows if each.name in by_case[row.name].by]
        if mine:
            told = _counted(mine, lambda row: any(map(each.makes, row.found)))  # noqa: B023
            print(f"    {each.name:<28} {told}")


def arms_table(planted: Sequence[Any], controls: Sequence[Any]) -> None:
    """What each arm promotes of what is planted; beside it, of what is honest."""
    winners = [row for row in planted if any(test(row) for test in ARMS.values())]
    print("\n2. What each arm would have promoted\n")
    print(f"  {'arm':<14}{'planted (each is a mistake)':<36}clean controls")
    for name, test in ARMS.items():
        print(f"  {name:<14}{_counted(planted, test):<36}{_counted(controls, test)}")
    blocked = _counted(winners, lambda row: not ARMS["full"](row))
    print(f"\n  planted winners of any arm: {len(winners)}; blocked by `full`: {blocked}")


def false_alarms(title: str, rows: Sequence[Any]) -> None:
    print(f"\n3. {title}\n")
    print(f"  called INVALID              {_counted(rows, lambda r: r.invalid)}")
    print(f"  promoted                    {_counted(rows, ARMS['full'])}")
    codes = Counter(
        f"{code} ({severity}) in {row.name}" for row in rows for code, severity in row.found.items()
    )
    for code, count in codes.most_common(12):
        print(f"    {count:>4}  {code}")


def repair_table(rows: Sequence[dict[str, Any]], steps: int) -> None:
    print(f"\n4. Repairs proposed by the rules agent, after {steps} training steps\n")
    for row in rows:
        told = row["failed"] or f"rank {row['rank'] or '-'} of {row['proposals']}"
        cost = f"{row['seconds']:.0f} s"
        mark = "ruled" if row["ruled"] else ""
        print(f"  {row['fault']:<22}{row['factor']:<12}{mark:<7}{told:<16}{cost:>7}")
    for ruled in (True, False):
        part = [row for row in rows if row["ruled"] is ruled]
        kind = "with a rule" if ruled else "without one"
        for limit in (3, 40):
            hits = sum(bool(row["rank"]) and row["rank"] <= limit for row in part)
            place = "in the top 3" if limit == 3 else "proposed at all"
            print(f"  {kind:<12} {place:<16} {interval(hits, len(part))}")


def cost_line(results: Any) -> None:
    arms = len(results.planted) + len(results.controls)
    cost = dict(results.cost)
    each = f", {cost['rollouts'] / arms:.0f} rollouts an arm" if arms else ""
    print(f"\ncost: {cost}{each}")
