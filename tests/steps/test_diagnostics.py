"""Diagnostics come and go by what they tell: a gap opens one, past versions admit and retire it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate.diagnostics import ALPHA
from meta_agent.core.harness import parse_contract
from meta_agent.core.loop.diagnostics._past import past_versions, split_past
from meta_agent.core.loop.diagnostics.discriminate import discriminate
from meta_agent.core.loop.diagnostics.tend import gap_terms, open_gap, tend
from meta_agent.core.loop.records import Collected, Judged, Read, Reading, SearchResult, Version
from meta_agent.core.loop.records import Tested as Checked
from meta_agent.core.loop.verbs._same_set import by_one_set
from meta_agent.core.loop.verbs.calibrate import calibration
from meta_agent.core.loop.verbs.collect import read
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.loop.verbs.promote import promote_diagnostics
from meta_agent.core.loop.verbs.test import test as check
from meta_agent.core.protocols import Candidate, Factor, HarnessTree, Verdict, VerdictKind
from tests.steps._bench import TASKS, Bench, rollout

LENGTH_FILE = "swe/diagnostics/reply_length.py"
LENGTH = '''"""How long replies are."""

NAME = "reply_length"
LAYER = "behaviour"
THRESHOLDS = {"mean": {"warn": 30, "direction": "above"}}


def measure(rollouts):
    sizes = [len(m["content"]) for r in rollouts for m in r["messages"] if m["role"] == "assistant"]
    return {"mean": sum(sizes) / len(sizes)} if sizes else {}
'''
Replies = Callable[[bool, int], int]  # good or bad, which version: how long a reply is


def past(bench: Bench, replies: Replies, count: int = 9, *, name: str = "old") -> None:
    """So many good and bad versions of earlier runs, alike in all but their replies."""
    for at in range(count):
        for good in (True, False):
            record(bench, good, replies(good, at), f"{name}{at}{'gb'[not good]}")


def record(bench: Bench, good: bool, length: int, name: str) -> None:
    rows = [
        rollout(task, messages=[{"role": "assistant", "content": "x" * length}])
        for task in bench.lab.domain.tasks("search")[:30]
    ]
    shard = bench.lab.store.write(name, rows)
    shards = {"0": {"name": shard.name, "sha256": shard.sha256}}
    arm = {"name": name, "planned": TASKS, "reward_hash": "", "shards": shards}
    kind = "PROMOTE" if good else "REJECT"
    row = {"kind": kind, "arms": [arm, arm], "evidence": {}, "candidate": name}
    bench.run.ledger.once(f"old/{name}", "verdict", {}, lambda: row)


def longer_when_bad(good: bool, at: int) -> int:
    return 10 + at if good else 40 + at


def second_version(bench: Bench) -> tuple[Collected, Reading]:
    """A version whose score moved: the next commit, read after the first."""
    first = bench.collected()
    earlier = read(bench.run, first, 0, None)
    head = first.version.commit
    files = {"swe/reward.py": bench.text("swe/reward.py").encode() + b"\n"}
    moved = bench.repo.edit_main(files, onto=head, message="feat: more", when=1_800_000_001)
    bench.lab.script = lambda tree: 0.5 if tree.commit == head else 0.8
    collected = bench.collected(Version("v1", moved))
    return collected, read(bench.run, collected, 1, earlier.evidence)


def explained(bench: Bench) -> Version:
    """The version in which a diagnostic closes a planted gap."""
    past(bench, longer_when_bad)
    collected, reading = second_version(bench)
    return taken_in(bench, collected, reading, length_of_replies(bench, collected))


def length_of_replies(bench: Bench, collected: Collected) -> Candidate:
    """A candidate that measures what differs between the past versions."""
    edit: tuple[Factor, Mapping[str, str]] = ("diagnostics", {LENGTH_FILE: LENGTH})
    metric = "measured.reply_length.mean"
    (candidate,) = bench.candidates(collected, edit, metric=metric, generation=1)
    return candidate


def taken_in(bench: Bench, collected: Collected, reading: Reading, one: Candidate) -> Version:
    """What `main` is at once the past versions have judged a diagnostic."""
    judged = discriminate(bench.run, Checked(one, ()))
    conclude(bench.run, collected, one, judged, reading)
    kept = (one,) if judged.verdict.kind is VerdictKind.PROMOTE else ()
    found = SearchResult(Version("v1+1", one.commit), kept, {1: Read(collected, reading)})
    return promote_diagnostics(bench.run, collected.version, found)


def tended(bench: Bench, version: Version, name: str = "later") -> Version:
    """At the start of another run."""
    return tend(replace(bench.run, id=name), version)


# --- a gap opens a diagnostic ---------------------------------------------------------------------


def test_a_gap_that_no_metric_explains_becomes_an_admitted_diagnostic_and_closes(
    bench: Bench,
) -> None:
    past(bench, longer_when_bad)
    collected, reading = second_version(bench)
    assert "v1" in open_gap(bench.run) and list(gap_terms(bench.run))
    found = length_of_replies(bench, collected)
    assert not check(bench.run, collected, found).vetoed
    version = taken_in(bench, collected, reading, found)
    assert bench.repo.tree(version.commit).files[LENGTH_FILE] == LENGTH.encode()
    verdicts = [s.outcome for s in bench.run.ledger.steps("r", "verdict")]
    (verdict,) = [one for one in verdicts if one["candidate"].startswith("r/g1")]
    assert verdict["kind"] == "PROMOTE"
    inputs = verdict["evidence"]["inputs"]
    assert len(inputs["heldout_good"]) == len(inputs["heldout_bad"]) == 3
    assert inputs["alpha"] == ALPHA
    assert open_gap(bench.run) == "" and not list(gap_terms(bench.run))
    past(bench, longer_when_bad, 6, name="since")
    assert tended(bench, version) == version, "it stays while it goes on discriminating"


def test_a_score_that_holds_still_opens_nothing(bench: Bench) -> None:
    past(bench, longer_when_bad)
    collected = bench.collected()
    read(bench.run, collected, 0, None)
    assert open_gap(bench.run) == ""


def test_one_that_separates_what_its_author_saw_and_not_what_is_held_out_is_refused(
    bench: Bench,
) -> None:
    """Every third version is held out: there the planted difference is turned round."""
    past(bench, lambda good, at: longer_when_bad(good if at % 3 < 2 else not good, at))
    collected, reading = second_version(bench)
    found = length_of_replies(bench, collected)
    before = collected.version
    version = taken_in(bench, collected, reading, found)
    assert version == before
    told = bench.run.ledger.step(f"{found.id}/verdict")
    assert told is not None
    assert told.outcome["kind"] == "REJECT"


# --- who is held out ------------------------------------------------------------------------------


def test_the_version_that_the_author_was_shown_is_never_held_out(bench: Bench) -> None:
    collected = bench.collected()
    (one,) = bench.candidates(collected, ("diagnostics", {"swe/diagnostics/x.py": 'NAME = "x"\n'}))
    past(bench, longer_when_bad, 3)
    rows = past_versions(bench.run)
    mine = rows[4]._replace(commit=one.commit)  # the third good one, by its files the shown version
    rows[4] = mine
    _, held = split_past(bench.run, rows, collected.tree)
    assert [version.good for version in held] == [False]
    _, others = split_past(bench.run, rows, _other(collected.tree))
    assert mine in others


def _other(tree: HarnessTree) -> HarnessTree:
    files = {**tree.files, "swe/reward.py": tree.files["swe/reward.py"] + b"# more\n"}
    return HarnessTree("c", "t", files)


def test_what_a_raw_score_kept_or_dropped_is_neither_good_nor_bad(bench: Bench) -> None:
    record(bench, True, 10, "kept")
    (step,) = bench.run.ledger.steps(kind="verdict")
    row = {**step.outcome, "evidence": {"judge": "score"}, "candidate": "raw"}
    bench.run.ledger.once("old/raw", "verdict", {}, lambda: row)
    assert len(past_versions(bench.run)) == 1


# --- retirement -----------------------------------------------------------------------------------


def test_one_that_stops_discriminating_is_retired_by_a_commit_that_can_be_undone(
    bench: Bench,
) -> None:
    version = explained(bench)
    kept = set(bench.repo.tree(version.commit).files)
    past(bench, lambda good, at: 20 + at, 6, name="since")
    assert tend(bench.run, version) == version, "a run does not retire what it took in itself"
    after = tended(bench, version)
    assert after.id == version.id
    assert after.commit == bench.repo.head() != version.commit
    gone = kept - set(bench.repo.tree(after.commit).files)
    assert len(gone) == 1 and gone.pop() == LENGTH_FILE
    assert "RETIRED measured.reply_length" in (bench.repo.notes(after.commit) or "")
    step = bench.run.ledger.step("later/diagnostics")
    assert step is not None
    (row,) = step.outcome["scored"]
    assert (row["kept"], row["good"], row["bad"]) == (False, 6, 6)
    assert tended(bench, version) == after  # as a run that is taken up again does
    assert tended(bench, after, "much-later") == after


def test_a_few_unlucky_versions_retire_nothing(bench: Bench) -> None:
    version = explained(bench)
    past(bench, lambda good, at: longer_when_bad(not good, at), 2, name="since")
    assert tended(bench, version) == version
    step = bench.run.ledger.step("later/diagnostics")
    assert step is not None
    assert step.outcome["scored"][0]["kept"] is None


def test_where_nothing_was_admitted_nothing_is_journalled(bench: Bench) -> None:
    version = bench.collected().version
    assert tended(bench, version) == version
    assert not bench.run.ledger.steps(kind="diagnostic")


# --- one set for both arms ------------------------------------------------------------------------


@pytest.mark.parametrize("label", [(), ("reward", "diagnostics")])
def test_a_change_of_diagnostics_together_with_behaviour_is_refused(
    label: tuple[Any, ...], bench: Bench
) -> None:
    contract = parse_contract(bench.collected().tree)
    paths = ["swe/reward.py", "swe/diagnostics/endings.py"]
    with pytest.raises(CandidateError) as caught:
        contract.require_factors(paths, label) if label else contract.factor_of(paths)
    assert caught.value.reason == "several_factors"


def test_numbers_of_a_diagnostic_that_changed_are_not_compared(bench: Bench) -> None:
    collected = bench.collected()
    earlier = read(bench.run, collected, 0, None).evidence
    path = "swe/diagnostics/endings.py"
    files = {**collected.tree.files, path: collected.tree.files[path] + b"# now\n"}
    kept = by_one_set(bench.run, earlier, HarnessTree("c", "t", files), 1)
    assert kept is not None
    gone = {name.partition(".")[0] for name in earlier.measured.keys() - kept.measured.keys()}
    assert gone == {"endings"}
    assert by_one_set(bench.run, earlier, collected.tree, 1) == earlier


def test_a_prediction_is_scored_by_the_versions_own_diagnostics_on_both_arms(bench: Bench) -> None:
    """A candidate cannot bring the instrument along that shows what it promised."""
    collected = bench.collected()
    edit = {"swe/reward.py": bench.text("swe/reward.py") + "# more\n"}
    metric = "measured.endings.unsubmitted_share"
    (one,) = bench.candidates(collected, ("reward", edit), metric=metric)
    after = bench.lab.evaluate(
        bench.repo.tree(one.commit), collected.trained, split="search", limit=9
    )
    seen: list[str] = []
    real = bench.lab.session

    def session(tree: HarnessTree, **options: Any) -> Any:
        seen.append(tree.commit)
        return real(tree, **options)

    bench.lab.session = session  # type: ignore[method-assign]
    refs = (
        bench.lab.arm_of("baseline", collected.tree, {0: collected.evaluated}),
        bench.lab.arm_of(one.id, bench.repo.tree(one.commit), {0: after}),
    )
    told: Mapping[str, Any] = calibration(
        bench.run, collected, one, Judged(Verdict(VerdictKind.REJECT, ()), refs)
    )
    assert told["realised"] == 0.0
    assert set(seen) == {collected.tree.commit}
