"""The rules agent as a whole: its ranking, its memory, its skills."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from meta_agent.core.harness import parse_contract
from meta_agent.core.proposals import TriedIdea
from meta_agent.core.protocols import HarnessTree, VerdictKind
from meta_agent.core.skills import Skill
from meta_agent.proposers import propose
from meta_agent.proposers.rules_table import best
from tests.agents._rules import BUSY, LEAKING, evidence, names, tree


def skill(rule: str, factor: str, kind: str) -> Skill:
    metadata = {
        "meta-agent.rule": rule,
        "meta-agent.factor": factor,
        "meta-agent.kind": kind,
        "meta-agent.domain": "swe",
    }
    return Skill(f"swe-{rule}", "seen before", "body", Path("x"), metadata)


def test_every_proposal_is_one_real_factor_edit_with_a_prediction() -> None:
    proposals = propose(evidence(**BUSY), tree(), (), ())
    assert propose(evidence(**BUSY), tree(), (), ()) == proposals
    assert len(set(names(proposals))) == len(proposals) >= 5
    for proposal in proposals:
        assert parse_contract(tree()).factor_of(proposal.edits) == proposal.hypothesis.factor
        assert proposal.hypothesis.statement.startswith("if ")
        assert (
            proposal.hypothesis.expected_delta
            * (1 if proposal.hypothesis.direction == "up" else -1)
            > 0
        )
        assert proposal.hypothesis.evidence
        for path, text in proposal.edits.items():
            if path.endswith(".py"):
                ast.parse(text)


def test_the_bottleneck_comes_first() -> None:
    still = {"signal__train.entropy.first": 0.3, "signal__train.entropy.change": 0.0}
    proposals = propose(evidence(**BUSY, **still), tree(), (), ())[:3]
    assert names(proposals)[0] == "more-turns"


@pytest.mark.parametrize(
    ("verdict", "base", "again"),
    [
        (VerdictKind.REJECT, "a" * 40, False),
        (VerdictKind.REJECT, "b" * 40, True),
        (VerdictKind.INVALID, "a" * 40, False),
        (VerdictKind.INVALID, "b" * 40, False),
        (VerdictKind.INCONCLUSIVE, "a" * 40, True),
    ],
)
def test_what_failed_is_remembered(verdict: VerdictKind, base: str, again: bool) -> None:
    proposals = propose(evidence(**BUSY), tree(), [TriedIdea("more-turns", base, verdict)], ())
    assert ("more-turns" in names(proposals)) is again


def test_a_positive_skill_raises_its_rule_and_is_named() -> None:
    learned = skill("larger-groups", "recipe", "positive")
    proposals = propose(evidence(**BUSY), tree(), (), [learned])
    chosen = next(p for p in proposals if p.hypothesis.rule == "larger-groups")
    assert chosen.hypothesis.skills == (learned.name,)
    assert any(learned.name in line for line in chosen.hypothesis.evidence)
    assert "larger-groups" not in names(propose(evidence(**BUSY), tree(), (), ()))[:1]


def test_what_was_proven_before_comes_first_where_it_shows() -> None:
    strongest, *_, weakest = (
        p for p in propose(evidence(**BUSY), tree(), (), ()) if p.strength > 0.1
    )
    told = weakest.hypothesis
    learned = skill(told.rule, told.factor, "positive")
    assert weakest.strength * 1.6 < strongest.strength
    assert names(propose(evidence(**BUSY), tree(), (), [learned]))[0] == told.rule


def test_a_negative_skill_lowers_its_rule_and_whoever_takes_the_place_names_it() -> None:
    learned = skill("informative-tasks-first", "data", "negative")
    before = names(propose(evidence(**BUSY), tree(), (), ()))[:2]
    proposals = best(propose(evidence(**BUSY), tree(), (), [learned]), [learned], 2)
    assert learned.rule in before
    assert learned.rule not in names(proposals)
    newcomer = next(p for p in proposals if p.hypothesis.rule not in before)
    assert newcomer.hypothesis.skills == (learned.name,)


def test_a_repair_restores_validity_and_nothing_else() -> None:
    found = evidence(**BUSY, **{"behaviour__flag.leak:log": 0.4, "behaviour__flagged": 0.4})
    assert set(names(propose(found, tree(LEAKING), (), (), repair=True))) <= {
        "drop-leaking-tool",
        "punish-leak",
        "drop-hackable-bonus",
    }


def test_a_harness_without_the_usual_constants_is_no_error() -> None:
    files = {
        "harness.toml": b'[harness]\nname = "x"\ncommand = ["x"]\neditable = ["**"]\n'
        b'[factors]\nscaffold = ["a.py"]\nreward = ["r.py"]\nfilter = ["f.py"]\n'
        b'data = ["d.py"]\nrecipe = ["r.toml"]\n',
        "a.py": b"def broken(:\n",
        "r.py": b"WEIGHTS = make()\n",
        "f.py": b"keep = lambda groups: groups\n",
        "d.py": b"",
        "r.toml": b"not toml",
    }
    leaks = {"behaviour__flag.leak:log": 0.5, "behaviour__flagged": 0.5}
    assert propose(evidence(**BUSY, **leaks), HarnessTree("a" * 40, "t", files), (), ()) == []
