"""The meta-agent: who reads the evidence and proposes, and where candidates are made."""

from meta_agent.proposers._rules_agent import RulesAgent
from meta_agent.proposers._transcript import transcript
from meta_agent.proposers._trials import small_edits
from meta_agent.proposers.evidence_files import evidence_files, story
from meta_agent.proposers.rules_table import WORTH_TRYING, Proposal, propose
from meta_agent.proposers.team import LlmTeam
from meta_agent.proposers.workbench import Workbench

__all__ = [
    "WORTH_TRYING",
    "LlmTeam",
    "Proposal",
    "RulesAgent",
    "Workbench",
    "evidence_files",
    "propose",
    "small_edits",
    "story",
    "transcript",
]
