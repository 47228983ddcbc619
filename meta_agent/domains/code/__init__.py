"""Programming problems: candidates run in sandboxes that hold no answers; the host compares."""

from meta_agent.domains._options import DomainOptions
from meta_agent.domains.code._compare import same_output, same_value
from meta_agent.domains.code._domain import CodeDomain, code_runner, graded
from meta_agent.domains.code._runner import CodeRunner, UngradableError
from meta_agent.domains.code._solution import code_in, program_of

__all__ = [
    "CodeDomain",
    "CodeRunner",
    "UngradableError",
    "code_in",
    "code_runner",
    "graded",
    "open_domain",
    "program_of",
    "same_output",
    "same_value",
]


def open_domain(options: DomainOptions) -> CodeDomain:
    """Opens the programming problems of a file. Raises ConfigError if none can be used."""
    assert options.tasks is not None, "a domain that needs a file is not opened without one"
    runner = code_runner(options.sandbox, run=options.run)
    return CodeDomain(options.tasks, runner, options.mapping)
