"""A diagnostic gap: the score moved and no metric moved with it, so a diagnostic is missing.

The gap shows in the evidence of two versions in a row (`collect.read`). It stays open until a
diagnostic is admitted. For the rules agent, the numbers of a library are measured on past versions.
Those that separate good versions from bad ones become `Lead`s. A language model gets the gap in
words.

Not covered: admission. A lead is a candidate like any other (`discriminate`).
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
    """Returns the newest unexplained move of the score as a sentence, or "" if there is none."""
    sentence, at = "", 0
    for step in run.ledger.steps(kind="evidence"):
        gap = step.outcome_as(Evidence).get("gap") if step.is_done else None
        if gap and gap["unexplained"]:
            version = step.outcome_as(Evidence)["version"]
            sentence, at = _sentence(version, gap["delta"], gap["z"]), step.seq
    return "" if any(diagnostic.seq > at for diagnostic in admitted(run)) else sentence


def _sentence(version: str, delta: float, z: float) -> str:
    return (
        f"clean success moved by {100 * delta:+.1f} points at {version} (z = {z:.1f}) and no "
        "metric moved with it"
    )


def gap_terms(run: Run) -> Iterator[str]:
    """Yields the text for a language model about a score that moved without any metric moving."""
    if sentence := open_gap(run):
        yield (
            f"A gap in what is measured: {sentence}. One hypothesis should be a diagnostic (factor "
            "diagnostics, metric measured.NAME.VALUE with a limit in THRESHOLDS). It costs no "
            "training: it is admitted if it tells good past versions from bad ones."
        )


def with_leads(run: Run, collected: Collected, situation: Situation | None) -> Situation | None:
    """Returns the situation, for the rules agent with numbers that would explain an open gap.

    A gap is open if the score moved and no metric moved with it.
    """
    if run.author != RULES or not (gap := open_gap(run)):
        return situation
    numbers = leads(run, collected.tree)
    run.note(f"{gap}: {len(numbers)} of {len(LIBRARY)} numbers tell past versions apart")
    return replace(situation or Situation(), leads=numbers)


def leads(run: Run, tree: HarnessTree) -> tuple[Lead, ...]:
    """Returns the library's numbers that separate good past versions from bad ones, best first.

    Held-out versions are not read.
    """
    versions, _ = split_past(run, past_versions(run), tree)
    good = sum(version.good for version in versions)
    if min(good, len(versions) - good) < MIN_VERSIONS:
        return ()
    try:
        values = fairly(lambda: _measured(run, tree, versions))
    except CandidateError:
        return ()  # a diagnostic fails on rollouts of past versions
    telling = filter(None, (_lead(m, versions, values[m.name]) for m in LIBRARY))
    ranked = sorted(telling, key=lambda lead: (-lead.share, lead.name))
    return tuple(ranked[:LEADS])


def _measured(
    run: Run, tree: HarnessTree, past: Sequence[PastVersion]
) -> dict[str, list[float | None]]:
    """Maps each number of the library to its value on each past version."""
    values: dict[str, list[float | None]] = {metric.name: [] for metric in LIBRARY}
    with run.lab.session(_with_library(tree)) as session:
        for version in past:
            measured = {m.name: m.values for m in session.measure(run.lab.rollouts(version.shard))}
            for metric in LIBRARY:
                values[metric.name].append(measured.get(metric.diagnostic, {}).get(VALUE))
    return values


def _with_library(tree: HarnessTree) -> HarnessTree:
    """Returns the harness with the library as its only diagnostics."""
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
    """Returns the number with its best threshold, or None if it does not separate the versions.

    The error is divided by the size of the library.
    """
    good = [v for version, v in zip(past, values, strict=True) if version.good and v is not None]
    bad = [v for version, v in zip(past, values, strict=True) if not version.good and v is not None]
    line = separation(good, bad, alpha=ALPHA / len(LIBRARY))
    if line is None:
        return None
    return Lead(metric, *line, versions=len(good) + len(bad))
