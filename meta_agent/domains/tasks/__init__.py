"""Makes task sets of a user's package: planted bugs, and bug fixes from its history.

`synthesize` and `mine` write task files for `meta-agent evolve --tasks`. `meta-agent tasks check`
says whether such a file is fit for use.
"""

from meta_agent.domains.tasks._bench import Bench, run_tests, sandboxes
from meta_agent.domains.tasks._collection import Made, Plan, manifest_path
from meta_agent.domains.tasks._mine import mine
from meta_agent.domains.tasks._package import Package, read_package
from meta_agent.domains.tasks._synth import synthesize

__all__ = [
    "Bench",
    "Made",
    "Package",
    "Plan",
    "manifest_path",
    "mine",
    "read_package",
    "run_tests",
    "sandboxes",
    "synthesize",
]
