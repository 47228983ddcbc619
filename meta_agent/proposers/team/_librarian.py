"""The librarian: puts a verdict's lesson into words that the next reader finds and understands.

Numbers, provenance and code of a skill come from the host's own draft; the librarian writes its
description and its lesson. A reply that is unusable is no loss: the draft stands as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from meta_agent.core.errors import CandidateError, ProviderError
from meta_agent.core.protocols import Candidate, Verdict
from meta_agent.core.skills import SkillDraft
from meta_agent.llm_clients.scrubber import without_keys
from meta_agent.proposers.team._dialogue import Line
from meta_agent.proposers.team._fence import Fence, clip, visible
from meta_agent.proposers.team._limits import DIFF_CHARS
from meta_agent.proposers.team._tools import (
    TEXT,
    Arguments,
    Done,
    Tool,
    ToolError,
    line_of,
    text_of,
    tool,
)

_DESCRIPTION, _BODY, _BODY_LINES = 800, 6000, 120
_LINK = re.compile(r"\]\(|<[a-z/!]|https?://", re.IGNORECASE)
_OF_CODE = re.compile(r"\]\((scripts/|edit\.patch)")
_KEPT = ("## Expected outcome", "## Evidence", "## Validation", "## Applicability")


def lesson(
    draft: SkillDraft,
    candidate: Candidate,
    verdict: Verdict,
    diff: str,
    *,
    prediction: str,
    line: Line,
) -> SkillDraft:
    """Returns a skill (lesson) reworded by a model; unchanged if the model's reply is unusable."""
    values = _values(draft, candidate, verdict, diff, prediction, line.fence)
    try:
        words: Mapping[str, str] = line.dialogue(values, [_write()]).run()
    except CandidateError:
        return draft
    except ProviderError as error:
        if error.halts:
            raise
        return draft
    body = f"{_heading(draft.body)}\n\n{words['lesson']}\n\n{_measured(draft.body)}"
    return replace(draft, description=words["description"], body=without_keys(body))


def _values(
    draft: SkillDraft,
    candidate: Candidate,
    verdict: Verdict,
    diff: str,
    prediction: str,
    fence: Fence,
) -> dict[str, object]:
    hypothesis = candidate.hypothesis
    facts = [f"verdict: {verdict.kind}", *verdict.reasons]
    if verdict.effect is not None:
        effect = verdict.effect
        low, high = 100 * effect.ci_low, 100 * effect.ci_high
        gain = f"{100 * effect.delta:+.1f} points [{low:+.1f}, {high:+.1f}]"
        facts.append(f"gain in clean success {gain}, over {effect.pairs} pairs of attempts")
    if prediction:
        facts.append(prediction)
    return {
        "negative": draft.metadata.get("kind") == "negative",
        "domain": draft.metadata.get("domain", ""),
        "factor": candidate.factor,
        "hypothesis": fence.wrap(
            "the hypothesis", "\n".join([hypothesis.statement, *hypothesis.evidence])
        ),
        "verdict": fence.wrap("the verdict", "\n".join(facts)),
        "diff": fence.wrap("the diff", clip(diff, DIFF_CHARS)),
        "draft": fence.wrap("the draft that stands otherwise", draft.body),
    }


def _write() -> Tool:
    def write(arguments: Arguments) -> str:
        description = visible(line_of(arguments, "description", _DESCRIPTION))
        if "<" in description or ">" in description:
            raise ToolError("'description' must not hold < or >; leave them out")
        raise Done({"description": without_keys(description), "lesson": _lesson(arguments)})

    return tool(
        "write_skill",
        "Hands over the skill's description (one line: what, and when to use it) and its lesson.",
        {"description": TEXT, "lesson": {**TEXT, "description": "Markdown, sections from ##"}},
        write,
    )


def _lesson(arguments: Arguments) -> str:
    text = visible(text_of(arguments, "lesson")).strip()
    if not text or len(text) > _BODY or text.count("\n") >= _BODY_LINES:
        raise ToolError(f"'lesson' must have 1 to {_BODY} characters, below {_BODY_LINES} lines")
    if _LINK.search(text):
        raise ToolError("'lesson' must hold no links and no HTML; leave them out")
    if re.search(r"^(---|# )", text, re.MULTILINE):
        raise ToolError("the sections of 'lesson' must begin at ##; leave out front matter")
    return text


def _heading(body: str) -> str:
    return body.split("\n", 1)[0]


def _measured(body: str) -> str:
    """Returns the sections that the host writes: what was measured, and the code."""
    sections = re.split(r"\n\n(?=## )", body)
    return "\n\n".join(part for part in sections if part.startswith(_KEPT) or _OF_CODE.search(part))
