"""Evidence: metrics of rollouts in layers (score, signal, behaviour, version), with alerts.

`build_evidence` computes the metrics. `exemplars` shows whole attempts per failure mode. `gap`
reports a change of the score that no other metric explains. `render_text` returns the health
report.
"""

from meta_agent.readers.evidence._metrics import Metric, metric_of
from meta_agent.readers.evidence._roles import ROLE_WORDS, passed_tests, role_of
from meta_agent.readers.evidence.build import build_evidence
from meta_agent.readers.evidence.conversation import ModelCall, exchanges, fates
from meta_agent.readers.evidence.exemplars import exemplars, failure_mode, summarize
from meta_agent.readers.evidence.gap import gap
from meta_agent.readers.evidence.health import render_text
from meta_agent.readers.evidence.probe import probe
from meta_agent.readers.evidence.reference import reference_of

__all__ = [
    "ROLE_WORDS",
    "Metric",
    "ModelCall",
    "build_evidence",
    "exchanges",
    "exemplars",
    "failure_mode",
    "fates",
    "gap",
    "metric_of",
    "passed_tests",
    "probe",
    "reference_of",
    "render_text",
    "role_of",
    "summarize",
]
