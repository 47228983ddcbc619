"""The rules agent: deterministic diagnosis, the baseline that language models have to beat.

Promises: the same evidence, sources, history and skills give the same proposals; each carries one
factor (checked by path), one hypothesis and a real edit that still parses; what failed on this base
is not tried on it again, and what was INVALID is not tried again at all. A skill
moves a rule up or down, and every proposal whose place a skill decided names that skill.

Does not cover: whether an idea is good; only measuring tells. It never reads what was planted in a
seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from meta_agent.agents._rules import (
    ALL_RULES,
    Case,
    Diagnosis,
    EvidenceView,
    Rule,
    Situation,
    parses,
)
from meta_agent.errors import CandidateError
from meta_agent.protocols import Factor, HarnessTree, Hypothesis, VerdictKind
from meta_agent.skills import Skill

_POSITIVE, _NEGATIVE, _INCONCLUSIVE, _SAME_FACTOR = 1.6, 0.25, 0.5, 0.75
WORTH_TRYING = 0.1
"""Below this strength an idea is one that a clean harness may call for as well."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One earlier hypothesis and what came of it, as the ledger knows it."""

    rule: str
    base: str
    verdict: VerdictKind
    screened_out: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """One candidate to be made: a hypothesis and the files that carry it out."""

    hypothesis: Hypothesis
    subject: str  # of the commit message
    edits: Mapping[str, str]  # path -> new text
    strength: float


@dataclass(frozen=True, slots=True)
class _Ranked:
    rule: Rule
    finding: Diagnosis
    strength: float
    skills: tuple[Skill, ...]


def propose(
    evidence: EvidenceView,
    tree: HarnessTree,
    history: Sequence[Tried],
    skills: Sequence[Skill],
    k: int,
    *,
    repair: bool = False,
    situation: Situation | None = None,
) -> list[Proposal]:
    """At most `k` proposals, best first. `repair`: only ideas that restore validity."""
    case = Case(evidence, tree, situation or Situation())
    rules = [rule for rule in ALL_RULES if rule.repairs or not repair]
    found = _distinct([(r, f) for r in rules if (f := _diagnose(r, case)) is not None])
    open_ = [(r, f) for r, f in found if not _is_settled(r, tree.commit, history)]
    plain = _pick([_weighed(r, f, tree.commit, history, ()) for r, f in open_], k)
    ranked = _pick([_weighed(r, f, tree.commit, history, skills) for r, f in open_], k)
    return [_proposal(choice, _decisive(choice, plain, skills)) for choice in ranked]


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
) -> _Ranked:
    strength = finding.strength
    repeated = sum(t.rule == rule.name and t.base == base for t in history)
    strength *= _INCONCLUSIVE**repeated
    used = tuple(
        skill for skill in skills if skill.rule == rule.name and skill.factor == rule.factor
    )
    for skill in used:
        strength *= _POSITIVE if skill.kind == "positive" else _NEGATIVE
    return _Ranked(rule, finding, strength, used)


def _pick(choices: Sequence[_Ranked], k: int) -> list[_Ranked]:
    """Greedily, with a discount for each pick of the same factor, so that arms differ."""
    rest, picked = list(choices), list[_Ranked]()
    while rest and len(picked) < k:
        taken = [choice.rule.factor for choice in picked]

        def place(choice: _Ranked, taken: list[Factor] = taken) -> tuple[float, str]:
            discount = _SAME_FACTOR ** taken.count(choice.rule.factor)
            return -choice.strength * discount, choice.rule.name

        best = min(rest, key=place)
        rest.remove(best)
        picked.append(best)
    return picked


def _decisive(
    choice: _Ranked, plain: Sequence[_Ranked], skills: Sequence[Skill]
) -> tuple[Skill, ...]:
    """The skills that decided this place: its own, else those that kept a stronger idea out."""
    if choice.skills or any(choice.rule is other.rule for other in plain):
        return choice.skills
    displaced = {other.rule.name for other in plain}
    return tuple(s for s in skills if s.kind == "negative" and s.rule in displaced)


def _proposal(choice: _Ranked, skills: tuple[Skill, ...]) -> Proposal:
    hypothesis = choice.finding.hypothesis(choice.rule)
    learned = tuple(f"skill {skill.name} ({skill.kind}): {skill.description}" for skill in skills)
    hypothesis = replace(
        hypothesis,
        evidence=(*hypothesis.evidence, *learned),
        skills=tuple(skill.name for skill in skills),
    )
    return Proposal(hypothesis, choice.finding.subject, choice.finding.edits, choice.strength)
