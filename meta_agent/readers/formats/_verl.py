"""verl's generation dumps (`rollout_data_dir`, `validation_data_dir`): an attempt a line, as text.

`input` and `output` are decoded text, special tokens and all; `score` is the reward that training
saw. What else a reward function returned stands beside it: numbers become reward components of
weight 0, and `acc` of true, false, 1 or 0, which verl takes for its accuracy, is the outcome. A
group is a prompt at a step.
"""

from __future__ import annotations

from typing import Final

from meta_agent.core.protocols import JSON
from meta_agent.readers.formats._draft import Draft, digest
from meta_agent.readers.formats._format import Count, has
from meta_agent.readers.formats._row import Row, RowError, finite

NAME = "verl"
_NAMES_OF_ROWS: Final = ("request_id", "uid", "index")


def claims(value: JSON) -> int:
    return 3 if has(value, "input", "output", "score", "step") else 0


def read(row: Row, count: Count) -> Draft:
    told, said, step = row.text("input"), row.text("output"), row.integer("step")
    if told is None or said is None:
        raise RowError("fields input and output: expected text, got nothing in one")
    prompt = [{"role": "user", "content": told}]
    task, score, truth = f"prompt-{digest(prompt)[:12]}", row.number("score"), row.get("gts")
    row.skip(*_NAMES_OF_ROWS)
    outcome = _accuracy(row)
    beside = _numbers(row)
    return Draft(
        prompt=prompt,
        messages=[*prompt, {"role": "assistant", "content": said}],
        turns=1,
        group=f"{task}@{step}",
        version=None if step is None else f"step-{step}",
        rewards=({} if score is None else {"score": score}) | beside or None,
        weights={} if score is None else dict.fromkeys(beside, 0.0),
        outcome=outcome,
        detail={} if step is None else {"step": step},
        verifier_inputs={} if truth is None else {"answer": truth},
    )


def _accuracy(row: Row) -> bool | None:
    value = row.values.get("acc")
    return row.flag("acc") if value in (0, 1) else None


def _numbers(row: Row) -> dict[str, float]:
    rest = {name: finite(v) for name, v in row.values.items() if name not in row.used}
    found = {name: number for name, number in rest.items() if number is not None}
    row.used.update(found)
    return found
