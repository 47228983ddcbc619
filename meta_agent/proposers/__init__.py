"""The meta-agent: the authors that read the evidence and propose edits, and where they make
them.
"""

from meta_agent.proposers._rules_agent import RulesAgent
from meta_agent.proposers._transcript import transcript
from meta_agent.proposers.agent import CodingAgent
from meta_agent.proposers.agent_cli import PREFIX as AGENT
from meta_agent.proposers.agent_cli import agent_cli, require_agent
from meta_agent.proposers.evidence_files import evidence_files, story
from meta_agent.proposers.rules_table import WORTH_TRYING, Proposal, propose
from meta_agent.proposers.team import LlmTeam
from meta_agent.proposers.workbench import Workbench

__all__ = [
    "AGENT",
    "WORTH_TRYING",
    "CodingAgent",
    "LlmTeam",
    "Proposal",
    "RulesAgent",
    "Workbench",
    "agent_cli",
    "evidence_files",
    "propose",
    "require_agent",
    "story",
    "transcript",
]
