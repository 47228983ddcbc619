"""What a candidate does wrong is its verdict; what machines do wrong is tried again, then told."""

from __future__ import annotations

import os
import signal

import pytest

from meta_agent.composition.draining import draining
from meta_agent.core.errors import (
    CandidateError,
    ConfigError,
    Interrupted,
    SandboxError,
    TrainingError,
)
from meta_agent.core.lab.fair import fairly
from meta_agent.core.loop.finish import finish
from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.collect import collect
from meta_agent.core.loop.verbs.test import test as check
from meta_agent.core.protocols import HarnessTree
from tests.steps._bench import Bench
from tests.steps._ideas import Idea, having, in_it, marks, outcomes, prepare, searched


def breaks_with(mark: str, error: Exception) -> object:
    def script(tree: HarnessTree) -> float:
        if any(mark.encode() in data for data in tree.files.values()):
            raise error
        return 0.5

    return script


REFUSED = CandidateError("order() gave nothing", reason="bad_value")


def test_a_candidate_that_fails_in_training_is_invalid_and_the_others_go_on(bench: Bench) -> None:
    prepare(bench)
    having(bench, Idea("broken", "reward"), Idea("fine", "data"))

    def script(tree: HarnessTree) -> float:
        if "broken" in marks(tree):
            raise REFUSED
        return 0.8 if "fine" in marks(tree) else 0.5

    bench.lab.script = script
    assert in_it(bench, searched(bench)) == {"fine"}
    (out,) = outcomes(bench, "verdict")
    assert out["kind"] == "INVALID" and out["reasons"][0].startswith("failed.bad_value")


def test_code_that_does_not_load_is_vetoed_by_its_contract(bench: Bench) -> None:
    collected = bench.collected()
    edit = {"swe/reward.py": bench.text("swe/reward.py") + "\nraise ValueError('at import')\n"}
    (candidate,) = bench.candidates(collected, ("reward", edit))
    tested = check(bench.run, collected, candidate)
    assert tested.vetoed
    assert any("at import" in finding.message for finding in tested.findings)


def test_a_refusal_is_recorded_and_not_measured_again(bench: Bench) -> None:
    tree = bench.repo.tree(bench.repo.head())
    bench.lab.script = breaks_with("", REFUSED)  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(CandidateError, match="gave nothing"):
            bench.lab.train(tree, seed=0, steps=2)
    assert bench.lab.trainings == 1


def test_a_version_that_cannot_be_measured_is_the_users_to_mend(bench: Bench) -> None:
    bench.lab.script = breaks_with("", REFUSED)  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="order"):
        collect(bench.run, Version("v0", bench.repo.head()))


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ([SandboxError("died", kind="died")], None),
        ([TrainingError("died"), TrainingError("died")], TrainingError),
        ([SandboxError("gone", kind="engine"), SandboxError("gone", kind="engine")], SandboxError),
        ([SandboxError("slow", kind="timeout")] * 2, CandidateError),
        ([SandboxError("slow", kind="timeout"), SandboxError("big", kind="oom")], SandboxError),
        ([TrainingError("died"), SandboxError("slow", kind="timeout")], SandboxError),
    ],
)
def test_infrastructure_gets_one_more_try_and_its_first_failure_is_logged(
    errors: list[Exception], raised: type[Exception] | None, caplog: pytest.LogCaptureFixture
) -> None:
    errors, first = list(errors), str(errors[0])

    def work() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    if raised is None:
        assert fairly(work) == "done"
    else:
        with pytest.raises(raised):
            fairly(work)
    assert first in caplog.text


def test_a_drain_trains_nothing_more(bench: Bench) -> None:
    bench.stop = True
    with pytest.raises(Interrupted):
        collect(bench.run, Version("v0", bench.repo.head()))
    assert bench.lab.trainings == 0


def test_sigterm_drains_however_often_it_comes() -> None:
    with draining() as stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(1)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def vault_reads(run: Run) -> int:
    version = Version("v0", run.repo.head())
    trained = run.lab.train(run.repo.tree(version.commit), seed=0, steps=run.plan.steps)
    finish(run, version, HandedOver(version, trained, "start"))
    (first, last) = (step.outcome for step in run.ledger.steps(kind="vault"))
    assert first["vault_reads_in_workspace"] == last["vault_reads_in_workspace"]
    return int(last["vault_reads_in_workspace"])


def test_a_run_killed_at_the_vault_resumes_and_counts_one_read(bench: Bench) -> None:
    with pytest.raises(KeyboardInterrupt):
        commit = {"commit": bench.repo.head()}
        bench.run.once("vault/baseline", "vault", commit, lambda: _raise(KeyboardInterrupt()))
    assert vault_reads(bench.run) == 1


def _raise(error: BaseException) -> None:
    raise error
