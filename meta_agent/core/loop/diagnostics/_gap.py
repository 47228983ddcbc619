"""A diagnostic gap: the score moved and no metric did, so a diagnostic is looked for.

The gap is read off the evidence of two versions in a row (`collect.read`). It stays open until a
diagnostic is admitted. For the rules agent the numbers of a library are measured on past versions,
and those that tell good ones from bad ones become `Lead`s; a language model gets the gap in words.

Not covered: admission; a lead is a candidate like any other (`discriminate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from meta_agent.core.diagnostic_library import LIBRARY, VALUE, Lead, Metric, source_of
from meta_agent.core.errors import CandidateError
from meta_agent.core.gate.diagnostics import ALPHA, MIN_VERSIONS, separation
from meta_agent.core.harness import parse_contract
from meta_agent.core.lab.fair import fairly
from meta_agent.core.ledger.kinds import Evidence
from meta_agent.core.loop.diagnostics._past import PastVersion, past_versions, split_past
from meta_agent.core.loop.diagnostics.tend import admitted
from meta_agent.core.loop.records import Collected
from meta_agent.core.loop.run import Run
from meta_agent.core.proposals import Situation
from meta_agent.core.protocols import HarnessTree

LEADS: Final = 3
RULES: Final = "rules"


def open_gap(run: Run) -> str:
    """The newest gap that nothing has explained yet, in a sentence; empty where there is none."""
    told, at = "", 0
    for step in run.ledger.steps(kind="evidence"):
        found = step.outcome_as(Evidence).get("gap") if step.is_done else None
        if found and found["unexplained"]:
            version = step.outcome_as(Evidence)["version"]
            told, at = _sentence(version, found["delta"], found["z"]), step.seq
    return "" if any(one.seq > at for one in admitted(run)) else told


def _sentence(version: str, delta: float, z: float) -> str:
    return (
        f"clean success moved by {100 * delta:+.1f} points at {version} (z = {z:.1f}) and no "
        "metric moved with it"
    )


def gap_terms(run: Run) -> Iterator[str]:
    """What a language model is told of it."""
    if told := open_gap(run):
        yield (
            f"A gap in what is measured: {told}. One hypothesis should be a diagnostic (factor "
            "diagnostics, metric measured.NAME.VALUE with a limit in THRESHOLDS). It costs no "
            "training: it is admitted if it tells good past versions from bad ones."
        )


def with_leads(run: Run, collected: Collected, situation: Situation | None) -> Situation | None:
    """The situation, with the numbers that could close an open gap."""
    if run.author != RULES or not (told := open_gap(run)):
        return situation
    found = leads(run, collected.tree)
    run.note(f"{told}: {len(found)} of {len(LIBRARY)} numbers tell past versions apart")
    return replace(situation or Situation(), leads=found)


def leads(run: Run, tree: HarnessTree) -> tuple[Lead, ...]:
    """The numbers of the library that tell past versions apart; those held out are not read."""
    kept, _ = split_past(run, past_versions(run), tree)
    if min(sum(one.good is side for one in kept) for side in (True, False)) < MIN_VERSIONS:
        return ()
    try:
        values = fairly(lambda: _measured(run, tree, kept))
    except CandidateError:
        return ()  # a diagnostic of the harness fails on what past versions did
    found = [_lead(metric, kept, values[metric.name]) for metric in LIBRARY]
    ranked = sorted((one for one in found if one), key=lambda lead: (-lead.share, lead.name))
    return tuple(ranked[:LEADS])


def _measured(
    run: Run, tree: HarnessTree, past: Sequence[PastVersion]
) -> dict[str, list[float | None]]:
    """By name of the library's number, its value on each past version."""
    values: dict[str, list[float | None]] = {metric.name: [] for metric in LIBRARY}
    with run.lab.session(_with_library(tree)) as session:
        for one in past:
            found = {m.name: m.values for m in session.measure(run.lab.rollouts(one.shard))}
            for metric in LIBRARY:
                values[metric.name].append(found.get(metric.diagnostic, {}).get(VALUE))
    return values


def _with_library(tree: HarnessTree) -> HarnessTree:
    """The harness with the library as its only diagnostics."""
    contract = parse_contract(tree)
    watching = set(contract.files_of("diagnostics", tree))
    folder = contract.factors["diagnostics"][0].rpartition("/")[0]
    files = {path: text for path, text in tree.files.items() if path not in watching}
    for metric in LIBRARY:
        source = source_of(metric, 0.0, "above")
        files[f"{folder}/{metric.diagnostic}.py"] = source.encode()
    return HarnessTree(tree.commit, tree.tree_hash, files)


def _lead(
    metric: Metric, past: Sequence[PastVersion], values: Sequence[float | None]
) -> Lead | None:
    """The number with its best line, if it tells the versions apart in spite of its company."""
    good = [v for one, v in zip(past, values, strict=True) if one.good and v is not None]
    bad = [v for one, v in zip(past, values, strict=True) if not one.good and v is not None]
    found = separation(good, bad, alpha=ALPHA / len(LIBRARY))
    if found is None:
        return None
    return Lead(metric, *found, versions=len(good) + len(bad))
