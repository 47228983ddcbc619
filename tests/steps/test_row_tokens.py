"""`--row-tokens`: shorter conversations for a policy that is trained here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from meta_agent.composition.inputs import load_run_domain
from meta_agent.core.config import RunConfig
from meta_agent.core.protocols import SPLITS


def test_a_limit_on_rows_lowers_the_ceiling_of_the_set(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}?", "gold": str(n)} for n in range(40)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "g.py").write_text("def grade(task, answer):\n    return answer == task['gold']\n")
    files = {"tasks": tmp_path / "t.jsonl", "grade": tmp_path / "g.py"}
    usual, short = (
        load_run_domain(RunConfig(policy="hf:x", row_tokens=limit, **files), sandbox="process")
        for limit in (None, 512)
    )
    assert short.ceilings == replace(usual.ceilings, max_context_tokens=512)
    assert short.evaluator_hash == usual.evaluator_hash
    assert [len(short.tasks(s)) for s in SPLITS] == [len(usual.tasks(s)) for s in SPLITS]
