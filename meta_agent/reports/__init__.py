"""What people see of a run: progress, summaries and the HTML report, all from one reducer.

`reduce(ledger, run)` gives the `RunState`; `open_display()` shows progress; `view/pages` and
`view/terminal` draw a state (imported where they are used: they need jinja2 and rich).
"""

from meta_agent.core.display import Display
from meta_agent.reports._facts import card_facts, handover_words
from meta_agent.reports._format import duration, visible, within_run
from meta_agent.reports._note import attribution_note, claim_note, handover_note, verdict_note
from meta_agent.reports._parts import CandidateView, Measured, MetricPoint
from meta_agent.reports._sentences import wait_note, wait_words
from meta_agent.reports.state import STEP_KINDS, RunState, decisions_on_commit, reduce
from meta_agent.reports.terminal.display import open_display, recorded

__all__ = [
    "STEP_KINDS",
    "CandidateView",
    "Display",
    "Measured",
    "MetricPoint",
    "RunState",
    "attribution_note",
    "card_facts",
    "claim_note",
    "decisions_on_commit",
    "duration",
    "handover_note",
    "handover_words",
    "open_display",
    "recorded",
    "reduce",
    "verdict_note",
    "visible",
    "wait_note",
    "wait_words",
    "within_run",
]
