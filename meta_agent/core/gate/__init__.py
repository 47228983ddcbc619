"""The gate judges a candidate: it turns recorded outcomes into a verdict, without any I/O.

A `Side` is one side of a comparison: an `Arm` with one row per attempt (`row_of`), and what is kept
of their records (`look_of`). `find_all` asks every check of the table `CHECKS` whether a score is
valid. `pair` and `effect` measure how large a gain is. `judge_live`, under its `Terms`, and
`judge_diagnostics` decide.
"""

from meta_agent.core.gate._records import Arm, Finding, OutcomeRow, Severity, arm_of, row_of
from meta_agent.core.gate.diagnostics import judge_diagnostics
from meta_agent.core.gate.judge import (
    MIN_TRAINING_SEEDS,
    Terms,
    judge_live,
    verdict_from_json,
    verdict_to_json,
)
from meta_agent.core.gate.numbers._course import COLLAPSE, NEAR, Course, task_order
from meta_agent.core.gate.numbers._intervals import clustered, wilson
from meta_agent.core.gate.numbers.statistics import Pairs, effect, pair, sign_flip_p
from meta_agent.core.gate.validity._looks import Look, Regraded, look_of
from meta_agent.core.gate.validity._overlap import near_overlap
from meta_agent.core.gate.validity._shares import Context, Labels, Side
from meta_agent.core.gate.validity.checks import CHECKS, Check, find_all

__all__ = [
    "CHECKS",
    "COLLAPSE",
    "MIN_TRAINING_SEEDS",
    "NEAR",
    "Arm",
    "Check",
    "Context",
    "Course",
    "Finding",
    "Labels",
    "Look",
    "OutcomeRow",
    "Pairs",
    "Regraded",
    "Severity",
    "Side",
    "Terms",
    "arm_of",
    "clustered",
    "effect",
    "find_all",
    "judge_diagnostics",
    "judge_live",
    "look_of",
    "near_overlap",
    "pair",
    "row_of",
    "sign_flip_p",
    "task_order",
    "verdict_from_json",
    "verdict_to_json",
    "wilson",
]
