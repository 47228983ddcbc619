"""The rows of a run's warm-ups: chosen once, and only where a version solves almost nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from meta_agent.core.lab.warmup import read_rows, references, write_rows
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Warmup
from meta_agent.core.loop.verbs.propose import offer_warmup
from meta_agent.core.protocols import HarnessTree, Split
from meta_agent.core.resources import shipped_harness
from meta_agent.core.rollouts import Stamp
from meta_agent.domains.graded import GradedDomain
from meta_agent.domains.graded._domain import load_rows
from meta_agent.domains.nano.math import NanoMath
from tests.steps._bench import Bench, rollout
from tests.training._rows import ANSWERS, attempt


@pytest.mark.parametrize(("clean", "rows"), [(0, 2), (1, 2), (2, 0)])
def test_a_version_that_solves_almost_nothing_offers_its_own_successes(
    clean: int, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        bench = Bench(tmp_path, ledger, monkeypatch)
        collected, lab = bench.collected(), bench.lab
        lab.domain = NanoMath()
        tasks = lab.domain.tasks("train")[:3]
        inputs = [{"answer": ANSWERS[task.key], "submitted": True} for task in tasks]
        attempts = [attempt(t, verifier_inputs=i) for t, i in zip(tasks, inputs, strict=True)]
        attempts[2].outcome = False
        shard = lab.store.write("r/train-x", attempts)
        trained = collected.trained._replace(shard={"name": shard.name, "sha256": shard.sha256})
        evaluated = collected.evaluated._replace(clean=clean, planned=20)
        offer_warmup(bench.run, collected._replace(trained=trained, evaluated=evaluated))
        assert lab.warmup()["rows"] == rows
        assert lab.choose_warmup(attempts[:1], replay=False)["rows"] == (rows or 1)  # once for all


@pytest.fixture(scope="module")
def extraction() -> Iterator[GradedDomain]:
    folder = Path(__file__).parents[2] / "examples" / "extraction"
    spec = {"path": f"{folder / 'grader.py'}"}
    domain = GradedDomain(spec, load_rows(folder / "tasks.jsonl", {}))
    yield domain
    domain.close()


def test_references_are_what_the_grader_accepts_of_training_tasks_under_the_harness(
    extraction: GradedDomain, bench: Bench
) -> None:
    lab = bench.lab
    lab.domain = lab.apparatus.domain = extraction
    tree = HarnessTree("c", "t", shipped_harness("chat/open"))
    record = lab.render_references(tree)
    rows = read_rows(lab.settings, record["sha256"])
    assert record["rows"] == len(rows) == len(extraction.tasks("train"))
    assert {row.task_key for row in rows} == {task.key for task in extraction.tasks("train")}
    assert all(row.clean and row.messages[-1]["role"] == "assistant" for row in rows)
    assert {row.outcome_detail["prompt_messages"] for row in rows} == {2}
    assert lab.imitated() == {row.task_hash for row in rows}
    refused = dict(shipped_harness("chat/open"))
    refused["agent/agent.py"] = refused["agent/agent.py"].replace(
        b"answer=reply.content", b"answer=reply.content[1:]"
    )
    with lab.session(HarnessTree("c", "t", refused)) as session:
        assert references(extraction, session, Stamp("r", "v", "c")) == []


@pytest.mark.parametrize("split", ["train", "search"])
def test_a_task_that_was_imitated_is_no_test_any_more(split: Split, bench: Bench) -> None:
    lab = bench.lab
    imitated = replace(rollout(lab.domain.tasks(split)[0]), messages=[])
    sha256 = write_rows(lab.settings, [imitated])
    lab.ledger.once("r/warmup", "warmup", {}, lambda: Warmup(rows=1, sha256=sha256))
    version = bench.collected()
    arm = lab.arm_of("baseline", version.tree, {0: version.evaluated})
    codes = {finding.code for finding in lab.inspector.within(arm)}
    assert ("overlap.train_eval" in codes) == (split == "search")
