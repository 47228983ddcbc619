"""TRL's logged completions: the Parquet tables that `log_completions` writes, one row an attempt.

Columns `step, prompt, completion, advantage`, and one per reward function; other columns a
trainer logged are counted as not carried over unless they hold numbers, which makes them rewards.
A group is a prompt at a step. The table has no outcome, no stop reason and no reward weights: the
total reward shown is the plain sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.parquet import parquet_module
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.readers.formats._draft import Draft, digest
from meta_agent.readers.formats._files import split_prompt
from meta_agent.readers.formats._format import Count, has
from meta_agent.readers.formats._messages import parse_completion, parse_messages, told_by, turns_of
from meta_agent.readers.formats._row import Row, RowError, finite

NAME = "trl-completions"
_BATCH_ROWS = 64
CANNOT_CARRY = frozenset(
    {"run", "version", "harness_commit", "task_key", "task_hash", "evaluator_hash", "tokens"}
    | {"split", "seed", "domain", "outcome_detail", "verifier_inputs", "error", "cost", "timings"}
    | {"outcome", "stop_reason", "flags", "policy", "group_id", "weights", "sample_idx"}
    | {"tool_events"}
)
_OWN = ("step", "prompt", "completion", "advantage")
_MESSAGE_TEXTS = ("role", "content", "name", "tool_call_id", "reasoning_content")


def claims(value: JSON) -> int:
    return 2 if has(value, "step", "prompt", "completion") else 0


def read(row: Row, count: Count) -> Draft:
    if row.get("prompt") is None or row.get("completion") is None:
        raise RowError("fields prompt and completion: expected both, got nothing in one")
    prompt = parse_messages(_without_nulls(row.get("prompt")), "prompt", count)
    completion = parse_completion(_without_nulls(row.get("completion")), "completion", count)
    step = _step(row)
    events, tool_ok = told_by(completion)
    spoken = not isinstance(row.get("completion"), str)
    task = f"prompt-{digest(prompt)[:12]}"
    return Draft(
        prompt=prompt,
        messages=[*prompt, *completion],
        tool_events=events if spoken else None,
        tool_ok=tool_ok,
        turns=turns_of(completion),
        group=f"{task}@{step}",
        rewards=_rewards(row, count),
        advantage=row.number("advantage"),
        detail={} if step is None else {"step": step},
        version=None if step is None else f"step-{step}",
    )


def _step(row: Row) -> int | None:
    """A number; TRL up to 0.2x wrote it as text."""
    said = row.label("step")
    if said is not None and not said.isdecimal():
        raise row.need("step", "a whole number")
    return None if said is None else int(said)


def _without_nulls(value: JSON) -> JSON:
    """Parquet gives every message every field of the column's schema, most of them null."""
    if isinstance(value, dict):
        return {name: _without_nulls(v) for name, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


def _rewards(row: Row, count: Count) -> dict[str, float] | None:
    found: dict[str, float] = {}
    for name, value in row.values.items():
        if name in _OWN:
            continue
        row.used.add(name)
        number = finite(value) if type(value) in (int, float) else None
        if number is not None:
            found[name] = number
        elif value is not None:  # a reward function may give None: then TRL logs NaN
            count(f"{name} ({'not finite' if type(value) is float else 'not a number'})")
    return found or None


def write(rollouts: Iterable[Rollout], path: Path) -> int:
    """A table as TRL writes it; its reward columns are those of the first batch."""
    parquet = parquet_module()
    part, count, names = path.with_name(f".{path.name}.part"), 0, list[str]()
    writer = None
    try:
        for batch in _batches(rollouts):
            names = names or sorted({name for rollout in batch for name in rollout.rewards})
            table = _table(batch, names)
            writer = writer or parquet.ParquetWriter(part, table.schema)
            writer.write_table(table)
            count += len(batch)
        if writer is None:
            raise ConfigError("there are no rollouts to write")
        writer.close()
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _batches(rollouts: Iterable[Rollout]) -> Iterator[list[Rollout]]:
    left = iter(rollouts)
    while batch := list(itertools.islice(left, _BATCH_ROWS)):
        yield batch


def _table(batch: list[Rollout], names: list[str]) -> Any:
    import pyarrow as pa

    new = {name for rollout in batch for name in rollout.rewards} - set(names)
    if new:
        raise ConfigError(f"the reward {min(new)} is not in the first rollouts: no column for it")
    text = pa.string()
    function = pa.struct([("name", text), ("arguments", text)])
    call = pa.struct([("id", text), ("type", text), ("function", function)])
    fields = [(name, text) for name in _MESSAGE_TEXTS]
    messages = pa.list_(pa.struct([*fields, ("tool_calls", pa.list_(call))]))
    columns = [("step", pa.int64()), ("prompt", messages), ("completion", messages)]
    columns += [(name, pa.float64()) for name in (*names, "advantage")]
    return pa.Table.from_pylist([_record(one, names) for one in batch], pa.schema(columns))


def _record(rollout: Rollout, names: list[str]) -> dict[str, JSON]:
    prompt, completion = split_prompt(rollout)
    step = rollout.outcome_detail.get("step", 0)
    rewards = {name: rollout.rewards.get(name) for name in names}
    own = {"step": step if isinstance(step, int) else 0, "advantage": rollout.advantage}
    return {**own, "prompt": prompt, "completion": completion, **rewards}
