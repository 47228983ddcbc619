"""The reviewer: reads a diff against its hypothesis before money is spent on measuring it.

The reviewer can only hold work back. What it approves still goes through the quarantine, the
checks and the gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meta_agent.core.errors import CandidateError
from meta_agent.core.protocols import Hypothesis
from meta_agent.proposers.team._case import AuthorCase, lines_on
from meta_agent.proposers.team._dialogue import Line
from meta_agent.proposers.team._fence import clip
from meta_agent.proposers.team._file_tools import reading_tools
from meta_agent.proposers.team._limits import DIFF_CHARS
from meta_agent.proposers.team._tools import TEXTS, Arguments, Done, Tool, ToolError, lines_of, tool


@dataclass(frozen=True, slots=True)
class Review:
    """A reviewer's decision on a candidate: whether it is approved, and the reasons."""

    approved: bool
    reasons: tuple[str, ...] = ()


def review(
    case: AuthorCase, line: Line, hypothesis: Hypothesis, diff: str, beside: Mapping[str, str]
) -> Review:
    """Returns a model's decision on a candidate's diff. Raises CandidateError if there is none.

    `beside` maps titles to texts that the model also gets: test results and the changed files.
    """
    fence = line.fence
    pages = (fence.wrap(name, text) for name, text in beside.items())
    values = {
        **case.values(),
        "hypothesis": fence.wrap("the hypothesis", "\n".join(lines_on(hypothesis))),
        "diff": fence.wrap("the diff against the version", clip(diff, DIFF_CHARS)),
        "beside": "\n\n".join(pages),
    }
    tools = [*reading_tools(case.files, fence), _decide()]
    try:
        answer: Review = line.dialogue(values, tools).run()
    except CandidateError as error:
        message = f"the reviewer came to no decision: {error}"
        raise CandidateError(message, reason="not_reviewed") from error
    return answer


def _decide() -> Tool:
    def decide(arguments: Arguments) -> str:
        approved = arguments.get("approve")
        if not isinstance(approved, bool):
            raise ToolError("'approve' must be true or false")
        reasons = lines_of(arguments, "reasons", most=8, limit=600)
        if not approved and not reasons:
            raise ToolError("a rejection needs reasons that the author can act on")
        raise Done(Review(approved, reasons))

    return tool(
        "decide",
        "Approves or rejects the change, with reasons that quote lines of the diff.",
        {"approve": {"type": "boolean"}, "reasons": TEXTS},
        decide,
        optional=("reasons",),
    )
