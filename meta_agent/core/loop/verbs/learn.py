"""Records verdicts, writes them as git notes, and distils skills from them."""

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
"""Prefix of the line in a git note that holds the verdict and the journal's head as JSON."""


def conclude(
    run: Run, collected: Collected, candidate: Candidate, judged: Judged, reading: Reading
) -> None:
    """Records the verdict on a candidate, and writes a skill if a test of the idea led to it."""
    record(run, collected, candidate, judged, reading)
    learn(run, candidate, judged.verdict, reading)


def record(
    run: Run, collected: Collected, candidate: Candidate, judged: Judged, reading: Reading
) -> None:
    """Records the final verdict on a candidate, in the ledger and as a git note, and shows it."""
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
    """Writes a skill (a lesson for later runs) if a test of the idea itself led to the verdict."""
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
    """Returns whether a verdict says something about the candidate's own idea.

    If the base version is INVALID, every candidate that keeps its flaw is INVALID too. That counts
    against an idea only if the idea promised to mend the flaw.
    """
    if machines_failed(verdict.evidence) or not proven(verdict):
        return False
    if verdict.kind is not VerdictKind.INVALID or not reading.invalid:
        return True
    metric = candidate.hypothesis.metric
    return "leak" in metric or "flag" in metric


def _prediction(run: Run, candidate: Candidate) -> str:
    """Returns how the hypothesis's own metric moved, or "" if a side was not measured."""
    step = run.ledger.step(f"{candidate.id}/verdict")
    prediction = (
        step.outcome_as(kinds.Verdict).get("calibration") if step and step.is_done else None
    )
    if not prediction:
        return ""
    moved = f"predicted {prediction['predicted']:+.4g}, realised {prediction['realised']:+.4g}"
    return f"{prediction['metric']}: {moved}"


def _written(
    run: Run, candidate: Candidate, draft: SkillDraft, lesson: Callable[[], SkillDraft]
) -> JSON:
    """Stores the author's version of the lesson if it is a valid skill, else the draft."""
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
    """Returns the note with a last line of JSON: the verdict, and `head`, the ledger's digest."""
    fields = verdict_to_json(verdict)
    return recorded_in(note, {key: fields[key] for key in ("kind", "effect", "reasons")}, head)


def recorded_in(note: str, fields: Mapping[str, JSON], head: str | None) -> str:
    """Returns the git note with a last line of JSON: `fields`, and the ledger's digest `head`."""
    return f"{note}\n\n{NOTE_RECORD}{json.dumps({**fields, 'journal': head}, sort_keys=True)}"


def note_parts(note: str) -> list[tuple[str, Mapping[str, JSON]]]:
    """Splits a git note into texts, each with the JSON object of its last line, or an empty one."""
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
        fields = json.loads(line.removeprefix(NOTE_RECORD))
    except ValueError:
        return {}
    return fields if isinstance(fields, Mapping) else {}
