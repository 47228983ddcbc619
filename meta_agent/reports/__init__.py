"""What people see of a run: progress, summaries and the HTML report, all from one reducer.

`reduce(ledger, run)` returns the `RunState`; `open_display()` shows progress. `run_sections` and
its neighbours make sections of a state: `terminal.paint` prints them, `pages.html` makes a page.
"""

from meta_agent.core.display import Display
from meta_agent.reports._facts import card_facts, handover_words
from meta_agent.reports._format import duration, visible, within_run
from meta_agent.reports._note import attribution_note, claim_note, handover_note, verdict_note
from meta_agent.reports._parts import CandidateView, Measured, MetricPoint
from meta_agent.reports._sentences import wait_note, wait_words
from meta_agent.reports.reducer import STEP_KINDS, decisions_on_commit, reduce
from meta_agent.reports.state import RunState
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
