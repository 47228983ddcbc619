"""The analyst of the team: quotes that hold, corrections, notes, and finding nothing."""

from __future__ import annotations

from typing import Any

from meta_agent.core.evidence import Evidence
from meta_agent.core.loop.verbs._briefing import noted
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
        correct(1, 1),
        submit(idea(), wrong),
        correct(3, 1),
        correct(2, 2, quote="MAX_TURNS = 81"),
        correct(2, 2),
    ]
    models = with_team(bench, turns)
    assert len(proposed(bench)) == 2
    nothing, first, nowhere, again = models.heard("g0/analyst")
    assert nothing.startswith("ERROR: "), "there is nothing to correct"
    assert "hypothesis 1" not in first and "hypothesis 2: line 2" in first
    agent = bench.repo.tree(bench.repo.head()).files[AGENT].decode().splitlines()
    assert f"\n9: {agent[8]}\n" in first
    assert "hypothesis 3" in nowhere and "MAX_TURNS = 81" in again


def test_a_pair_of_which_one_masks_the_other_is_labelled(bench: Bench) -> None:
    turns = script(good(), good(1))
    falling = idea(direction="down", expected_delta=0.2)
    submitted = {"hypotheses": [falling, idea(1, masked_by=1)], "noted": "the reward pays length"}
    turns["g0/analyst"] = [
        submit(falling, idea(1, masked_by=2)),
        [("submit_hypotheses", submitted)],
    ]
    models = with_team(bench, turns)
    first, second = (candidate.hypothesis for candidate in proposed(bench))
    assert len(second.risks) == 1 and first.statement in second.risks[0] and not first.risks
    assert "masked_by is 2" in models.heard("g0/analyst")[0]
    assert first.expected_delta == -0.2, "a falling metric has a negative prediction"
    assert noted(bench.run) == [("g0", "the reward pays length")], "for the next analyst"


def test_an_analyst_that_finds_nothing_leaves_nothing_to_try(bench: Bench) -> None:
    with_team(bench, {"g0/analyst": ["Hard to say."] * 30})
    assert proposed(bench) == []
    (row,) = refused(bench)
    assert row["code"] == "no_tool_calls"


def test_an_analyst_may_say_that_nothing_is_left(bench: Bench) -> None:
    reason = "all attempts but one are clean already"
    with_team(bench, {"g0/analyst": [[("nothing_to_try", {"reason": reason})]]})
    assert proposed(bench) == [] and refused(bench) == []
    (step,) = bench.run.ledger.steps(kind="proposal")
    assert step.outcome["nothing"] == reason
