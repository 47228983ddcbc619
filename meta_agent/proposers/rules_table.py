"""Ranks the proposals of the rules. It is the baseline that language models have to beat.

Promises: the same evidence, sources, history and skills give the same proposals. Each proposal
carries one factor (checked by path), one hypothesis and a real edit that still parses. An edit that
failed on this base is not tried on it again, and one that was INVALID is never tried again. If a
rule finds something worth trying, a skill that proved it puts it first, and a skill that warns of
it puts it last. Every proposal whose place a skill decided names that skill.

Does not cover: whether an idea is good, which only measuring tells. It never reads which faults
were planted in a built-in harness.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from meta_agent.core.errors import CandidateError
from meta_agent.core.evidence import Evidence
from meta_agent.core.proposals import Situation, TriedIdea
from meta_agent.core.protocols import HarnessTree, Hypothesis, VerdictKind
from meta_agent.core.skills import Skill
from meta_agent.proposers.rules import ALL_RULES
from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, Rule
from meta_agent.proposers.rules._source import parses

_POSITIVE, _NEGATIVE, _INCONCLUSIVE = 1.6, 0.25, 0.5
WORTH_TRYING = 0.1
"""Evidence of a clean harness may suggest ideas below this strength as well."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A possible candidate: its hypothesis, and the new texts of the files that it changes."""

    hypothesis: Hypothesis
    subject: str  # of the commit message
    edits: Mapping[str, str]  # path -> new text
    strength: float
    lift: float = 1.0  # the factor in the strength that skills gave

    @property
    def unaided(self) -> float:
        """Returns the strength that the proposal would have without skills (past lessons)."""
        return self.strength / self.lift

    @property
    def proven_before(self) -> bool:
        """Returns True if a skill (past lesson) supports an idea worth trying without it."""
        return self.lift > 1 and self.unaided >= WORTH_TRYING


def propose(
    evidence: Evidence,
    tree: HarnessTree,
    history: Sequence[TriedIdea],
    skills: Sequence[Skill],
    *,
    repair: bool = False,
    situation: Situation | None = None,
) -> list[Proposal]:
    """Returns the edits that the rules suggest for a version's evidence, best first.

    `skills` (past lessons) change the order. With `repair`, only rules that restore a valid score
    are asked. Ideas are left out that `history` has as INVALID, or as rejected on `tree.commit`.
    """
    case = Case(evidence, tree, situation or Situation())
    rules = [rule for rule in ALL_RULES if rule.repairs or not repair]
    pairs = _distinct([(rule, d) for rule in rules if (d := _diagnose(rule, case)) is not None])
    unsettled = [(r, d) for r, d in pairs if not _is_settled(r, tree.commit, history)]
    return sorted((_weighed(r, d, tree.commit, history, skills) for r, d in unsettled), key=place)


def place(proposal: Proposal) -> tuple[bool, float, str]:
    """Returns a sort key: first proposals that a past lesson supports, then by falling strength."""
    return not proposal.proven_before, -proposal.strength, proposal.hypothesis.rule


def best(proposals: Sequence[Proposal], skills: Sequence[Skill], k: int) -> list[Proposal]:
    """Returns the first `k` proposals that are strong enough to try.

    A proposal that moved up because a skill (past lesson) warns of a better one cites the skill.
    """
    first = [proposal for proposal in proposals if proposal.strength >= WORTH_TRYING][:k]
    unaided = [proposal for proposal in proposals if proposal.unaided >= WORTH_TRYING]
    unaided = sorted(unaided, key=lambda p: (-p.unaided, p.hypothesis.rule))[:k]
    before, now = ({proposal.hypothesis.rule for proposal in some} for some in (unaided, first))
    warnings = [s for s in skills if s.kind == "negative" and s.rule in before - now]
    return [
        p if p.hypothesis.skills or p.hypothesis.rule in before else _naming(p, warnings)
        for p in first
    ]


def _distinct(pairs: Sequence[tuple[Rule, Diagnosis]]) -> list[tuple[Rule, Diagnosis]]:
    """Returns, of diagnoses with the same edit, only the strongest; keeps the order."""
    strongest: dict[tuple[tuple[str, str], ...], Diagnosis] = {}
    for _, diagnosis in pairs:
        edit = tuple(sorted(diagnosis.edits.items()))
        if edit not in strongest or diagnosis.strength > strongest[edit].strength:
            strongest[edit] = diagnosis
    chosen = {id(diagnosis) for diagnosis in strongest.values()}
    return [(rule, diagnosis) for rule, diagnosis in pairs if id(diagnosis) in chosen]


def _diagnose(rule: Rule, case: Case) -> Diagnosis | None:
    """Returns the rule's diagnosis if its edit is real, of its factor, and leaves code that parses.

    Its strength is what the rule says beyond what it says of a clean harness of the same suite.
    """
    diagnosis = rule.diagnose(case)
    if diagnosis is None or not _is_real(diagnosis.edits, case.tree):
        return None
    excess = diagnosis.strength - case.reference.rules.get(rule.name, 0.0)
    if excess <= 0:
        return None
    try:
        fits = case.contract.factor_of(diagnosis.edits) == rule.factor
    except CandidateError:
        return None
    return replace(diagnosis, strength=excess) if fits else None


def _is_real(edits: Mapping[str, str], tree: HarnessTree) -> bool:
    changed = any(tree.files.get(path) != text.encode() for path, text in edits.items())
    return changed and all(parses(path, text) for path, text in edits.items())


def _is_settled(rule: Rule, base: str, history: Iterable[TriedIdea]) -> bool:
    """Returns True if the idea was tested and INVALID, or tested and rejected on this base."""
    return any(
        tried.verdict is VerdictKind.INVALID
        or (tried.verdict is VerdictKind.REJECT and tried.base == base)
        for tried in history
        if tried.rule == rule.name and not tried.screened_out
    )


def _weighed(
    rule: Rule,
    diagnosis: Diagnosis,
    base: str,
    history: Sequence[TriedIdea],
    skills: Sequence[Skill],
) -> Proposal:
    repeated = sum(t.rule == rule.name and t.base == base for t in history)
    fitting = [s for s in skills if s.rule == rule.name and s.factor == rule.factor]
    lift = math.prod(_POSITIVE if skill.kind == "positive" else _NEGATIVE for skill in fitting)
    strength = diagnosis.strength * _INCONCLUSIVE**repeated * lift
    hypothesis, subject = diagnosis.hypothesis(rule), diagnosis.change[:72]
    return _naming(Proposal(hypothesis, subject, diagnosis.edits, strength, lift), fitting)


def _naming(proposal: Proposal, skills: Sequence[Skill]) -> Proposal:
    """Returns the proposal with the skills that decided its place."""
    hypothesis = proposal.hypothesis
    lines = (f"skill {skill.name} ({skill.kind}): {skill.description}" for skill in skills)
    names = tuple(skill.name for skill in skills)
    evidence = (*hypothesis.evidence, *lines)
    return replace(proposal, hypothesis=replace(hypothesis, evidence=evidence, skills=names))
