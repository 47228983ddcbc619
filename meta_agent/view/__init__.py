"""What people see of a run: progress, summaries and the HTML report, all from one reducer.

`reduce(ledger, run)` gives the `RunState`; `open_display()` shows progress; `view/pages` and
`view/terminal` draw a state (imported where they are used: they need jinja2 and rich).
"""

from meta_agent.view._attribution import attribution_facts, attribution_note
from meta_agent.view._decisions import A_PERSON, Answer, DecisionView, Gate, Reply
from meta_agent.view._format import duration, visible, within_run
from meta_agent.view._note import claim_note, handover_note, verdict_note
from meta_agent.view._parts import (
    BlamedLine,
    CandidateView,
    EvidenceView,
    Measured,
    MetricPoint,
    RefusedView,
    SkillView,
    VersionView,
    effect_json,
)
from meta_agent.view._question import Question
from meta_agent.view._search import card_facts, handover_words
from meta_agent.view.state import (
    SCHEMA_VERSION,
    STEP_KINDS,
    RunState,
    decisions_on_commit,
    reduce,
)
from meta_agent.view.terminal.display import Display, open_display, recorded

__all__ = [
    "A_PERSON",
    "SCHEMA_VERSION",
    "STEP_KINDS",
    "Answer",
    "BlamedLine",
    "CandidateView",
    "DecisionView",
    "Display",
    "EvidenceView",
    "Gate",
    "Measured",
    "MetricPoint",
    "Question",
    "RefusedView",
    "Reply",
    "RunState",
    "SkillView",
    "VersionView",
    "attribution_facts",
    "attribution_note",
    "card_facts",
    "claim_note",
    "decisions_on_commit",
    "duration",
    "effect_json",
    "handover_note",
    "handover_words",
    "open_display",
    "recorded",
    "reduce",
    "verdict_note",
    "visible",
    "within_run",
]
