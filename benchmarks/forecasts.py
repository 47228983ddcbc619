"""Predicted against realised, over all that a workspace has tried.

Two forecasters are scored. The *proposer* says what its metric will do: that against what it did,
each in its own unit, so rank correlation is the number to read. The *replay* says how the change
orders stored rollouts: its gain in alignment against the gain in clean success, for candidates that
were replayed. Realised is what the last comparison measured: on the confirm split with several
training seeds, or, ranked out, on the search split with one.

Intervals are 95 %: Fisher's z for Pearson's r, with the standard error of Bonett and Wright
(Psychometrika 65, 2000) for Spearman's rho. With fewer than four pairs there is none.

    python benchmarks/forecasts.py WORKSPACE

Not covered: whether candidates are alike. They share a version, a forecaster and a search split, so
the intervals are narrower than they would be for independent ideas.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Candidate, Screen, Verdict
from meta_agent.core.protocols import JSON

ENOUGH: Final = 4
_Z95: Final = 1.959963984540054


class Forecast(NamedTuple):
    """One candidate: what was foretold of it, and what came."""

    candidate: str
    factor: str
    metric: str
    predicted: float | None  # of the metric, with its sign
    realised: float | None  # of the same metric
    replay: float | None  # gain in alignment with clean success
    reading: str | None
    clean: float | None  # gain in clean success
    split: str


class Interval(NamedTuple):
    """A coefficient and its 95 % interval, where there is one."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How forecasts went with what came."""

    n: int
    pearson: Interval
    spearman: Interval
    right_direction: int
    """Pairs whose signs agree; a forecast of nothing counts as wrong where something came."""

    def to_json(self) -> dict[str, JSON]:
        document = asdict(self)
        return {**document, "pearson": self.pearson._asdict(), "spearman": self.spearman._asdict()}


def forecasts(ledger: Ledger) -> list[Forecast]:
    """Every candidate with a verdict that rests on a comparison, oldest first."""
    candidates = {record["id"]: record for record in ledger.outcomes("candidate", Candidate)}
    replays = {
        screen["candidate"]: screen["numbers"]
        for screen in ledger.outcomes("screen", Screen)
        if screen.get("stage") == "replay" and screen.get("numbers")
    }
    rows = []
    for verdict in ledger.outcomes("verdict", Verdict):
        candidate = candidates.get(verdict["candidate"])
        if candidate is not None and verdict.get("arms"):
            rows.append(_forecast(candidate, verdict, replays.get(candidate["id"])))
    return rows


def _forecast(
    candidate: Mapping[str, Any], verdict: Mapping[str, Any], replay: Mapping[str, Any] | None
) -> Forecast:
    hypothesis, scored = candidate["hypothesis"], verdict.get("calibration")
    sign = 1.0 if hypothesis["direction"] == "up" else -1.0
    return Forecast(
        candidate=candidate["id"],
        factor="+".join(hypothesis.get("factors") or ()) or candidate["factor"],
        metric=hypothesis["metric"],
        predicted=sign * abs(hypothesis["expected_delta"]) if scored else None,
        realised=scored["realised"] if scored else None,
        replay=replay["after"]["alignment"] - replay["before"]["alignment"] if replay else None,
        reading=replay["reading"] if replay else None,
        clean=_clean_gain(verdict),
        split="search" if _ranked_only(verdict) else "confirm",
    )


def _ranked_only(verdict: Mapping[str, Any]) -> bool:
    judge = (verdict.get("evidence") or {}).get("judge")
    return bool(verdict.get("screened_out")) or judge in ("screen", "factorial")


def _clean_gain(verdict: Mapping[str, Any]) -> float | None:
    if effect := verdict.get("effect"):
        return float(effect["delta"])
    arms = (verdict.get("evidence") or {}).get("arms") or {}
    shares = [
        arms[side]["clean"] / arms[side]["n"]
        for side in ("candidate", "baseline")
        if arms.get(side, {}).get("n")
    ]
    return shares[0] - shares[1] if len(shares) == 2 else None


def agreements(rows: Sequence[Forecast]) -> dict[str, Agreement]:
    """By forecaster: `proposer` and `replay`."""
    return {
        "proposer": agreement((row.predicted, row.realised) for row in rows),
        "replay": agreement((row.replay, row.clean) for row in rows),
    }


def predictions_json(rows: Sequence[Forecast]) -> dict[str, JSON]:
    """Every candidate, and how each forecaster did."""
    agreement_by_source = {
        name: agreement_row.to_json() for name, agreement_row in agreements(rows).items()
    }
    return {"agreement": agreement_by_source, "candidates": [row._asdict() for row in rows]}


# --- coefficients -------------------------------------------------------------------------------


def agreement(pairs: Iterable[tuple[float | None, float | None]]) -> Agreement:
    """Both coefficients of the pairs that are whole."""
    whole = list(_whole(pairs))
    predicted, realised = [x for x, _ in whole], [y for _, y in whole]
    r = _pearson(predicted, realised)
    rho = _pearson(_ranks(predicted), _ranks(realised))
    return Agreement(
        len(whole),
        _interval(r, len(whole), 1.0),
        _interval(rho, len(whole), 1.0 + (rho or 0.0) ** 2 / 2),
        sum(_sign(x) == _sign(y) for x, y in whole),
    )


def _whole(pairs: Iterable[tuple[float | None, float | None]]) -> Iterator[tuple[float, float]]:
    for predicted, realised in pairs:
        if predicted is not None and realised is not None:
            yield predicted, realised


def _sign(value: float) -> int:
    return (value > 1e-12) - (value < -1e-12)


def _pearson(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    if len(xs) < 2:
        return None
    x, y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    xx, yy = math.fsum((a - x) ** 2 for a in xs), math.fsum((b - y) ** 2 for b in ys)
    if xx <= 1e-24 or yy <= 1e-24:
        return None
    xy = math.fsum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return max(-1.0, min(1.0, xy / math.sqrt(xx * yy)))


def _ranks(values: Sequence[float]) -> list[float]:
    """Mid-ranks."""
    order = sorted(values)
    first = {value: at for at, value in reversed(list(enumerate(order)))}
    last = {value: at for at, value in enumerate(order)}
    return [(first[value] + last[value]) / 2 for value in values]


def _interval(r: float | None, n: int, variance: float) -> Interval:
    """On Fisher's scale, where the variance is about `variance / (n - 3)`."""
    if r is None or n < ENOUGH:
        return Interval(r)
    if abs(r) == 1.0:
        return Interval(r, r, r)
    middle, half = math.atanh(r), _Z95 * math.sqrt(variance / (n - 3))
    return Interval(r, math.tanh(middle - half), math.tanh(middle + half))


if __name__ == "__main__":
    with Ledger.open(Path(sys.argv[1]) / "ledger.sqlite", owner_lock=False) as opened:
        print(json.dumps(predictions_json(forecasts(opened)), indent=2))
