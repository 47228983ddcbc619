"""Environments of the verifiers library as a domain: `--domain verifiers:NAME`.

Their tasks, tools and rewards run in the grader's process (`domains.graded`), by the interpreter
that has the package: `--python`. Both forms are known: v1 tasksets (0.4) and `load_environment`.
"""

from __future__ import annotations

from pathlib import Path

from meta_agent.domains._options import DomainOptions, sandboxes
from meta_agent.domains.graded import ATTEMPT_LIMITS, GradedDomain, load_rows

GUEST = Path(__file__).with_name("verifiers_guest.py")


def open_domain(options: DomainOptions) -> GradedDomain:
    """Opens the verifiers environment `options.detail`. Raises ConfigError if it does not load."""
    return GradedDomain(
        {"path": str(GUEST), "setup": {"name": options.detail}},
        load_rows(None, options.mapping),
        threshold=options.threshold,
        factory=sandboxes(options, ATTEMPT_LIMITS),
        python=options.python,
        name="verifiers",
    )
