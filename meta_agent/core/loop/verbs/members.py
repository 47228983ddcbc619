"""members: the last word on the harness that was claimed, and on what is in it, one verdict each.

A member's verdict is the claim's: it was proven together with the others and not alone. Beside it
stands its share, what the bundle did on the search split with it and without it (training seed 0),
which explains and proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from textwrap import shorten
from typing import Any

from meta_agent.core.gate import verdict_to_json
from meta_agent.core.lab.live import ArmRef
from meta_agent.core.ledger.kinds import Bundle
from meta_agent.core.loop.records import Found, Judged, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.claim import CLAIM
from meta_agent.core.loop.verbs.learn import learn, noted, record
from meta_agent.core.protocols import JSON, Candidate, Hypothesis, Verdict, VerdictKind


def conclude_members(
    run: Run, first: Version, found: Found, decided: Judged | None, *, skills: bool
) -> None:
    """Records each member's verdict. Only what is proven over training seeds teaches, and of that
    only members that do something: whose share in their bundle is surely above nothing.
    """
    told = _shares(run)
    for member in _acting(found):
        share = told.get(member.id)
        judged = _of_member(run, first, found, member, decided, share)
        generation = found.read[member.generation]
        record(run, generation.collected, member, judged, generation.reading)
        if skills and (share is None or share["ci_low"] > 0):
            learn(run, _with_company(found, member), _lesson(judged, decided), generation.reading)


def conclude_claim(run: Run, found: Found, judged: Judged, parts: JSON = None) -> None:
    """Records the verdict on the whole, where `verify` finds it, and in a note on its commit.

    `parts` is its attribution, where it was merged.
    """
    commit, name = found.version.commit, f"{run.id}/{CLAIM}"
    told = {
        **verdict_to_json(judged.verdict),
        "candidate": name,
        "commit": commit,
        "base_invalid": False,
        "arms": [ref.to_json() for ref in judged.arms] if judged.arms else None,
        "calibration": None,
    }
    run.once(f"{name}/verdict", "verdict", {"commit": commit}, lambda: told)
    members = [one.id.removeprefix(f"{run.id}/") for one in _acting(found)]
    note = run.extensions.notes.claim_note(commit, members, judged.verdict)
    if parts:
        note += "\n" + run.extensions.notes.attribution_note(name, parts)
    text = noted(note, judged.verdict, run.ledger.head(f"{name}/verdict"))
    run.repo.note(commit, text, when=run.date(len(found.read), 970))


def _acting(found: Found) -> list[Candidate]:
    """All but diagnostics, which have a verdict of their own."""
    return [one for one in found.candidates if one.factor != "diagnostics"]


def _lesson(judged: Judged, decided: Judged | None) -> Verdict:
    """What a skill says: the claim's effect. What it came with is in its statement."""
    effect = decided.verdict.effect if decided else None
    return replace(judged.verdict, effect=effect)


def _of_member(
    run: Run,
    first: Version,
    found: Found,
    member: Candidate,
    decided: Judged | None,
    share: Mapping[str, Any] | None,
) -> Judged:
    others = [one.id for one in _acting(found) if one is not member]
    claim: JSON = {"commit": found.version.commit, "against": first.commit, "with": others}
    kind, reasons = VerdictKind.INCONCLUSIVE, ["no claim was made"]
    if decided is not None:
        kind, reasons = decided.verdict.kind, list(decided.verdict.reasons[:1])
        if others and kind is not VerdictKind.PROMOTE:
            kind = VerdictKind.INCONCLUSIVE  # nobody knows which of them is at fault
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
    """Every member's share in its bundle, as recorded."""
    bundles = run.ledger.outcomes("bundle", Bundle, run.id)
    return {share["candidate"]: share for bundle in bundles for share in bundle["shares"]}


def _brief(told: Hypothesis) -> str:
    """A hypothesis in a few words: its rule, or what it does."""
    does, _, _ = told.statement.partition(" then ")
    return told.rule or f'"{shorten(does.strip(" ,"), 80, placeholder=" ...")}"'


def _with_company(found: Found, member: Candidate) -> Candidate:
    """What its lesson says of it: proven together, not alone."""
    others = ", ".join(_brief(one.hypothesis) for one in _acting(found) if one is not member)
    if not others:
        return member
    told, company = member.hypothesis, f"(proven together with {others}, not alone)"
    does, then, hoped = told.statement.partition(" then ")  # a skill keeps what it does
    statement = f"{does} {company}{then}{hoped}"
    return replace(member, hypothesis=replace(told, statement=statement))
