"""The rule that adds a diagnostic of flagged conduct."""

from __future__ import annotations

from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, rule


@rule("watch-conduct", "diagnostics")
def watch_conduct(case: Case) -> Diagnosis | None:
    """Suggests a diagnostic that counts attempts flagged for cheating, if the harness has none."""
    folder, sources = _folder(case), "\n".join(text for _, text in case.texts("diagnostics"))
    if folder is None or "flag" in sources:
        return None
    return Diagnosis(
        strength=clamp(0.3 + case.flagged),
        change="the diagnostic conduct counts flagged attempts, with an alarm",
        effect="it shows when a version gains by such conduct",
        because=f"{case.flagged:.1%} of attempts are flagged, and no diagnostic reads the flags",
        metric="measured.conduct.flagged_share",
        direction="up" if case.flagged else "down",
        delta=case.flagged or -0.01,
        edits={f"{folder}conduct.py": _CONDUCT},
        evidence=("no diagnostic mentions flags", *case.lines("behaviour.flagged")),
        risk="conduct that the environment does not flag stays invisible",
    )


def _folder(case: Case) -> str | None:
    """Returns the folder for new diagnostics in the contract's patterns, or None."""
    patterns = case.contract.factors.get("diagnostics", ())
    folders = (p.rpartition("/")[0] + "/" for p in patterns if p.endswith(("/**", "/*.py", "/*")))
    return next(folders, None)


_CONDUCT = '''"""How often does the environment flag an attempt, and do such attempts win?"""

NAME = "conduct"
LAYER = "behaviour"
THRESHOLDS = {
    "flagged_share": {"warn": 0.01, "critical": 0.05, "direction": "above"},
    "flagged_share_of_solved": {"warn": 0.01, "critical": 0.05, "direction": "above"},
}


def flagged(rollouts):
    """Returns the share of attempts with a flag."""
    return sum(bool(r["flags"]) for r in rollouts) / len(rollouts) if rollouts else 0.0


def measure(rollouts):
    solved = [r for r in rollouts if r.get("outcome")]
    return {"flagged_share": flagged(rollouts), "flagged_share_of_solved": flagged(solved)}
'''
