"""The metrics that a skill watches for, in the form in which `looking.py` looks for them.

Not covered: numbers that only our own runs have (`signal.train`, `measured`); a check of
those says that it could not look.
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

from meta_agent.core.parsing.syntax import literal_value, parse_python
from meta_agent.core.protocols import JSON, Hypothesis
from meta_agent.readers.evidence import metric_of
from meta_agent.readers.foreign import MINIMUM
from meta_agent.skills.looking import beyond

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
_NAMED: Final = re.compile(r"\b(?P<name>[a-z_]+(?:\.\w+)+) is (?P<value>-?\d+(?:\.\d+)?)")
_ONLY_OURS: Final = ("signal.train.", "signal.filter.", "signal.curriculum.", "measured.")


def check_script(watched: Sequence[Mapping[str, Any]], beside: Sequence[str] = ()) -> str:
    """Returns the text of a skill's check script, which looks for `watched` metrics in a report.

    `beside` names further metrics, which the script prints if a watched one is beyond its limit.
    """
    more = _listed(f"    {json.dumps(name)},\n" for name in beside)
    return _SCRIPT.format(watched=_listed(map(_row, watched)), beside=more)


def watched(metric: str, side: str, limit: float | None) -> dict[str, Any]:
    """Returns a row of a check script: a metric, side and limit, and the data that it needs.

    `side` is above or below: where a value beyond the limit means that the skill applies.
    """
    needs = [] if metric.startswith(_ONLY_OURS) else list(metric_of(metric).needs)
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


def triggers_of(hypothesis: Hypothesis, evidence: Mapping[str, JSON]) -> list[dict[str, Any]]:
    """Returns check-script rows for the metrics cited by a hypothesis that are beyond a limit.

    If none is, returns one row for the hypothesis's metric, with its alert limit or present value.
    """
    metric, value = hypothesis.metric, _value_of(hypothesis.metric, evidence)
    values = {metric: value} if value is not None else {}
    for match in _NAMED.finditer("\n".join(hypothesis.evidence)):
        values[match["name"]] = float(match["value"])
    cited = ((name, metric_of(name)) for name in values)
    rows = [watched(name, m.side, m.limit) for name, m in cited if m.limit is not None]
    side = "above" if hypothesis.direction == "down" else "below"
    aimed_at = metric_of(metric)
    limit = aimed_at.limit if aimed_at.limit is not None and aimed_at.side == side else value
    return [row for row in rows if beyond(values[row["metric"]], row)] or [
        watched(metric, side, limit)
    ]


def _value_of(metric: str, evidence: Mapping[str, JSON]) -> float | None:
    layer, _, name = metric.partition(".")
    value: float | None = (evidence.get("layers", evidence).get(layer) or {}).get(name)
    return value


def _listed(rows: Iterable[str]) -> str:
    inside = "".join(rows)
    return f"[\n{inside}]" if inside else "[]"


def _row(row: Mapping[str, Any]) -> str:
    """Returns a row as Python source, since people read the script too."""
    pairs = "".join(f"        {json.dumps(name)}: {_value(v)},\n" for name, v in row.items())
    return f"    {{\n{pairs}    }},\n"


def _value(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, bool) else json.dumps(value)


def trigger_in(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns a check script's watched metrics (as rows) and further ones; [], [] if unreadable."""
    try:
        body = parse_python((folder / CHECK).read_text("utf-8")).body
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return [], []
    tables: dict[str, Any] = {"WATCHED": [], "BESIDE": []}
    for statement in body:
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and statement.value
        ):
            with suppress(ValueError):
                tables[statement.target.id] = literal_value(statement.value)
    rows, beside = tables["WATCHED"], tables["BESIDE"]
    if not (isinstance(rows, list) and all(map(_is_row, rows)) and isinstance(beside, list)):
        return [], []
    return rows, [name for name in beside if isinstance(name, str)]


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and _SHAPE.keys() <= row.keys()
        and all(isinstance(row[name], kind) for name, kind in _SHAPE.items())
    )
