"""SWE-bench predictions: `instance_id`, `model_name_or_path`, `model_patch`, as rows or as a map.

Also rows that carry an evaluation beside the patch (`resolved`). There are no messages in such a
file: behaviour is unknown, and an empty patch is the one thing that can be told from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from meta_agent.core.protocols import JSON, Rollout
from meta_agent.readers.formats._draft import Draft
from meta_agent.readers.formats._files import write_lines
from meta_agent.readers.formats._format import Count, Placed, has
from meta_agent.readers.formats._row import Row, RowError

NAME = "swe-bench-predictions"
CANNOT_CARRY = frozenset(
    {"run", "version", "harness_commit", "task_hash", "evaluator_hash", "split", "seed", "domain"}
    | {"messages", "tool_events", "turns", "tokens", "rewards", "weights", "advantage"}
    | {"outcome_detail", "stop_reason", "error", "flags", "timings", "cost", "group_id"}
    | {"sample_idx"}
)


def claims(value: JSON) -> int:
    if isinstance(value, dict) and value and all(has(v, "model_patch") for v in value.values()):
        return 3
    return 2 if has(value, "instance_id", "model_patch") else 0


def expand(placed: Placed) -> Iterator[Placed]:
    """A map of predictions is as many rows."""
    value = placed.value
    if isinstance(value, dict) and not has(value, "model_patch"):
        for name, inner in value.items():
            row = {"instance_id": name, **inner} if isinstance(inner, dict) else inner
            yield Placed(f"{placed.place}[{name}]", row)
    else:
        yield placed


def read(row: Row, count: Count) -> Draft:
    instance = row.label("instance_id")
    if instance is None:
        raise RowError("field instance_id: expected a string")
    patch = row.text("model_patch") or ""
    return Draft(
        task_key=instance,
        policy=row.text("model_name_or_path", "model"),
        outcome=row.flag("resolved"),
        verifier_inputs={"patch": patch},
        detail={"empty_patch": not patch.strip()},
        domain="swe",
    )


def write(rollouts: Iterable[Rollout], path: Path) -> int:
    return write_lines(map(_record, rollouts), path)


def _record(rollout: Rollout) -> dict[str, JSON]:
    inputs = rollout.verifier_inputs
    patch = inputs.get("patch", inputs.get("model_patch", ""))
    record = {
        "instance_id": rollout.task_key,
        "model_name_or_path": rollout.policy,
        "model_patch": patch,
    }
    return record if rollout.outcome is None else {**record, "resolved": rollout.outcome}
