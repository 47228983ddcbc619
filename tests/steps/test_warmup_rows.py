"""The rows of a run's warm-ups: chosen once, and only where a version solves almost nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_agent.core.ledger import Ledger
from meta_agent.core.loop.verbs.propose import offer_warmup
from meta_agent.domains.nano.math import NanoMath
from tests.steps._bench import Bench
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
