"""The rules agent as a `Proposer`: its proposals become commits, each in a sandbox of its own."""

from __future__ import annotations

from collections.abc import Callable

from meta_agent.core.evidence import Evidence
from meta_agent.core.proposals import RULES, Brief, Draft, Proposed, Proposer
from meta_agent.proposers.rules_table import Proposal, best, place, propose
from meta_agent.proposers.workbench import drafted


class RulesAgent(Proposer):
    """Proposes edits of the harness by fixed rules, without a language model and at no cost."""

    def __init__(self, rules: Callable[..., list[Proposal]] = propose) -> None:
        self._rules = rules

    author = RULES

    def propose(self, brief: Brief) -> Proposed:
        proposals = self._proposals(brief)
        return Proposed(
            [_draft(brief, index, proposal) for index, proposal in enumerate(proposals)],
            nothing="" if proposals else "no rule has an idea left for this version",
        )

    def _proposals(self, brief: Brief) -> list[Proposal]:
        """Returns at most k proposals, and one diagnostic more, which costs no training.

        A rule speaks by the stronger of the two readings, before training and after it. The first
        repair of an INVALID version comes first, whatever its strength.
        """
        readings = [brief.evidence, *([brief.untrained] if brief.untrained else [])]
        strongest: dict[str, Proposal] = {}
        for evidence in readings:
            for proposal in self._suggested(brief, evidence):
                rival = strongest.setdefault(proposal.hypothesis.rule, proposal)
                if proposal.strength > rival.strength:
                    strongest[proposal.hypothesis.rule] = proposal
        repairs = self._suggested(brief, brief.evidence, repair=True) if brief.invalid else []
        first = repairs[0].hypothesis.rule if repairs else None

        ideas = [p for p in strongest.values() if p.hypothesis.factor in brief.factors]
        ideas.sort(key=place)
        ideas.sort(key=lambda proposal: proposal.hypothesis.rule != first)
        watching = [idea for idea in ideas if idea.hypothesis.factor == "diagnostics"]
        acting = [idea for idea in ideas if idea not in watching]
        return [*best(acting, brief.skills, brief.k), *best(watching, brief.skills, 1)]

    def _suggested(
        self, brief: Brief, evidence: Evidence, *, repair: bool = False
    ) -> list[Proposal]:
        return self._rules(
            evidence,
            brief.tree,
            brief.tried,
            brief.skills,
            repair=repair,
            situation=brief.situation,
        )


def _draft(brief: Brief, index: int, proposal: Proposal) -> Draft:
    return drafted(brief.host, index, proposal.hypothesis, proposal.subject, proposal.edits)
