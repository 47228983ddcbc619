"""What a skill watches for: the metrics of its trigger, as `_check.py` looks for them in a report.

Not covered: numbers that only our own runs have (`signal.train`, `measured`); such a check says
that it could not look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from meta_agent.evidence import MINIMUM, THRESHOLDS, rests_on
from meta_agent.protocols import JSON, Hypothesis

_TABLE: Final = "WATCHED: list[dict[str, Any]] = []"
_BESIDE: Final = "BESIDE: list[str] = []"
_ONLY_OURS: Final = ("signal.train.", "signal.filter.", "signal.curriculum.", "measured.")


def check_script(watched: Sequence[Mapping[str, Any]], beside: Sequence[str] = ()) -> str:
    """The stand-alone check with this table in it."""
    source = files("meta_agent.skills").joinpath("_check.py").read_text("utf-8")
    source = source.replace(_TABLE, _TABLE.replace("[]", _listed(map(_row, watched))), 1)
    more = _listed(f"    {json.dumps(name)},\n" for name in beside)
    return source.replace(_BESIDE, _BESIDE.replace("[]", more), 1)


def watched(metric: str, side: str, limit: float | None) -> dict[str, Any]:
    """One row of that table."""
    needs = [] if metric.startswith(_ONLY_OURS) else list(rests_on(metric))
    least = MINIMUM // 2 if metric.startswith("signal.") else MINIMUM
    pattern = metric if set(metric) & set("\\[") else re.escape(metric)
    return {"metric": pattern, "side": side, "limit": limit, "needs": needs, "least": least}


def trigger_of(hypothesis: Hypothesis, evidence: Mapping[str, JSON]) -> dict[str, Any]:
    """The hypothesis's metric at its known limit, else as bad as it was where this was learned."""
    side = "above" if hypothesis.direction == "down" else "below"
    named = (t for t in THRESHOLDS if t.side == side and re.fullmatch(t.pattern, hypothesis.metric))
    known = next((one.warn for one in named), None)
    layer, _, name = hypothesis.metric.partition(".")
    seen = (evidence.get("layers", evidence).get(layer) or {}).get(name)
    return watched(hypothesis.metric, side, seen if known is None else known)


def _listed(rows: Iterable[str]) -> str:
    inside = "".join(rows)
    return f"[\n{inside}]" if inside else "[]"


def _row(row: Mapping[str, Any]) -> str:
    """As Python: the script is read by people, too."""
    told = "".join(f"        {json.dumps(name)}: {_value(v)},\n" for name, v in row.items())
    return f"    {{\n{told}    }},\n"


def _value(value: Any) -> str:
    return "None" if value is None else json.dumps(value)
