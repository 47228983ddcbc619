"""Records the verdict on the claimed harness, and one verdict on each of its members.

A member gets the claim's verdict, because the members were proven together and not alone. Its share
is recorded beside it: the bundle's clean success on the search split (training seed 0) with the
member, less that without it. The share explains and proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from textwrap import shorten
from typing import Any

from meta_agent.core.gate import verdict_to_json
from meta_agent.core.lab.live import ArmRef
from meta_agent.core.ledger.kinds import Bundle
from meta_agent.core.loop.records import Judged, SearchResult, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.claim import CLAIM
from meta_agent.core.loop.verbs.learn import learn, noted, record
from meta_agent.core.protocols import JSON, Candidate, Hypothesis, Verdict, VerdictKind


def conclude_members(
    run: Run, first: Version, result: SearchResult, decided: Judged | None, *, skills: bool
) -> None:
    """Records the verdict on each merged candidate, by that of the final test (`decided`).

    With `skills`, also writes a skill (lesson) from each that surely adds clean success to the
    others, or whose part in the gain was not measured.
    """
    shares = _shares(run)
    for member in _acting(result):
        share = shares.get(member.id)
        judged = _of_member(run, first, result, member, decided, share)
        generation = result.read[member.generation]
        record(run, generation.collected, member, judged, generation.reading)
        if skills and (share is None or share["ci_low"] > 0):
            learn(run, _with_company(result, member), _lesson(judged, decided), generation.reading)


def conclude_claim(run: Run, result: SearchResult, judged: Judged, parts: JSON = None) -> None:
    """Records the verdict on the whole new harness, in the ledger and in a git note on its commit.

    `parts` says how much of the gain is the harness's and how much the policy's, if measured.
    """
    commit, name = result.version.commit, f"{run.id}/{CLAIM}"
    verdict_row = {
        **verdict_to_json(judged.verdict),
        "candidate": name,
        "commit": commit,
        "base_invalid": False,
        "arms": [ref.to_json() for ref in judged.arms] if judged.arms else None,
        "calibration": None,
    }
    run.once(f"{name}/verdict", "verdict", {"commit": commit}, lambda: verdict_row)
    members = [member.id.removeprefix(f"{run.id}/") for member in _acting(result)]
    note = run.extensions.notes.claim_note(commit, members, judged.verdict)
    if parts:
        note += "\n" + run.extensions.notes.attribution_note(name, parts)
    text = noted(note, judged.verdict, run.ledger.head(f"{name}/verdict"))
    run.repo.note(commit, text, when=run.date(len(result.read), 970))


def _acting(result: SearchResult) -> list[Candidate]:
    """Returns all candidates except diagnostics, which have a verdict of their own."""
    return [candidate for candidate in result.candidates if candidate.factor != "diagnostics"]


def _lesson(judged: Judged, decided: Judged | None) -> Verdict:
    """Returns the verdict for a member's skill: its own, with the effect of the claim."""
    effect = decided.verdict.effect if decided else None
    return replace(judged.verdict, effect=effect)


def _of_member(
    run: Run,
    first: Version,
    result: SearchResult,
    member: Candidate,
    decided: Judged | None,
    share: Mapping[str, Any] | None,
) -> Judged:
    others = [other.id for other in _acting(result) if other is not member]
    claim: JSON = {"commit": result.version.commit, "against": first.commit, "with": others}
    kind, reasons = VerdictKind.INCONCLUSIVE, ["no claim was made"]
    if decided is not None:
        kind, reasons = decided.verdict.kind, list(decided.verdict.reasons[:1])
        if others and kind is not VerdictKind.PROMOTE:
            kind = VerdictKind.INCONCLUSIVE  # any member may be at fault
    if others:
        names = ", ".join(name.removeprefix(f"{run.id}/") for name in others)
        reasons.append(f"claimed together with {names}")
    if share:
        low, high = 100 * share["ci_low"], 100 * share["ci_high"]
        points = f"{100 * share['delta']:+.1f} points [{low:+.1f}, {high:+.1f}]"
        reasons.append(f"its share in the bundle (search split, training seed 0): {points}")
    evidence: JSON = {"judge": "bundle", "claim": claim, "share": dict(share) if share else None}
    refs = [ArmRef.from_json(ref) for ref in share["arms"]] if share else None
    verdict = Verdict(kind, tuple(reasons), evidence=evidence)
    return Judged(verdict, (refs[0], refs[1]) if refs else None)


def _shares(run: Run) -> dict[str, Mapping[str, Any]]:
    """Returns every member's recorded share in its bundle, by candidate."""
    bundles = run.ledger.outcomes("bundle", Bundle, run.id)
    return {share["candidate"]: share for bundle in bundles for share in bundle["shares"]}


def _brief(hypothesis: Hypothesis) -> str:
    """Returns a hypothesis in a few words: its rule, or the first half of its statement."""
    does, _, _ = hypothesis.statement.partition(" then ")
    return hypothesis.rule or f'"{shorten(does.strip(" ,"), 80, placeholder=" ...")}"'


def _with_company(result: SearchResult, member: Candidate) -> Candidate:
    """Returns the member with a statement that names the others it was proven with."""
    others = ", ".join(_brief(other.hypothesis) for other in _acting(result) if other is not member)
    if not others:
        return member
    hypothesis, company = member.hypothesis, f"(proven together with {others}, not alone)"
    does, then, hoped = hypothesis.statement.partition(" then ")  # a skill keeps the first half
    statement = f"{does} {company}{then}{hoped}"
    return replace(member, hypothesis=replace(hypothesis, statement=statement))
