"""What a run's search did with its ideas, counted from its ledger.

`refused`, `never_ran`, `failed`, `invalid`, `untried` and `measured` divide the proposals: refused
before they were candidates, stopped by a check, broken while they were measured, vetoed by a
validity detector, without room or in conflict, and measured. `raw_winner_leaks` says whether the
version with the highest raw success on the search split has a veto: a search by raw scores would
have handed it over.

A prediction is scored if both of its sides were measured. A task that a hypothesis names as at risk
is scored if the version before solved it; the risk comes true if the task is lost.

Not covered: risks in words that name no task, and ideas of a coding agent that it never handed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from meta_agent.core.lab.arms import ArmRef, load_arm
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import StepKind
from meta_agent.core.protocols import JSON, VerdictKind
from meta_agent.core.rollouts import RolloutStore

FATES: Final = ("refused", "never_ran", "failed", "invalid", "untried", "measured")
_CHECKS: Final = ("static.", "contract.", "replay.", "factor.")


def search_facts(ledger: Ledger, run: str, store: RolloutStore, spent: int) -> dict[str, JSON]:
    """Returns counts by name: a run's ideas by outcome (`FATES`), and predictions that came true.

    `points_per_thousand` is the gain on the vault per thousand attempts `spent`, None if unknown.
    """
    candidates, verdicts, cells, proposals = (
        _outcomes(ledger, run, kind) for kind in ("candidate", "verdict", "cell", "proposal")
    )
    in_cells = {name for cell in cells for name in cell["members"]}
    ideas = {candidate["id"]: candidate for candidate in candidates}
    by_candidate = {row["candidate"]: row for row in verdicts if row["candidate"] in ideas}
    fates = Counter(_fate(row, in_cells) for row in by_candidate.values())
    fates["refused"] = sum(len(row.get("refused", ())) for row in proposals)
    scored = [row["calibration"] for row in by_candidate.values() if row.get("calibration")]
    risks = list(_risks(store, ideas, by_candidate))
    gain = _vault_gain(ledger, run)
    return {
        "kinds": dict(Counter(candidate["factor"] for candidate in candidates)),
        **{fate: fates[fate] for fate in FATES},
        "predictions": len(scored),
        "predictions_right": sum(bool(row.get("right_direction")) for row in scored),
        "at_risk": len(risks),
        "at_risk_lost": sum(risks),
        "raw_winner_leaks": _raw_winner_leaks(ledger, run, cells),
        "points_per_thousand": None if gain is None or not spent else 1e5 * gain / spent,
    }


def _outcomes(ledger: Ledger, run: str, kind: StepKind) -> list[Mapping[str, Any]]:
    return [step.fields for step in ledger.steps(run, kind=kind) if step.is_done]


def _fate(verdict: Mapping[str, Any], in_cells: set[str]) -> str:
    """Returns which of `FATES` a candidate with this verdict met."""
    findings = verdict.get("evidence", {}).get("findings", ())
    codes = [row["code"] for row in findings if row["severity"] == "veto"]
    if verdict["kind"] == VerdictKind.INVALID:
        if any(code.startswith(_CHECKS) for code in codes):
            return "never_ran"
        return "failed" if any(code.startswith("failed.") for code in codes) else "invalid"
    judge = verdict.get("evidence", {}).get("judge")
    has_room = verdict["candidate"] in in_cells or verdict.get("arms") or judge != "checks"
    return "measured" if has_room else "untried"


def _risks(
    store: RolloutStore, ideas: Mapping[str, Any], verdicts: Mapping[str, Any]
) -> Iterator[bool]:
    """Yields, for every named task that the side before solved, whether the other side lost it."""
    for name, verdict in verdicts.items():
        risks: Sequence[str] = ideas[name]["hypothesis"].get("risks", ())
        if not risks or not verdict.get("arms"):
            continue
        before, after = (load_arm(store, ArmRef.from_json(ref)) for ref in verdict["arms"])
        solved = {row.task_key for row in before.rows() if row.clean}
        lost = {row.task_key for row in after.rows() if row.clean is False}
        for task in sorted(solved):
            if any(task in risk for risk in risks):
                yield task in lost


def _raw_winner_leaks(ledger: Ledger, run: str, cells: Sequence[Mapping[str, Any]]) -> bool:
    """Returns True if the version with the highest raw success on the search split has a veto."""
    rows = [*_outcomes(ledger, run, "baseline"), *cells]
    measured = [row for row in rows if row["success"] is not None]
    best = max(measured, default=None, key=lambda row: float(row["success"]))
    return best is not None and not best["valid"]


def _vault_gain(ledger: Ledger, run: str) -> float | None:
    """Returns the gain in clean success on the vault, or None if the start was not measured."""
    shares = {row["which"]: row["clean_success"] for row in _outcomes(ledger, run, "vault")}
    before, after = shares.get("baseline"), shares.get("final")
    return None if before is None or after is None else float(after - before)


def total(facts: Sequence[Mapping[str, JSON]]) -> dict[str, JSON]:
    """Returns the `search_facts` of several runs added up; `points_per_thousand` is their mean."""
    if not facts:
        return {}
    kinds = Counter[str]()
    for row in facts:
        kinds.update(row["kinds"])
    names = (*FATES, "predictions", "predictions_right", "at_risk", "at_risk_lost")
    points = [row["points_per_thousand"] for row in facts if row["points_per_thousand"] is not None]
    return {
        "kinds": dict(kinds),
        **{name: sum(row[name] for row in facts) for name in (*names, "raw_winner_leaks")},
        "points_per_thousand": sum(points) / len(points) if points else None,
    }
