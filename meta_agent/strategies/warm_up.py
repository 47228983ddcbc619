"""The warm-up: a policy imitates the references of training tasks before it explores.

The references are rendered as the policy's replies under the best harness (`lab.warmup`). They cost
no attempt. How many passes over them pay is decided on search tasks by clean success: each pass is
compared with the weights before it, and a pass that adds nothing is dropped with those after it.
A file of `--warmup` takes the place of the references.
"""

from __future__ import annotations

from typing import Final

from meta_agent.core.harness.recipe import SFT_ROWS
from meta_agent.core.loop.budget import pays_for
from meta_agent.core.loop.records import Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.train_on import Checkpoint, on_search
from meta_agent.core.protocols import JSON

MOST_PASSES: Final = 6
FIRST_SEED: Final = 50
"""First training seed of the passes. Searches, claims and legs never use it."""


def warm_up(run: Run, version: Version, start: Checkpoint) -> Checkpoint:
    """Returns the weights after the passes that paid, with their attempts at search tasks.

    Returns `start` if no training task has a reference that the grader accepts. Raises
    CandidateError if the harness fails.
    """
    tree = run.repo.tree(version.commit)
    rows = run.lab.render_references(tree)["rows"]
    run.phase("warm up", f"{rows} references of training tasks under {version.id}")
    steps, best, shares = -(-rows // SFT_ROWS), start, [start.evaluation.clean_success]
    for number in range(MOST_PASSES if rows else 0):
        solved = best.evaluation.clean == best.evaluation.planned
        if solved or not pays_for(run, f"warm-up/{number}", run.plan.search):
            break
        seed = FIRST_SEED + number
        trained = run.lab.train(tree, seed=seed, steps=steps, onto=best.trained, imitates=True)
        after = on_search(run, tree, trained)
        shares.append(after.evaluation.clean_success)
        if after.evaluation.clean <= best.evaluation.clean:
            break
        best = after
    passes = (best.trained.steps - start.trained.steps) // max(1, steps)
    record: JSON = {"rows": rows, "passes": passes, "clean_success": shares}
    run.once("warm-up/passes", "passes", {"commit": version.commit}, lambda: record)
    words = ", ".join(f"{share:.1%}" for share in shares)
    run.note(f"warm-up: {passes} passes over {rows} references; clean on search {words}")
    return best
