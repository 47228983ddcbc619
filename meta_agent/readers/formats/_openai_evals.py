"""OpenAI evals' logs, JSON lines: what was sampled and what was judged are events of one sample.

A sample's events are gathered into one row: the last `sampling` is the dialogue, a `match` (or
`metrics` that hold a `correct`) is the outcome. A sample that was judged several times the same way
is one attempt; an `error` is the machine's. A log without a final report was cut short, which is
said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from meta_agent.core.protocols import JSON, RolloutFailure
from meta_agent.readers.formats._draft import Draft
from meta_agent.readers.formats._format import CERTAIN, Count, Placed, has
from meta_agent.readers.formats._messages import before_reply, parse_messages, turns_of
from meta_agent.readers.formats._row import Row

NAME = "openai-evals"


def claims(value: JSON) -> int:
    if has(value, "spec") and has(value["spec"], "eval_name"):
        return CERTAIN
    return CERTAIN if has(value, "event_id", "sample_id", "type", "data") else 0


def gather(values: Iterable[Placed]) -> Iterator[Placed]:
    """One row a sample, in the order of first events. Holds the log's samples."""
    spec: JSON = {}
    finished = False
    samples: dict[str, dict[str, Any]] = {}
    places: dict[str, str] = {}
    for placed in values:
        value = placed.value
        if has(value, "event_id", "sample_id", "type", "data"):
            name = str(value["sample_id"])
            places.setdefault(name, placed.place)
            samples.setdefault(name, {"sample_id": name})[str(value["type"])] = value["data"]
        elif has(value, "spec"):
            spec = value["spec"]
        elif has(value, "final_report"):
            finished = True
        else:
            yield placed
    for name, row in samples.items():
        yield Placed(places[name], {**row, "spec": spec, "finished": finished})


def read(row: Row, count: Count) -> Draft:
    name, spec, sampled = row.label("sample_id"), row.object("spec"), row.object("sampling")
    if name is None:
        raise row.need("sample_id", "a name")
    row.skip("raw_sample", "function_call")
    messages = _dialogue(sampled, count)
    failed, match, metrics = (row.object(name) for name in ("error", "match", "metrics"))
    judged = match or metrics
    error = RolloutFailure("infra", (failed.text("message") or "")[:2000]) if failed else None
    eval_name = spec.text("base_eval") or spec.text("eval_name") or ""
    models = spec.items("completion_fns")
    return Draft(
        prompt=before_reply(messages),
        messages=messages or None,
        turns=turns_of(messages) if messages else None,
        task_key=f"{eval_name}/{name}",
        domain=eval_name,
        policy=str(models[0]) if models else None,
        outcome=None if error else judged.flag("correct"),
        error=error,
        caveat="" if row.flag("finished") else "from a log that has no final report",
    )


def _dialogue(sampled: Row, count: Count) -> list[dict[str, Any]]:
    if not sampled:
        return []
    prompt, said = sampled.get("prompt"), sampled.get("sampled")
    asked = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt or ""}]
    reply = said[0] if isinstance(said, list) and said else said
    answer = reply if isinstance(reply, str) else ""
    return parse_messages([*asked, {"role": "assistant", "content": answer}], "sampling", count)
