"""The analyst of the team: quotes that hold, corrections, notes, and finding nothing."""

from __future__ import annotations

from typing import Any

from meta_agent.core.evidence import Evidence
from meta_agent.core.loop.verbs._briefing import noted, summary
from meta_agent.core.loop.verbs.collect import rolled_out_untrained
from tests.agents._models import Call
from tests.steps._bench import Bench
from tests.steps._team import AGENT, QUOTE, good, idea, proposed, refused, script, submit, with_team

# --- the analyst --------------------------------------------------------------------------------

UNFIT: dict[str, dict[str, Any]] = {
    "a quotation that stands nowhere": {"evidence": [{**QUOTE, "quote": "MAX_TURNS = 80"}]},
    "a factor that is none": {"factor": "luck"},
    "a metric that is none": {"metric": "signal.luck"},
    "a prediction of nothing": {"expected_delta": 0},
    "points for a share": {"expected_delta": 5},
    "no statement": {"statement": " "},
    "no direction": {"direction": "sideways"},
    "no evidence": {"evidence": []},
}


def test_a_hypothesis_is_checked_and_may_be_mended(bench: Bench) -> None:
    turns = script(good())
    turns["g0/analyst"] = [*(submit(idea(**changes)) for changes in UNFIT.values()), submit(idea())]
    models = with_team(bench, turns)
    assert len(proposed(bench)) == 1
    heard = dict(zip(UNFIT, models.heard("g0/analyst"), strict=True))
    assert all(said.startswith("ERROR: hypothesis 1: ") for said in heard.values())
    assert "quote it as it stands there" in heard["a quotation that stands nowhere"]
    assert "at most 1: 0.05 means 5 points" in heard["points for a share"]


def test_the_team_reads_a_version_as_it_was_before_training_too(bench: Bench) -> None:
    trained = bench.collected()
    before = rolled_out_untrained(bench.run, trained.tree)
    bench.reading = bench.reading._replace(untrained=Evidence({"clean_success": 0.9}, {}, {}))
    turns = script(good())
    reads = ("untrained.md", "rollouts/untrained-0000.md")
    turns["g0/analyst"] = [
        [("read_file", {"path": f"evidence/{path}"}) for path in reads],
        submit(idea()),
    ]
    models = with_team(bench, turns)
    assert len(proposed(bench, trained._replace(untrained=before))) == 1
    page, attempt = models.heard("g0/analyst")
    assert "| score.clean_success | 0.9 | 0.5 |" in page
    assert "# search " in attempt


def correct(hypothesis: int, number: int, **changes: Any) -> list[Call]:
    return [("correct_quotation", {"hypothesis": hypothesis, "number": number, **QUOTE, **changes})]


def test_a_misquoted_line_is_corrected_by_itself(bench: Bench) -> None:
    wrong = idea(1, evidence=[QUOTE, {**QUOTE, "quote": "MAX_TURNS = 80"}])
    turns = script(good(), good(1))
    turns["g0/analyst"] = [
        submit(idea(), wrong),
        correct(3, 1),
        correct(2, 2, quote="MAX_TURNS = 81"),
        correct(2, 2),
    ]
    models = with_team(bench, turns)
    assert len(proposed(bench)) == 2
    first, nowhere, again = models.heard("g0/analyst")
    assert "hypothesis 1" not in first and "hypothesis 2: line 2 of its evidence" in first
    agent = bench.repo.tree(bench.repo.head()).files[AGENT].decode().splitlines()
    assert f"\n9: {agent[8]}\n" in first and "All else is kept" in first
    assert "hypothesis 3 has 0 lines of evidence, not 1" in nowhere
    assert "MAX_TURNS = 81" in again


def test_a_correction_needs_something_to_correct(bench: Bench) -> None:
    turns = script(good())
    turns["g0/analyst"] = [correct(1, 1), submit(idea())]
    models = with_team(bench, turns)
    assert len(proposed(bench)) == 1
    assert "there is no quotation to correct" in models.heard("g0/analyst")[0]


def test_a_pair_of_which_one_masks_the_other_is_labelled(bench: Bench) -> None:
    turns = script(good(), good(1))
    turns["g0/analyst"] = [
        submit(idea(), idea(1, masked_by=2)),
        submit(idea(), idea(1, masked_by=1)),
    ]
    models = with_team(bench, turns)
    first, second = (candidate.hypothesis for candidate in proposed(bench))
    assert second.risks == (f"shows nothing without: {first.statement}",) and not first.risks
    assert "masked_by is 2, but must number another of the 2" in models.heard("g0/analyst")[0]


def test_an_analyst_that_finds_nothing_leaves_nothing_to_try(bench: Bench) -> None:
    with_team(bench, {"g0/analyst": ["Hard to say."] * 30})
    assert proposed(bench) == []
    (row,) = refused(bench)
    assert (row["statement"], row["code"]) == ("the analysis of the version", "looped")


def test_an_analyst_may_say_that_nothing_is_left(bench: Bench) -> None:
    reason = "all attempts but one are clean already"
    with_team(bench, {"g0/analyst": [[("nothing_to_try", {"reason": reason})]]})
    assert proposed(bench) == [] and refused(bench) == []
    (step,) = bench.run.ledger.steps(kind="proposal")
    assert step.outcome["nothing"] == reason
    assert summary(step.outcome) == f"nothing to try: {reason}"


def test_what_an_analyst_notes_reaches_the_next_one(bench: Bench) -> None:
    turns = script(good())
    turns["g0/analyst"] = [
        [("submit_hypotheses", {"hypotheses": [idea()], "noted": "the reward pays for length"})]
    ]
    with_team(bench, turns)
    proposed(bench)
    assert noted(bench.run) == [("g0", "the reward pays for length")]


def test_a_falling_metric_has_a_negative_prediction(bench: Bench) -> None:
    turns = script(good())
    turns["g0/analyst"] = [submit(idea(direction="down", expected_delta=0.2))]
    with_team(bench, turns)
    assert proposed(bench)[0].hypothesis.expected_delta == -0.2
