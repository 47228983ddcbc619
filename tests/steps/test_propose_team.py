"""The LLM team's drafts: admitted where they are good, stopped with a typed reason where not."""

from __future__ import annotations

from tests.steps._bench import Bench
from tests.steps._team import AGENT, good, proposed, refused, script, with_team


def test_a_good_draft_is_admitted_and_is_the_edit(bench: Bench) -> None:
    models = with_team(bench, script(good()))
    (candidate,) = proposed(bench)
    assert candidate.factor == "scaffold"
    assert candidate.paths == (AGENT,)
    text = bench.repo.tree(candidate.commit).files[AGENT].decode()
    assert text == bench.text(AGENT).replace("MAX_TURNS = 8", "MAX_TURNS = 9")
    assert refused(bench) == []
