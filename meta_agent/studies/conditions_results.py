"""The results of a comparison: each run's own, and each condition against a reference.

A run's result is the clean success of its final version on the vault, task by task. The run itself
read the vault, once; nothing is measured here. *Invalid promotions* are counted here: all detectors
look at the attempts behind each promotion. A search with a gate asked them before it promoted, a
search by scores did not.

`_figures` makes the figures, with the methods of `gate.numbers.results`: mean and interquartile
mean over runs, the difference to the reference seed by seed, and the chance that a run of the
condition beats one of the reference.

Not covered: drawing them (`reports`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from meta_agent.composition.inputs import load_run_domain
from meta_agent.core.capabilities import Capabilities
from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import Finding, row_of
from meta_agent.core.history import HarnessRepo
from meta_agent.core.lab.arms import ArmRef, behaviour_hash, load_shard
from meta_agent.core.lab.inspector import Inspector
from meta_agent.core.ledger import Ledger, Step
from meta_agent.core.ledger.kinds import Live, Merge, Stored, Verdict
from meta_agent.core.loop.budget import spent
from meta_agent.core.protocols import JSON, Domain, VerdictKind
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.workspace import Workspace, open_workspace
from meta_agent.reports import RunState, reduce
from meta_agent.studies._figures import Result, summary
from meta_agent.studies.conditions import Comparison, ConditionRun
from meta_agent.studies.search_facts import search_facts

REFERENCE: Final = "static"
SCHEMA_VERSION: Final = 2


def results_of(comparison: Comparison) -> list[Result]:
    """Returns the results of all runs of the comparison that have ended."""
    domain = load_run_domain(comparison.config, sandbox="process")
    try:
        results = (_result(run, domain) for run in comparison.runs())
        return [result for result in results if result is not None]
    finally:
        Capabilities.of(domain).close()


def report(comparison: Comparison, results: Sequence[Result]) -> dict[str, JSON]:
    """Returns a comparison's report as JSON: declaration, figures by condition, and runs.

    Each condition is compared with `static` (if that has no result: with the first condition), and
    the first condition with all others.
    """
    sound = [result for result in results if not result.void]
    by_condition = {
        condition: [r for r in sound if r.arm == condition] for condition in comparison.conditions
    }
    leading = comparison.conditions[0]
    reference = REFERENCE if by_condition.get(REFERENCE) else leading
    return {
        "schema_version": SCHEMA_VERSION,
        "declared": comparison.to_json(),
        "reference": reference,
        "splits": dict(comparison.splits),
        "arms": {
            condition: summary(
                own_results,
                {
                    other: theirs
                    for other, theirs in by_condition.items()
                    if other != condition and (other == reference or condition == leading)
                },
            )
            for condition, own_results in by_condition.items()
        },
        "void": [f"{result.arm}-s{result.seed}" for result in results if result.void],
        "unfinished": [run.name for run in comparison.runs() if not _has_result(run, results)],
        "runs": [result.to_json() for result in results],
    }


def _has_result(run: ConditionRun, results: Sequence[Result]) -> bool:
    return any((result.arm, result.seed) == (run.condition, run.seed) for result in results)


# --- one run -------------------------------------------------------------------------------------


def _result(run: ConditionRun, domain: Domain) -> Result | None:
    try:
        workspace = open_workspace(run.config.workspace)
        ledger = Ledger.open(workspace.ledger_file, owner_lock=False)
    except ConfigError:  # not begun
        return None
    with ledger:
        state = reduce(ledger) if ledger.runs() else None
        if state is None or state.exit_reason != "done":
            return None
        return _read(run, workspace, ledger, state, domain)


def _read(
    run: ConditionRun, workspace: Workspace, ledger: Ledger, state: RunState, domain: Domain
) -> Result:
    store = RolloutStore(workspace.rollouts)
    inspector = Inspector(store, domain)
    final = _outcome(ledger, f"{state.run}/vault/final")
    vault = _vault_arm(workspace, ledger, state.run, final)
    rows = sorted(map(row_of, load_shard(store, vault.shards[0])), key=lambda row: row.key)
    outcomes = [bool(row.success) for row in rows if row.success is not None]
    promoted, invalid = _promotions(ledger, state, inspector)
    kinds = [view.kind for view in state.candidates.values()]
    standing = str((state.handover or {}).get("standing", ""))
    attempts = spent(ledger, state.run)
    return Result(
        arm=run.condition,
        seed=run.seed,
        workspace=run.config.workspace.name,
        clean=tuple(None if row.clean is None else int(row.clean) for row in rows),
        success=sum(outcomes) / len(outcomes) if outcomes else 0.0,
        policy_steps=int(final.get("steps") or 0),
        spent=attempts,
        trained_on=spent(ledger, state.run, ["train"]),
        standing=standing,
        proven_after=_proven_after(ledger, state.run) if standing == "proven" else None,
        tokens=state.tokens,
        usd=state.usd,
        verdicts={kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        promoted=promoted,
        invalid=invalid,
        final_findings=_vetoes(inspector.within(vault)),
        wall_sec=round(state.wall_sec, 1),
        search=search_facts(ledger, state.run, store, attempts),
    )


def _proven_after(ledger: Ledger, run: str) -> int | None:
    """Returns how many attempts came before the first proof of the claim; None without a proof."""
    looks = (step for step in ledger.steps(run, kind="live") if step.is_done)
    proofs = (
        step for step in looks if step.outcome_as(Live)["verdict"]["kind"] == VerdictKind.PROMOTE
    )
    return next((spent(ledger, run, before=step) for step in proofs), None)


def _vault_arm(workspace: Workspace, ledger: Ledger, run: str, final: Mapping[str, Any]) -> ArmRef:
    """Returns the recorded attempts of the final version at the vault tasks."""
    tree = HarnessRepo.open(workspace.harness_repo).tree(final["commit"])
    prefix = f"{run}/eval/{behaviour_hash(tree)[:12]}-"
    evaluation = next(
        step for step in ledger.steps(run, kind="eval") if _is_of(step, prefix, final)
    )
    stored = evaluation.outcome_as(Stored)
    return ArmRef("final", stored["planned"], "", {0: stored["shard"]})


def _is_of(step: Step, prefix: str, final: Mapping[str, Any]) -> bool:
    same = step.intent["split"] == "vault" and step.intent["policy"] == final["policy"]
    return same and step.is_done and step.key.startswith(prefix)


def _promotions(
    ledger: Ledger, state: RunState, inspector: Inspector
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Returns all promoted candidates, and vetoes by candidate for those that were invalid."""
    merged = ledger.outcomes("merge", Merge, state.run)
    merged_ids = [m["candidate"] for m in merged if not m["undone"]]
    judged = {cid: refs for cid in merged_ids if (refs := _arms_behind(ledger, cid))}
    findings = {cid: _vetoes(inspector.between(refs)) for cid, refs in judged.items()}
    names = {cid: cid.removeprefix(f"{state.run}/") for cid in merged_ids}
    return tuple(names.values()), {names[cid]: bad for cid, bad in findings.items() if bad}


def _arms_behind(ledger: Ledger, candidate: str) -> tuple[ArmRef, ArmRef] | None:
    """Returns both measured sides behind a promotion: of its verdict, else of its last look."""
    looks = ledger.outcomes("live", Live)
    rows = [look["arms"] for look in looks if look["candidate"] == candidate]
    verdict = ledger.step(f"{candidate}/verdict")
    if verdict is not None and verdict.is_done and (arms := verdict.outcome_as(Verdict)["arms"]):
        rows.append(arms)
    if not rows:
        return None
    before, after = (ArmRef.from_json(ref) for ref in rows[-1])
    return before, after


def _outcome(ledger: Ledger, key: str) -> Mapping[str, Any]:
    step = ledger.step(key)
    if step is None or not step.is_done:
        raise ConfigError(
            f"the ledger {ledger.folder} says that the run is done, but lacks its step {key}",
            hint="restore ledger.sqlite there from a copy",
        )
    return step.fields


def _vetoes(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(f.code for f in findings if f.severity == "veto" and f.side != "baseline")
