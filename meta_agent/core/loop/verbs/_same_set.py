"""Two versions are compared by the numbers that both were measured with.

A diagnostic whose source changed in between has two different numbers under one name. Those of the
earlier version are left out, so that no change is reported which is one of the instrument.
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
    """The earlier version's evidence, as far as `tree` measures by the same code."""
    step = run.ledger.step(f"{run.id}/g{generation - 1}/evidence")
    if earlier is None or step is None or not earlier.measured:
        return earlier
    changed = _changed(run.repo.tree(str(step.intent["commit"])), tree)
    if changed is None:
        return replace(earlier, measured={})
    kept = {
        name: value
        for name, value in earlier.measured.items()
        if name.partition(".")[0] not in changed
    }
    return replace(earlier, measured=kept)


def _changed(before: HarnessTree, after: HarnessTree) -> set[str] | None:
    """The names of diagnostics that differ; None where a file does not say its name plainly."""
    names: set[str] = set()
    for path in _watching(before) | _watching(after):
        texts = [tree.files[path] for tree in (before, after) if path in tree.files]
        if len(set(texts)) == 1 and len(texts) == 2:
            continue
        found = [_NAME.search(text) for text in texts]
        if not all(found):
            return None
        names |= {match.group(1).decode() for match in found if match}
    return names


def _watching(tree: HarnessTree) -> set[str]:
    return set(parse_contract(tree).files_of("diagnostics", tree))
