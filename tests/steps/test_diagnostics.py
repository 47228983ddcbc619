"""Diagnostics come and go by what they foretell: a gap opens one, attempts admit and retire it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.core.errors import CandidateError
from meta_agent.core.harness import parse_contract
from meta_agent.core.loop.diagnostics.discriminate import discriminate
from meta_agent.core.loop.diagnostics.tend import diagnostic_terms, open_gap, tend
from meta_agent.core.loop.records import Collected, Judged, Read, Reading, SearchResult, Version
from meta_agent.core.loop.records import Tested as Checked
from meta_agent.core.loop.verbs._same_set import by_one_set
from meta_agent.core.loop.verbs.calibrate import calibration
from meta_agent.core.loop.verbs.collect import read
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.loop.verbs.promote import promote_diagnostics
from meta_agent.core.loop.verbs.test import test as check
from meta_agent.core.protocols import Candidate, HarnessTree, Verdict, VerdictKind
from tests.steps._bench import Bench
from tests.steps._hedging import FILE, METRIC, hedges_when_wrong, source, trained_on


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
    trained_on(bench, hedges_when_wrong)
    collected, reading = second_version(bench)
    return taken_in(bench, collected, reading, hedging(bench, collected))


def hedging(bench: Bench, collected: Collected) -> Candidate:
    """A candidate that measures what differs between clean and other attempts."""
    (candidate,) = bench.candidates(
        collected, ("diagnostics", {FILE: source()}), metric=METRIC, generation=1
    )
    return candidate


def taken_in(bench: Bench, collected: Collected, reading: Reading, one: Candidate) -> Version:
    """What `main` is at once the attempts have judged a diagnostic."""
    judged = discriminate(bench.run, Checked(one, ()))
    conclude(bench.run, collected, one, judged, reading)
    kept = (one,) if judged.verdict.kind is VerdictKind.PROMOTE else ()
    found = SearchResult(Version("v1+1", one.commit), kept, {1: Read(collected, reading)})
    return promote_diagnostics(bench.run, collected.version, found)


def tended(bench: Bench, version: Version, name: str = "later") -> Version:
    """At the start of another run."""
    return tend(replace(bench.run, id=name), version)


# --- a gap opens a diagnostic ---------------------------------------------------------------------


def asked(bench: Bench) -> bool:
    return any("A gap" in term for term in diagnostic_terms(bench.run, bench.reading.evidence))


def test_a_gap_that_no_metric_explains_becomes_an_admitted_diagnostic_and_closes(
    bench: Bench,
) -> None:
    trained_on(bench, hedges_when_wrong)
    collected, reading = second_version(bench)
    assert "v1" in open_gap(bench.run) and asked(bench)
    found = hedging(bench, collected)
    assert not check(bench.run, collected, found).vetoed
    version = taken_in(bench, collected, reading, found)
    assert bench.repo.tree(version.commit).files[FILE] == source().encode()
    verdicts = [s.outcome for s in bench.run.ledger.steps("r", "verdict")]
    assert [verdict["kind"] for verdict in verdicts] == ["PROMOTE"]
    assert open_gap(bench.run) == "" and not asked(bench)
    trained_on(bench, hedges_when_wrong, name="since")
    assert tended(bench, version) == version, "it stays while it goes on foretelling"
    after = read(bench.run, bench.collected(version), 2, None)
    ((metric, (_, low, _)),) = after.evidence.foretells.items()
    assert metric == METRIC and low > 0.5
    (term,) = diagnostic_terms(bench.run, after.evidence)
    assert METRIC in term, "ideas may cite it by name"


def test_main_takes_in_a_diagnostic_without_the_unproven_edits_it_was_written_on(
    bench: Bench,
) -> None:
    first = bench.collected()
    unproven = bench.text("swe/reward.py").encode() + b"\n\nMARK = 1\n"
    (edit,) = bench.candidates(first, ("reward", {"swe/reward.py": unproven}))
    lead = bench.collected(Version("v0+1", edit.commit))
    (watching,) = bench.candidates(lead, ("diagnostics", {FILE: source()}), generation=1)
    conclude(bench.run, lead, watching, admitted(), bench.reading)
    found = SearchResult(lead.version, (edit, watching), {})
    version = promote_diagnostics(bench.run, first.version, found)
    assert bench.repo.head() == version.commit
    before = bench.repo.tree(first.version.commit).files
    assert bench.repo.tree(version.commit).files == {**before, FILE: source().encode()}


def admitted() -> Judged:
    return Judged(Verdict(VerdictKind.PROMOTE, ("it foretells",), evidence={"judge": "x"}))


def test_a_score_that_holds_still_opens_nothing(bench: Bench) -> None:
    collected = bench.collected()
    read(bench.run, collected, 0, None)
    assert open_gap(bench.run) == ""


# --- retirement -----------------------------------------------------------------------------------


def says_the_same(_: bool, key: str) -> str:
    return "perhaps 3" if key.endswith("1") else "it is 3"


def test_one_that_foretells_nothing_more_is_retired_by_a_commit_that_can_be_undone(
    bench: Bench,
) -> None:
    version = explained(bench)
    kept = set(bench.repo.tree(version.commit).files)
    trained_on(bench, says_the_same, name="since")
    assert tend(bench.run, version) == version, "a run does not retire what it took in itself"
    after = tended(bench, version)
    assert after.id == version.id
    assert after.commit == bench.repo.head() != version.commit
    assert kept - set(bench.repo.tree(after.commit).files) == {FILE}
    assert f"RETIRED {METRIC}" in (bench.repo.notes(after.commit) or "")
    step = bench.run.ledger.step("later/diagnostics")
    assert step is not None
    (row,) = step.outcome["scored"]
    assert row["kept"] is False and "AUC 0.50" in row["reason"]
    assert tended(bench, version) == after  # as a run that is taken up again does
    assert tended(bench, after, "much-later") == after


def test_without_attempts_since_nothing_is_retired(bench: Bench) -> None:
    version = explained(bench)
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
