"""Restricts the comparison of two versions to numbers that the same diagnostics measured.

If a diagnostic's source changed in between, one name stands for two different numbers. The earlier
version's numbers of that name are left out, because the diagnostic would explain their change.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from meta_agent.core.evidence import Evidence
from meta_agent.core.harness import parse_contract
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import HarnessTree

_NAME: Final = re.compile(rb"""^NAME\s*(?::[^=]*)?=\s*["']([^"']+)["']\s*$""", re.MULTILINE)


def by_one_set(
    run: Run, earlier: Evidence | None, tree: HarnessTree, generation: int
) -> Evidence | None:
    """Returns `earlier` evidence without the numbers of diagnostics whose source `tree` changed.

    That evidence is of the generation before `generation`. None comes back as None.
    """
    step = run.ledger.step(f"{run.id}/g{generation - 1}/evidence")
    if earlier is None or step is None or not earlier.measured:
        return earlier
    changed = _changed(run.repo.tree(str(step.intent["commit"])), tree)
    if changed is None:
        return replace(earlier, measured={})
    measured = {
        name: value
        for name, value in earlier.measured.items()
        if name.partition(".")[0] not in changed
    }
    return replace(earlier, measured=measured)


def _changed(before: HarnessTree, after: HarnessTree) -> set[str] | None:
    """Returns the names of diagnostics that differ, or None if a file declares no plain NAME."""
    names: set[str] = set()
    for path in _watching(before) | _watching(after):
        texts = [tree.files[path] for tree in (before, after) if path in tree.files]
        if len(set(texts)) == 1 and len(texts) == 2:
            continue
        matches = [_NAME.search(text) for text in texts]
        if not all(matches):
            return None
        names |= {match.group(1).decode() for match in matches if match}
    return names


def _watching(tree: HarnessTree) -> set[str]:
    return set(parse_contract(tree).files_of("diagnostics", tree))
