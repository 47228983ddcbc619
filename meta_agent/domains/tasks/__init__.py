"""Task sets made from somebody's own package: planted faults, and fixes mined from its history.

`synthesize` and `mine` write rows that `meta-agent evolve --tasks` takes; `meta-agent tasks check`
says whether they are fit.
"""

from meta_agent.domains.tasks._bench import Bench, sandboxes
from meta_agent.domains.tasks._made import Made
from meta_agent.domains.tasks._mine import MinePlan, mine
from meta_agent.domains.tasks._package import Package, read_package
from meta_agent.domains.tasks._rows import manifest_path
from meta_agent.domains.tasks.planting._author import Author
from meta_agent.domains.tasks.planting._chosen import SynthPlan
from meta_agent.domains.tasks.planting._synth import synthesize

__all__ = [
    "Author",
    "Bench",
    "Made",
    "MinePlan",
    "Package",
    "SynthPlan",
    "manifest_path",
    "mine",
    "read_package",
    "sandboxes",
    "synthesize",
]
