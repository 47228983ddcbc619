"""The gate judges a candidate: it turns recorded outcomes into a verdict, without any I/O.

An `Arm` is one side of a comparison, with one row per attempt (`row_of`). `find_all`,
`inspect_arms`, `inspect_seen` and `near_overlap` check whether a score is valid. `pair` and
`effect` measure how large a gain is. `judge_live` and `judge_diagnostics` decide.
"""

from meta_agent.core.gate._guards import GuardTerms, Labels, guard_slices
from meta_agent.core.gate._records import Arm, Finding, OutcomeRow, Severity, arm_of, row_of
from meta_agent.core.gate.diagnostics import judge_diagnostics
from meta_agent.core.gate.judge import (
    MIN_TRAINING_SEEDS,
    judge_live,
    verdict_from_json,
    verdict_to_json,
)
from meta_agent.core.gate.numbers._course import COLLAPSE, NEAR, Course, Rule, task_order
from meta_agent.core.gate.numbers._intervals import clustered, wilson
from meta_agent.core.gate.numbers.statistics import ErrorBudget, Pairs, effect, pair, sign_flip_p
from meta_agent.core.gate.validity._limits import DEFAULT_LIMITS, ValidityLimits
from meta_agent.core.gate.validity._looks import DRAWN, Seen, merged, seen_of
from meta_agent.core.gate.validity._overlap import near_overlap
from meta_agent.core.gate.validity._repeats import Regrade
from meta_agent.core.gate.validity.inspection import explained, inspect_arms, inspect_seen
from meta_agent.core.gate.validity.rows import find_all, find_in_arm

__all__ = [
    "COLLAPSE",
    "DEFAULT_LIMITS",
    "DRAWN",
    "MIN_TRAINING_SEEDS",
    "NEAR",
    "Arm",
    "Course",
    "ErrorBudget",
    "Finding",
    "GuardTerms",
    "Labels",
    "OutcomeRow",
    "Pairs",
    "Regrade",
    "Rule",
    "Seen",
    "Severity",
    "ValidityLimits",
    "arm_of",
    "clustered",
    "effect",
    "explained",
    "find_all",
    "find_in_arm",
    "guard_slices",
    "inspect_arms",
    "inspect_seen",
    "judge_diagnostics",
    "judge_live",
    "merged",
    "near_overlap",
    "pair",
    "row_of",
    "seen_of",
    "sign_flip_p",
    "task_order",
    "verdict_from_json",
    "verdict_to_json",
    "wilson",
]
