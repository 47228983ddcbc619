"""The rules agent: deterministic diagnosis, the baseline that language models have to beat.

Promises: the same evidence, sources, history and skills give the same proposals; each carries one
factor (checked by path), one hypothesis and a real edit that still parses; what failed on this base
is not tried on it again, and what was INVALID is not tried again at all. What a skill says was
proven comes first wherever its rule finds something worth trying; what a skill warns of comes last;
and every proposal whose place a skill decided names that skill.

Does not cover: whether an idea is good; only measuring tells. It never reads what was planted in a
seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from meta_agent.core.errors import CandidateError
from meta_agent.core.proposals import Situation, Tried
from meta_agent.core.protocols import HarnessTree, Hypothesis, VerdictKind
from meta_agent.core.skills import Skill
from meta_agent.proposers.rules import ALL_RULES
from meta_agent.proposers.rules._case import Case, EvidenceView
from meta_agent.proposers.rules._rule import Diagnosis, Rule
from meta_agent.proposers.rules._source import parses

_POSITIVE, _NEGATIVE, _INCONCLUSIVE = 1.6, 0.25, 0.5
WORTH_TRYING = 0.1
"""Below this strength an idea is one that a clean harness may call for as well."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One candidate to be made: a hypothesis and the files that carry it out."""

    hypothesis: Hypothesis
    subject: str  # of the commit message
    edits: Mapping[str, str]  # path -> new text
    strength: float
    lift: float = 1.0  # of it, the factor that skills are behind

    @property
    def unaided(self) -> float:
        """Its strength had there been no skill."""
        return self.strength / self.lift

    @property
    def proven_before(self) -> bool:
        """Whether a skill speaks for what the evidence calls for anyway."""
        return self.lift > 1 and self.unaided >= WORTH_TRYING


def propose(
    evidence: EvidenceView,
    tree: HarnessTree,
    history: Sequence[Tried],
    skills: Sequence[Skill],
    *,
    repair: bool = False,
    situation: Situation | None = None,
) -> list[Proposal]:
    """All that the evidence calls for, best first. `repair`: only what restores validity."""
    case = Case(evidence, tree, situation or Situation())
    rules = [rule for rule in ALL_RULES if rule.repairs or not repair]
    found = _distinct([(r, f) for r in rules if (f := _diagnose(r, case)) is not None])
    open_ = [(r, f) for r, f in found if not _is_settled(r, tree.commit, history)]
    return sorted((_weighed(r, f, tree.commit, history, skills) for r, f in open_), key=place)


def place(one: Proposal) -> tuple[bool, float, str]:
    """Sorts: what was proven before, then by strength."""
    return not one.proven_before, -one.strength, one.hypothesis.rule


def best(found: Sequence[Proposal], skills: Sequence[Skill], k: int) -> list[Proposal]:
    """The first k worth trying; one that is there since another was warned of names the warning."""
    taken = [one for one in found if one.strength >= WORTH_TRYING][:k]
    plain = [one for one in found if one.unaided >= WORTH_TRYING]
    plain = sorted(plain, key=lambda one: (-one.unaided, one.hypothesis.rule))[:k]
    before, now = ({one.hypothesis.rule for one in some} for some in (plain, taken))
    warned = [s for s in skills if s.kind == "negative" and s.rule in before - now]
    return [
        one if one.hypothesis.skills or one.hypothesis.rule in before else _naming(one, warned)
        for one in taken
    ]


def _distinct(found: Sequence[tuple[Rule, Diagnosis]]) -> list[tuple[Rule, Diagnosis]]:
    """Of findings with the same edit the strongest, in the order they came."""
    best: dict[tuple[tuple[str, str], ...], Diagnosis] = {}
    for _, finding in found:
        edit = tuple(sorted(finding.edits.items()))
        if edit not in best or finding.strength > best[edit].strength:
            best[edit] = finding
    kept = {id(finding) for finding in best.values()}
    return [(rule, finding) for rule, finding in found if id(finding) in kept]


def _diagnose(rule: Rule, case: Case) -> Diagnosis | None:
    """The rule's finding, if its edit is real, stays in its factor, and leaves code that parses.

    Its strength is what it says beyond what it says of a clean harness of the same suite.
    """
    finding = rule.diagnose(case)
    if finding is None or not _is_real(finding.edits, case.tree):
        return None
    excess = finding.strength - case.reference.rules.get(rule.name, 0.0)
    if excess <= 0:
        return None
    finding = replace(finding, strength=excess)
    try:
        return finding if case.contract.factor_of(finding.edits) == rule.factor else None
    except CandidateError:
        return None


def _is_real(edits: Mapping[str, str], tree: HarnessTree) -> bool:
    changed = any(tree.files.get(path) != text.encode() for path, text in edits.items())
    return changed and all(parses(path, text) for path, text in edits.items())


def _is_settled(rule: Rule, base: str, history: Iterable[Tried]) -> bool:
    """Whether this idea is known not to work here. Ranked out is not known."""
    for tried in history:
        if tried.rule != rule.name or tried.screened_out:
            continue
        if tried.verdict is VerdictKind.INVALID:
            return True
        if tried.verdict is VerdictKind.REJECT and tried.base == base:
            return True
    return False


def _weighed(
    rule: Rule, finding: Diagnosis, base: str, history: Sequence[Tried], skills: Sequence[Skill]
) -> Proposal:
    repeated = sum(t.rule == rule.name and t.base == base for t in history)
    used = [skill for skill in skills if skill.rule == rule.name and skill.factor == rule.factor]
    lift = math.prod(_POSITIVE if skill.kind == "positive" else _NEGATIVE for skill in used)
    strength = finding.strength * _INCONCLUSIVE**repeated * lift
    told = finding.hypothesis(rule)
    return _naming(Proposal(told, finding.subject, finding.edits, strength, lift), used)


def _naming(one: Proposal, skills: Sequence[Skill]) -> Proposal:
    told = one.hypothesis
    learned = (f"skill {skill.name} ({skill.kind}): {skill.description}" for skill in skills)
    names = tuple(skill.name for skill in skills)
    return replace(one, hypothesis=replace(told, evidence=(*told.evidence, *learned), skills=names))
