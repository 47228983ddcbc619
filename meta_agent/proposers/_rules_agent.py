"""The rules agent as a `MetaAgent`: proposals become commits, each in a sandbox of its own."""

from __future__ import annotations

from collections.abc import Callable

from meta_agent.core.errors import CandidateError
from meta_agent.core.evidence import Evidence
from meta_agent.core.lab.fair import fairly
from meta_agent.core.proposals import Brief, Draft, Proposed, Refused
from meta_agent.proposers._trials import small_edits
from meta_agent.proposers.rules_table import Proposal, best, place, propose
from meta_agent.proposers.workbench import open_workbench


class RulesAgent:
    """Deterministic, free, and the baseline that language models have to beat."""

    def __init__(self, ask: Callable[..., list[Proposal]] = propose) -> None:
        self._ask = ask

    def propose(self, brief: Brief) -> Proposed:
        proposals = self._proposals(brief)
        return Proposed(
            [_draft(brief, *numbered) for numbered in enumerate(proposals)],
            nothing="" if proposals else "no rule has an idea left for this version",
        )

    def _proposals(self, brief: Brief) -> list[Proposal]:
        """K proposals, strongest first: what is seen before training and after it, by rule.

        An INVALID version gets its repair first.
        """
        readings = [brief.evidence, *([brief.untrained] if brief.untrained else [])]
        found: dict[str, Proposal] = {}
        for evidence in readings:
            for one in self._asked(brief, evidence):
                known = found.get(one.hypothesis.rule)
                if known is None or one.strength > known.strength:
                    found[one.hypothesis.rule] = one
        repairs = [one.hypothesis.rule for one in self._asked(brief, brief.evidence, repair=True)]
        first = repairs[:1] if brief.invalid else []

        ideas = (*found.values(), *_small_edits(brief))
        kept = sorted((o for o in ideas if o.hypothesis.factor in brief.factors), key=place)
        kept.sort(key=lambda one: one.hypothesis.rule not in first)
        return best(kept, brief.skills, brief.k)

    def _asked(self, brief: Brief, evidence: Evidence, *, repair: bool = False) -> list[Proposal]:
        return self._ask(
            evidence,
            brief.tree,
            brief.tried,
            brief.skills,
            repair=repair,
            situation=brief.situation,
        )


def _small_edits(brief: Brief) -> list[Proposal]:
    """Where a policy is trained: a race screens every edit of a frozen one by rollouts anyway."""
    if brief.untrained is None or "scaffold" not in brief.factors:
        return []
    lent = brief.host.lend("small edits", 1)
    return small_edits(brief.tree, brief.host.sample, lent.attempts, brief.tried)


def _draft(brief: Brief, index: int, proposal: Proposal) -> Draft | Refused:
    hypothesis = proposal.hypothesis
    message = brief.host.message(index, hypothesis, proposal.subject)
    try:
        tip, pack = fairly(lambda: _committed(brief, index, proposal, message))
    except CandidateError as error:
        return Refused(index, hypothesis.statement, str(error), error.reason)
    return Draft(index, hypothesis, proposal.subject, message, tip, pack)


def _committed(brief: Brief, index: int, proposal: Proposal, message: str) -> tuple[str, bytes]:
    """Applies the edit and commits it with the sandbox's own git; returns the tip and a pack."""
    with open_workbench(brief.host, index, {}) as bench:
        for path, text in proposal.edits.items():
            bench.write(path, text)
        tip = bench.commit(message)
        return tip, bench.hand_back()
