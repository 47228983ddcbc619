"""What one workspace learned, another one uses: verdict, skill, proposal."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_agent.core.history import HarnessRepo
from meta_agent.core.protocols import Candidate, Effect, Verdict, VerdictKind
from meta_agent.proposers import Proposal, propose
from meta_agent.skills import SkillLibrary, distil

from ._rules import BUSY, evidence, names, tree

VERDICTS = [
    Verdict(VerdictKind.PROMOTE, ("better",), Effect(0.1, 0.04, 0.16, 512, 4)),
    Verdict(VerdictKind.INVALID, ("the branch wins by a leak",)),
    Verdict(VerdictKind.REJECT, ("worse",), Effect(-0.1, -0.16, -0.04, 512, 4)),
]


def judged(proposal: Proposal, repo: HarnessRepo) -> Candidate:
    told = proposal.hypothesis
    return Candidate(
        id="r1/g0/c0",
        run="r1",
        generation=0,
        index=0,
        ref="refs/heads/candidate/r1/g0c0",
        base=repo.head(),
        commit=repo.head(),
        tree_hash="t" * 40,
        factor=told.factor,
        hypothesis=told,
        paths=tuple(proposal.edits),
    )


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda v: str(v.kind))
def test_a_second_workspace_names_what_the_first_learned(verdict: Verdict, tmp_path: Path) -> None:
    library = SkillLibrary(tmp_path / "shared")
    repo = HarnessRepo.create(tmp_path / "one", tree().files, "feat: seed\n")
    first = propose(evidence(**BUSY), tree(), (), library.all())
    draft = distil(judged(first[0], repo), verdict, "", evidence().to_json(), domain="swe")
    assert draft is not None
    skill = library.write(draft)

    second = propose(evidence(**BUSY), tree(), (), SkillLibrary(library.path).all())
    assert any(skill.name in proposal.hypothesis.skills for proposal in second)
    if skill.kind == "negative":
        assert names(second)[0] != names(first)[0]
