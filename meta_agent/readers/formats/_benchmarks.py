"""Results of benchmarks: SWE-bench and tau-bench."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from meta_agent.core.protocols import JSON
from meta_agent.domains.formats.files import Placed
from meta_agent.readers.formats._draft import AttemptDraft
from meta_agent.readers.formats._format import CERTAIN, Format, Keys, identity_by, rows_under
from meta_agent.readers.formats._messages import LeaveOut
from meta_agent.readers.formats._row import RowError, SourceRow, as_object, has

# --- SWE-bench: predictions -----------------------------------------------------------------------
# There are no messages in such a file, so behaviour is unknown. Rows may carry an evaluation beside
# the patch (`resolved`).

_PREDICTION: Final = Keys(
    task="instance_id",
    policy="model_name_or_path model",
    outcome="resolved",
    patch="model_patch",
    needs="instance_id",
    suite="swe",
)


def _claims_prediction(value: JSON) -> int:
    if isinstance(value, dict) and value and all(has(v, "model_patch") for v in value.values()):
        return CERTAIN
    return 2 if has(value, "instance_id", "model_patch") else 0


def _expand_predictions(placed: Placed) -> Iterator[Placed]:
    """Yields one row for each prediction of a map."""
    value = placed.value
    if isinstance(value, dict) and not has(value, "model_patch"):
        for name, inner in value.items():
            row = {"instance_id": name, **inner} if isinstance(inner, dict) else inner
            yield Placed(f"{placed.place}[{name}]", row)
    else:
        yield placed


PREDICTIONS: Final = Format(
    "swe-bench-predictions",
    "SWE-bench predictions, as rows or as a map by instance",
    "instance_id, model_patch",
    _claims_prediction,
    _PREDICTION.draft,
    expand=_expand_predictions,
)

# --- SWE-bench: reports of the harness ------------------------------------------------------------
# A run's report, or one report an instance. Read alone they are attempts of which only the outcome
# is known; beside attempts they give these their outcomes (`_join.py`). An instance that the
# harness could not judge is a verifier's error: a patch that does not apply ends there too.

# In the order in which they overrule each other: the last list with an instance names its state.
_LOST: Final = {"unjudged": "the harness could not judge the patch"}
_STATES: Final[dict[str, dict[str, JSON]]] = {
    "incomplete_ids": {},
    "submitted_ids": _LOST,
    "error_ids": _LOST,
    "unresolved_ids": {"resolved": False},
    "empty_patch_ids": {"resolved": False},
    "resolved_ids": {"resolved": True},
}
_VERDICT: Final = Keys(
    task="instance_id", outcome="resolved", unjudged="unjudged", suite="swe", skip="of_run"
)


def _claims_report(value: JSON) -> int:
    if has(value, "resolved_ids", "unresolved_ids", "error_ids"):
        return CERTAIN
    reports = list(as_object(value).values())
    return CERTAIN if reports and all(has(v, "resolved", "patch_exists") for v in reports) else 0


def _expand_report(placed: Placed) -> Iterator[Placed]:
    """Yields one row for each instance of a report. It reads both kinds of reports."""
    report = placed.value
    if not isinstance(report, dict):
        yield placed
        return
    whole_run = has(report, "resolved_ids")
    states: dict[str, dict[str, JSON]] = {}
    for name, state in _STATES.items() if whole_run else ():
        ids = report.get(name)
        states |= dict.fromkeys(map(str, ids if isinstance(ids, list) else ()), state)
    for name, verdict in () if whole_run else report.items():
        states[name] = {"resolved": as_object(verdict).get("resolved")}
    for name, state in states.items():
        row = {"instance_id": name, "of_run": whole_run, **state}
        yield Placed(f"{placed.place}[{name}]", row)


def _identity_of_verdict(row: SourceRow, path: Path) -> JSON:
    """Returns run and instance, since `MODEL.RUN.json` repeats the files `RUN/MODEL/INSTANCE/`."""
    if row.values.get("of_run"):
        return [path.name.removesuffix(".json"), row.values.get("instance_id")]
    model, run = path.parent.parent.name, path.parent.parent.parent.name
    return [f"{model}.{run}", row.values.get("instance_id")]


def _read_report(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    draft = _VERDICT.draft(row, count)
    if draft.outcome is None and draft.error is None:
        wish = row.need("resolved", "true or false")
        raise wish if row.has("resolved") else RowError("an instance without a prediction")
    return draft


REPORTS: Final = Format(
    "swe-bench-report",
    "SWE-bench harness reports; beside predictions or trajectories, their outcomes",
    "resolved_ids, unresolved_ids, error_ids; or by instance resolved, patch_exists",
    _claims_report,
    _read_report,
    expand=_expand_report,
    identity=_identity_of_verdict,
)

# --- tau-bench ------------------------------------------------------------------------------------
# Results of tau2-bench. A reward of 1 is a solved simulation, as the tool counts it. Trials of a
# task are its samples.

_TAU: Final = Keys(
    task="task_id",
    sample="trial",
    policy="run.agent_info.llm",
    domain="run.environment_info.domain_name",
    messages="messages",
    reward="reward_info.reward",
    solved_at=1 - 1e-6,
    stop="termination_reason",
    usd="agent_cost",
    needs="task_id reward_info",
    skip="id timestamp start_time end_time tools",
    stops={
        "user_stop": "returned",
        "agent_stop": "submitted",
        "max_steps": "turn_limit",
        "timeout": "wall_limit",
    },
)


def _claims_tau(value: JSON) -> int:
    of_run = isinstance(as_object(value).get("simulations"), list)
    return CERTAIN if of_run or has(value, "task_id", "reward_info", "trial") else 0


TAU_BENCH: Final = Format(
    "tau-bench",
    "tau2-bench results",
    "simulations; or task_id, reward_info, trial",
    _claims_tau,
    _TAU.draft,
    expand=rows_under("simulations", beside="info", field_name="run"),
    identity=identity_by("id"),
)
