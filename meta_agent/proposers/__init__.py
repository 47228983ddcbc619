"""The meta-agent: who reads the evidence and proposes, and where candidates are made."""

from meta_agent.proposers._meta import (
    Brief,
    Draft,
    Grant,
    HostServices,
    MetaAgent,
    Refused,
    Rehearsal,
    Trial,
)
from meta_agent.proposers._past import Past
from meta_agent.proposers._rules_agent import RulesAgent
from meta_agent.proposers._transcript import transcript
from meta_agent.proposers._trials import small_edits
from meta_agent.proposers.evidence_files import Source, evidence_files, story
from meta_agent.proposers.rules._case import Situation
from meta_agent.proposers.rules._library import LIBRARY, VALUE, Lead, Metric, source_of
from meta_agent.proposers.rules.diagnostics import EXPLAIN_GAP
from meta_agent.proposers.rules_table import WORTH_TRYING, Proposal, Tried, propose
from meta_agent.proposers.team import LlmTeam
from meta_agent.proposers.workbench import Workbench

__all__ = [
    "EXPLAIN_GAP",
    "LIBRARY",
    "VALUE",
    "WORTH_TRYING",
    "Brief",
    "Draft",
    "Grant",
    "HostServices",
    "Lead",
    "LlmTeam",
    "MetaAgent",
    "Metric",
    "Past",
    "Proposal",
    "Refused",
    "Rehearsal",
    "RulesAgent",
    "Situation",
    "Source",
    "Trial",
    "Tried",
    "Workbench",
    "evidence_files",
    "propose",
    "small_edits",
    "source_of",
    "story",
    "transcript",
]
