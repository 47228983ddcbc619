"""Task sets made from somebody's own package: planted faults, and fixes mined from its history.

`synthesize` and `mine` write rows that `meta-agent evolve --tasks` takes; `meta-agent tasks check`
says whether they are fit.
"""

from meta_agent.domains.tasks._bench import Bench
from meta_agent.domains.tasks._package import Package, read_package
from meta_agent.domains.tasks._rows import manifest_path
from meta_agent.domains.tasks._synth import Made, SynthPlan, synthesize

__all__ = ["Bench", "Made", "Package", "SynthPlan", "manifest_path", "read_package", "synthesize"]
