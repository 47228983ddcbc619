"""Domains: task sets with fixed splits, an environment, and a sealed grader.

`load_domain` is the one door. A suite is imported when it is asked for, so that a run on one
domain never pays for, or fails on, what another one needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from meta_agent.errors import ConfigError
from meta_agent.protocols import Domain

__all__ = ["load_domain"]

# (name, suite): the module and class. Imported when asked for.
_SUITES: Final = {
    ("swe", "nano"): ("meta_agent.domains.nano.swe", "NanoSwe"),
    ("math", "nano"): ("meta_agent.domains.nano.math", "NanoMath"),
}


def load_domain(name: str, *, suite: str = "nano") -> Domain:
    """Returns a domain of a suite, or says which there are."""
    if (name, suite) not in _SUITES:
        known = ", ".join(sorted(f"{domain} ({kind})" for domain, kind in _SUITES))
        raise ConfigError(f"no domain {name!r} in suite {suite!r}", hint=f"choose one of: {known}")
    module, kind = _SUITES[name, suite]
    domain: Domain = getattr(import_module(module), kind)()
    return domain
