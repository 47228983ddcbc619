"""Rules against faults that none was written for, and against clean harnesses: real rollouts.

What is planted alters the harness alone, so an untrained policy shows it, or the filter and the
curriculum do when they are asked. An idea repairs a fault if the harness with its edit reads like a
clean one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import reference

from meta_agent.domains.nano.sources import SUITES, sources
from meta_agent.policies.training import PolicyChild
from meta_agent.proposers import WORTH_TRYING
from meta_agent.readers.evidence import reference_of
from tests.agents._novel_faults import NOVEL, Novel

pytestmark = [pytest.mark.slow, pytest.mark.train]
FRESH = 71  # no seed of the stored reference
FIRST = 3  # training steps whose groups are read with the base policy's attempts
MOST = 6  # ideas that a generation takes


@pytest.fixture(scope="module")
def child() -> Iterator[PolicyChild]:
    with PolicyChild(threads=1) as child:
        yield child


@pytest.mark.parametrize("suite", SUITES)
def test_a_clean_harness_gets_no_idea_worth_trying(suite: str, child: PolicyChild) -> None:
    evidence = reference.read_untrained(suite, FRESH, FIRST, child=child)
    assert reference_of(evidence.domain, trained=False).is_measured
    strong = [p for p in reference.ideas(suite, evidence) if p.strength > WORTH_TRYING]
    assert [(p.hypothesis.rule, p.strength) for p in strong] == []


@pytest.mark.parametrize("novel", NOVEL, ids=[f"{n.suite}-{n.fault.name}" for n in NOVEL])
def test_a_fault_that_no_rule_names_is_undone(novel: Novel, child: PolicyChild) -> None:
    files = dict(novel.fault.apply(sources(novel.suite, "competent")))
    evidence = reference.read_untrained(novel.suite, FRESH, FIRST, files, child=child)
    found = [p for p in reference.ideas(novel.suite, evidence, files) if p.strength > WORTH_TRYING]
    first = next(p for p in found[:MOST] if p.hypothesis.factor == novel.fault.factor)
    files |= {path: text.encode() for path, text in first.edits.items()}
    again = reference.read_untrained(novel.suite, FRESH, FIRST, files, child=child)
    left = [p for p in reference.ideas(novel.suite, again, files) if p.strength > WORTH_TRYING]
    assert [(p.hypothesis.rule, p.strength) for p in left] == []
