"""What a skill watches for: the metrics of its trigger, as `looking.py` looks for them in a report.

Not covered: numbers that only our own runs have (`signal.train`, `measured`); such a check says
that it could not look.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Any, Final

from meta_agent.evidence import MINIMUM, THRESHOLDS, rests_on
from meta_agent.protocols import JSON, Hypothesis

_SCRIPT: Final = '''\
"""Says whether rollouts show what this skill is about: any that `meta-agent report` reads.

Exit status: 0 all of it was looked at and nothing shows, 1 it shows, 2 usage, 3 it could not be
looked at, and why.
"""

from __future__ import annotations

import json
import sys
from typing import Any

WATCHED: list[dict[str, Any]] = {watched}
BESIDE: list[str] = {beside}

if __name__ == "__main__":
    try:
        from meta_agent.skills.looking import main
    except ImportError:
        why = "this Python has no meta-agent: pip install meta-agent-loop"
        print(json.dumps({{"answer": "it could not be looked at", "not_looked_at": [why]}}))
        sys.exit(3)
    sys.exit(main(WATCHED, BESIDE))
'''
CHECK: Final = "scripts/check.py"
_SHAPE: Final[Mapping[str, Any]] = {
    "metric": str,
    "side": str,
    "limit": (int, float, NoneType),
    "needs": list,
    "least": int,
    "silent": bool,
}
_SILENT: Final = ("behaviour.leak", "behaviour.tamper", "behaviour.flag", "shape.suspect.")
_ONLY_OURS: Final = ("signal.train.", "signal.filter.", "signal.curriculum.", "measured.")


def check_script(watched: Sequence[Mapping[str, Any]], beside: Sequence[str] = ()) -> str:
    """The check of a skill that watches for these rows; `beside` says more where one shows."""
    more = _listed(f"    {json.dumps(name)},\n" for name in beside)
    return _SCRIPT.format(watched=_listed(map(_row, watched)), beside=more)


def watched(metric: str, side: str, limit: float | None) -> dict[str, Any]:
    """One row of that table."""
    needs = [] if metric.startswith(_ONLY_OURS) else list(rests_on(metric))
    least = MINIMUM // 2 if metric.startswith("signal.") else MINIMUM
    silent = bool(needs) and metric.startswith(_SILENT)
    return {
        "metric": metric,
        "side": side,
        "limit": limit,
        "needs": needs,
        "least": least,
        "silent": silent,
    }


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
    return repr(value) if value is None or isinstance(value, bool) else json.dumps(value)


def trigger_in(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The table of a skill's check, read and not run; empty where there is none to be read."""
    try:
        body = ast.parse((folder / CHECK).read_text("utf-8")).body
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return [], []
    found: dict[str, Any] = {"WATCHED": [], "BESIDE": []}
    for one in body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value:
            with suppress(ValueError):
                found[one.target.id] = ast.literal_eval(one.value)
    rows, beside = found["WATCHED"], found["BESIDE"]
    if not (isinstance(rows, list) and all(map(_is_row, rows)) and isinstance(beside, list)):
        return [], []
    return rows, [name for name in beside if isinstance(name, str)]


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and _SHAPE.keys() <= row.keys()
        and all(isinstance(row[name], kind) for name, kind in _SHAPE.items())
    )
