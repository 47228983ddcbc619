"""What a planted fault is: edits of a harness's sources, the truth about them, and the repair.

Every suite lists its own in a module that no agent may read (import test). Promises: a fault
applies to the seed and the competent sources alike, changes one factor, and leaves a harness that
loads; which faults a seed carries follows from suite and number alone.

Not covered: what a fault costs. That is measured, see `docs/log/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_agent.core.protocols import Factor
from meta_agent.domains.nano._draw import Draw

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of the file `path`: `text` replaces the match of `pattern`, or all if it is empty."""

    path: str
    pattern: str
    text: str

    def apply(self, source: str) -> str:
        """Returns the changed source. Raises ValueError unless the pattern matches exactly once."""
        if not self.pattern:
            return self.text
        changed, count = re.subn(self.pattern, lambda _: self.text, source, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"{self.path}: {self.pattern!r} must match once, not {count} times")
        return changed


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake that `edits` plant in a harness. `truth` says what is wrong, `repair` the fix."""

    name: str
    factor: Factor
    truth: str
    repair: str
    edits: tuple[Edit, ...]
    ruled: bool = True  # the rules agent has a rule that can find it
    costly: bool = True  # its repair is worth at least 10 points after training

    def apply(self, files: Files) -> dict[str, bytes]:
        """Returns the harness's files with the fault planted."""
        changed = dict(files)
        for edit in self.edits:
            changed[edit.path] = edit.apply(changed[edit.path].decode()).encode()
        return changed


def component(path: str, name: str, weight: str, code: str) -> tuple[Edit, ...]:
    """Returns edits that add a component (name, weight, code) to the reward file at `path`."""
    return (
        Edit(path, r"^WEIGHTS = \{", f'WEIGHTS = {{"{name}": {weight}, '),
        Edit(path, r"^COMPONENTS = \{", f'{code}\n\n\nCOMPONENTS = {{"{name}": {name}, '),
    )


def drawn_from(
    faults: Sequence[Fault], suite: str, seed: int, default: Sequence[str]
) -> tuple[Fault, ...]:
    """Returns the two or three faults that a suite's harness `seed` carries, of different factors.

    Seed 0 carries the faults named in `default`. For others, a hash of suite and seed draws them.
    """
    if seed == 0:
        return tuple(next(each for each in faults if each.name == name) for name in default)
    draw = Draw(f"nano-{suite}/faults/{seed}")
    count = 2 + draw.below(2)
    chosen: list[Fault] = []
    for each in draw.distinct(faults, len(faults)):
        if len(chosen) < count and each.factor not in {other.factor for other in chosen}:
            chosen.append(each)
    return tuple(chosen)
