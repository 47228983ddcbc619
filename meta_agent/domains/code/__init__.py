"""Programming problems: candidates run in sandboxes that hold no answers; the host compares."""

from meta_agent.domains.code._compare import same_output, same_value
from meta_agent.domains.code._domain import CodeDomain, code_runner, graded, load_code_domain
from meta_agent.domains.code._runner import CodeRunner, UngradableError
from meta_agent.domains.code._solution import code_in, program_of

__all__ = [
    "CodeDomain",
    "CodeRunner",
    "UngradableError",
    "code_in",
    "code_runner",
    "graded",
    "load_code_domain",
    "program_of",
    "same_output",
    "same_value",
]
