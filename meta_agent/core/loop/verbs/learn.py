"""learn: verdicts are recorded, noted on their commits, and distilled into skills."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from meta_agent.core.gate import verdict_to_json
from meta_agent.core.ledger import kinds
from meta_agent.core.loop.records import Collected, Judged, Reading, machines_failed, proven
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.calibrate import calibration
from meta_agent.core.proposals import RULES
from meta_agent.core.protocols import JSON, Candidate, Verdict, VerdictKind
from meta_agent.core.skills import SkillDraft

NOTE_RECORD: Final = "Record: "
"""Begins the line of a git note that holds its verdict as JSON, and the journal's head."""


def conclude(
    run: Run, collected: Collected, candidate: Candidate, judged: Judged, reading: Reading
) -> None:
    """Records a verdict, and learns from it."""
    record(run, collected, candidate, judged, reading)
    learn(run, candidate, judged.verdict, reading)


def record(
    run: Run, collected: Collected, candidate: Candidate, judged: Judged, reading: Reading
) -> None:
    """The last word on a candidate: in the ledger, and as a git note on its commit."""
    verdict = judged.verdict
    run.once(
        f"{candidate.id}/verdict",
        "verdict",
        {"commit": candidate.commit},
        lambda: {
            **verdict_to_json(verdict),
            "candidate": candidate.id,
            "commit": candidate.commit,
            "base_invalid": reading.invalid,
            "arms": [ref.to_json() for ref in judged.arms] if judged.arms else None,
            "calibration": calibration(run, collected, candidate, judged),
        },
    )
    index = candidate.index
    head = run.ledger.head(f"{candidate.id}/verdict")
    text = run.extensions.notes.verdict_note(candidate, verdict)
    note = noted(text, verdict, head)
    run.repo.note(candidate.commit, note, when=run.date(candidate.generation, 950 + index))
    statement = candidate.hypothesis.statement
    run.display.verdict(candidate.id, candidate.factor, verdict, statement)


def learn(run: Run, candidate: Candidate, verdict: Verdict, reading: Reading) -> None:
    """Distils a skill from a promotion or an informative failure."""
    if not _informative(candidate, verdict, reading):
        return
    diff = run.repo.diff(candidate.base, candidate.commit)
    draft = run.skills.distil(
        candidate,
        verdict,
        diff,
        reading.evidence.to_json(),
        domain=run.config.domain,
        trusted_text=run.author == RULES,
    )
    if draft is None:
        return
    lesson = partial(
        run.extensions.proposer.lesson,
        draft,
        candidate,
        verdict,
        diff,
        prediction=_prediction(run, candidate),
    )
    skill = run.once(
        f"{candidate.id}/skill",
        "skill",
        {"candidate": candidate.id},
        lambda: _written(run, candidate, draft, lesson),
    )
    run.note(f"skill written: {skill['name']}")


def _informative(candidate: Candidate, verdict: Verdict, reading: Reading) -> bool:
    """Whether a verdict says something about the candidate's own idea.

    Under a version that was INVALID already, everything that leaves the flaw in is INVALID too:
    that condemns an idea only if mending the flaw was what it promised.
    """
    if machines_failed(verdict.evidence) or not proven(verdict):
        return False
    if verdict.kind is not VerdictKind.INVALID or not reading.invalid:
        return True
    metric = candidate.hypothesis.metric
    return "leak" in metric or "flag" in metric


def _prediction(run: Run, candidate: Candidate) -> str:
    """What the hypothesis's own metric did, where it was measured on both sides."""
    step = run.ledger.step(f"{candidate.id}/verdict")
    told = step.outcome_as(kinds.Verdict).get("calibration") if step and step.is_done else None
    if not told:
        return ""
    moved = f"predicted {told['predicted']:+.4g}, realised {told['realised']:+.4g}"
    return f"{told['metric']}: {moved}"


def _written(
    run: Run, candidate: Candidate, draft: SkillDraft, lesson: Callable[[], SkillDraft]
) -> JSON:
    """Stores the lesson in the author's words if they make a valid skill, else the draft."""
    try:
        return _write(run, candidate, lesson())
    except ValueError:
        return _write(run, candidate, draft)


def _write(run: Run, candidate: Candidate, draft: SkillDraft) -> JSON:
    skill = run.skills.write(draft)
    return {
        "name": skill.name,
        "path": str(skill.path),
        "candidate": candidate.id,
        "description": skill.description,
        "negative": skill.kind == "negative",
        "status": skill.status,
        "worth": skill.get("worth"),
    }


def noted(note: str, verdict: Verdict, head: str | None) -> str:
    """The note for people, and a last line with the verdict again, which `verify` looks for."""
    told = verdict_to_json(verdict)
    return recorded_in(note, {key: told[key] for key in ("kind", "effect", "reasons")}, head)


def recorded_in(note: str, told: Mapping[str, JSON], head: str | None) -> str:
    """A note that ends in JSON, and in what the journal's chain was when that was recorded."""
    return f"{note}\n\n{NOTE_RECORD}{json.dumps({**told, 'journal': head}, sort_keys=True)}"


def note_parts(note: str) -> list[tuple[str, Mapping[str, JSON]]]:
    """A note's parts: each ends in a line that holds its record, or has none."""
    parts: list[tuple[str, Mapping[str, JSON]]] = []
    text: list[str] = []
    for line in note.strip().splitlines():
        text.append(line)
        if line.startswith(NOTE_RECORD):
            parts.append(("\n".join(text).strip(), _record(line)))
            text = []
    return parts + ([("\n".join(text).strip(), {})] if text else [])


def _record(line: str) -> Mapping[str, JSON]:
    try:
        told = json.loads(line.removeprefix(NOTE_RECORD))
    except ValueError:
        return {}
    return told if isinstance(told, Mapping) else {}
