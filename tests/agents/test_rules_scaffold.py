"""Rules about scaffolds: limits, and tools on offer."""

from __future__ import annotations

from meta_agent.core.proposals import Situation
from meta_agent.proposers import propose
from tests.agents._rules import CEILINGS, LEAKING, evidence, find, tree


def test_attempts_cut_off_get_more_turns_up_to_the_ceiling() -> None:
    found = evidence(**{"behaviour__stop.returned": 0.3})
    proposal = find("more-turns", found, tree(), Situation(CEILINGS))
    assert proposal is not None
    assert "MAX_TURNS = 12\n" in proposal.edits["swe/agent.py"]
    assert (
        find(
            "more-turns",
            found,
            tree({"swe/agent.py": ("MAX_TURNS = 8", "MAX_TURNS = 12")}),
            Situation(CEILINGS),
        )
        is None
    )


def test_a_limit_that_taught_attempts_to_hand_in_early_is_doubled() -> None:
    """After training under a tight limit hardly any attempt hits it."""
    tight = tree({"swe/agent.py": ("MAX_TURNS = 8", "MAX_TURNS = 5")})
    gives_up = evidence(**{"behaviour__stop.returned": 0.01, "behaviour__retry_after_fail": 0.2})
    tries_again = evidence(behaviour__retry_after_fail=0.9)
    proposal = find("more-turns", gives_up, tight, Situation(CEILINGS))
    assert proposal is not None
    assert "MAX_TURNS = 10\n" in proposal.edits["swe/agent.py"]
    assert find("more-turns", tries_again, tight, Situation(CEILINGS)) is None
    assert find("more-turns", evidence(), tight, Situation(CEILINGS)) is None
    assert find("more-turns", gives_up, tight) is None, "no ceiling, no measure of what is tight"


def test_cut_replies_get_more_tokens() -> None:
    proposal = find(
        "longer-replies", evidence(measured__cut_reply_share=0.2), tree(), Situation(CEILINGS)
    )
    assert proposal is not None
    assert "MAX_TOKENS = 8 " in proposal.edits["swe/agent.py"]


def test_a_leaking_tool_is_no_longer_offered() -> None:
    found = evidence(**{"behaviour__flag.leak:log": 0.4, "behaviour__flagged": 0.4})
    proposals = propose(found, tree(LEAKING), (), (), repair=True)[:2]
    assert [p.hypothesis.rule for p in proposals] == ["drop-leaking-tool", "punish-leak"]
    assert 'TOOLS = "vets"' in proposals[0].edits["swe/agent.py"]
