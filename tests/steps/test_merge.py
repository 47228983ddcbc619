"""Into main, tested again, and out again where the merge commit does not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meta_agent.protocols import Candidate, Verdict, VerdictKind
from meta_agent.steps import merge as merge_step
from meta_agent.steps.collect import Collected
from meta_agent.steps.confirm import confirm
from meta_agent.steps.learn import conclude
from meta_agent.steps.run import Judged, Version
from meta_agent.steps.run import Tested as Checked
from tests.steps._bench import Bench


def better(bench: Bench) -> tuple[Collected, Candidate, Judged]:
    """A candidate that wins by far."""
    collected = bench.collected()
    edit = {"swe/curriculum.py": bench.text("swe/curriculum.py") + "\n# better\n"}
    (candidate,) = bench.candidates(collected, ("data", edit))
    bench.lab.script = lambda tree: 0.9 if b"# better" in tree.files["swe/curriculum.py"] else 0.4
    collected = bench.collected(Version("v0", bench.repo.head()))
    return collected, candidate, confirm(bench.run, collected, Checked(candidate, ()))


def test_a_merge_that_holds_is_the_next_version(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected, candidate, judged = better(bench)
    promoted = Judged(replace(judged.verdict, kind=VerdictKind.PROMOTE), judged.arms)
    retest_says(monkeypatch, promoted)
    merged = merge_step.merge(
        bench.run, collected, collected.version, Checked(candidate, ()), promoted
    )
    assert merged.version == Version("v1", bench.repo.head())
    assert merged.judged is promoted


def test_an_undone_merge_teaches_nothing_and_the_run_goes_on_from_the_undo(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected, candidate, judged = better(bench)
    promoted = Judged(replace(judged.verdict, kind=VerdictKind.PROMOTE), judged.arms)
    fails = Judged(Verdict(VerdictKind.INCONCLUSIVE, ("the merge lost it",)))
    retest_says(monkeypatch, fails)
    tested = Checked(candidate, ())
    version, last_word = merge_step.merge(bench.run, collected, collected.version, tested, promoted)
    assert version == Version("v0", bench.repo.head()) and version != collected.version
    assert bench.repo.tree(version.commit).files == collected.tree.files
    conclude(bench.run, collected, candidate, last_word, bench.reading)
    assert not bench.run.skills.all()
    again = merge_step.merge(bench.run, collected, collected.version, tested, promoted)
    assert again.version == version  # resumed: nothing is merged or undone twice

    trained = bench.lab.trainings
    assert bench.collected(version).evaluated == collected.evaluated
    assert bench.lab.trainings == trained  # the same files: measured already


def test_after_an_undo_the_next_winner_still_merges(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected, candidate, judged = better(bench)
    retest_says(monkeypatch, Judged(Verdict(VerdictKind.REJECT, ("worse",))))
    tested = Checked(candidate, ())
    version, _ = merge_step.merge(bench.run, collected, collected.version, tested, judged)
    edit = {"swe/reward.py": bench.text("swe/reward.py") + "\n# other\n"}
    bench.run.id = "r2"
    (other,) = bench.candidates(bench.collected(version), ("reward", edit))
    won = Judged(Verdict(VerdictKind.PROMOTE, ("better",)))
    retest_says(monkeypatch, won)
    merged = merge_step.merge(bench.run, collected, version, Checked(other, ()), won)
    assert merged.version == Version("v1", bench.repo.head())


def test_a_diagnostic_merges_on_top_of_the_same_generations_winner(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = bench.collected()
    winner, watcher = bench.candidates(
        collected,
        ("reward", {"swe/reward.py": bench.text("swe/reward.py") + "\n# w\n"}),
        ("diagnostics", {"swe/diagnostics/more.py": "NAME = 'more'\n"}),
    )
    won = Judged(Verdict(VerdictKind.PROMOTE, ("better",)))
    retest_says(monkeypatch, won)
    monkeypatch.setattr(merge_step, "keeps_contract", lambda *_: [])
    first = merge_step.merge(bench.run, collected, collected.version, Checked(winner, ()), won)
    second = merge_step.merge(bench.run, collected, first.version, Checked(watcher, ()), won)
    files = bench.repo.tree(second.version.commit).files
    assert b"# w" in files["swe/reward.py"] and "swe/diagnostics/more.py" in files
    assert [first.version.id, second.version.id] == ["v1", "v2"]


def retest_says(monkeypatch: pytest.MonkeyPatch, judged: Judged) -> None:
    monkeypatch.setattr(merge_step, "confirm", lambda *_: judged)
