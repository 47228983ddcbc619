"""The meta-agent: who reads the evidence and proposes, and the desk where candidates are made."""

from meta_agent.agents._rules import Situation
from meta_agent.agents.rules import Proposal, Stuck, Tried, propose, rules_for_factor
from meta_agent.agents.workbench import Workbench

__all__ = ["Proposal", "Situation", "Stuck", "Tried", "Workbench", "propose", "rules_for_factor"]
