"""Math problems with one right answer, checked exactly or by algebra in a killable worker."""

from meta_agent.domains.math._answer import literal, words
from meta_agent.domains.math._domain import MathDomain, load_math_domain
from meta_agent.domains.math._grade import Gold, grade_text, sort_golds
from meta_agent.domains.math._reply import final_answer
from meta_agent.domains.math._verify import Verifier

__all__ = [
    "Gold",
    "MathDomain",
    "Verifier",
    "final_answer",
    "grade_text",
    "literal",
    "load_math_domain",
    "sort_golds",
    "words",
]
