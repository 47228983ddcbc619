"""From an idea to a draft: one sandbox, one dialogue, one set of edited files.

The second time, every reply comes from the record. So a sandbox that dies twice at the same work
was ended by what ran in it. That is the candidate's failure (`sandbox_died` ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from meta_agent.core.errors import CandidateError
from meta_agent.core.lab.fair import fairly
from meta_agent.core.proposals import Draft, Grant, Refused
from meta_agent.proposers.team._analyst import Idea
from meta_agent.proposers.team._author import Author, Finished, Reviewing
from meta_agent.proposers.team._case import AuthorCase, lines_on
from meta_agent.proposers.team._dialogue import Line, Spend
from meta_agent.proposers.team._experiments import UNPAID
from meta_agent.proposers.workbench import Workbench, open_workbench

_GAVE_UP = frozenset({"turn_limit", "token_limit", "looped", "no_tool_calls", "context_overflow"})


@dataclass(slots=True)
class Proposer:
    """Turns one idea into a candidate: a language model edits files in a sandbox."""

    case: AuthorCase
    index: int
    idea: Idea
    line: Line
    review: Reviewing
    edits: Mapping[str, bytes | None] = field(default_factory=dict)
    """What an earlier round had changed (None: removed), where a person asks for a revision."""
    feedback: str = ""
    grant: Grant = field(default_factory=Grant)
    _spend: Spend = field(default_factory=Spend)

    def draft(self) -> Draft | Refused:
        """Returns the candidate with its edited files, or the reason why there is none."""
        try:
            return fairly(self._draft)
        except CandidateError as error:
            statement = self.idea.hypothesis.statement
            spend = self._spend.to_json()
            return Refused(self.index, statement, str(error), error.reason, spend)

    def _draft(self) -> Draft:
        self._spend = Spend()
        with open_workbench(self.case.brief.host, self.index, self.case.evidence) as bench:
            bench.apply(self.edits)
            finished = self._work(bench)
            host = self.case.brief.host
            message = host.message(self.index, finished.hypothesis, finished.subject)
            edits = bench.edits()
        hypothesis, spend = finished.hypothesis, self._spend.to_json()
        return Draft(self.index, hypothesis, finished.subject, message, edits, spend)

    def _work(self, bench: Workbench) -> Finished:
        author = Author(self.case, self.idea, bench, self.line.fence, self.review, self.grant)
        values = {**self.case.values(), **self._opening(author.experiments.values())}
        dialogue = self.line.dialogue(values, author.tools(), self._spend)
        try:
            finished: Finished = dialogue.run()
        except CandidateError as error:
            raise _first_cause(error, author) from error
        return finished

    def _opening(self, experiments: Mapping[str, object] = UNPAID) -> Mapping[str, object]:
        hypothesis, fence = self.idea.hypothesis, self.line.fence
        return {
            "hypothesis": hypothesis,
            "idea": fence.wrap("the analyst's hypothesis and plan", _words(self.idea)),
            "feedback": self.feedback,
            "skills": [path for path in sorted(self.case.evidence) if path.endswith("/SKILL.md")],
            "replays": hypothesis.factor in ("reward", "filter"),
            **experiments,
        }


def _words(idea: Idea) -> str:
    statement, *lines = lines_on(idea.hypothesis)
    return "\n".join([f"hypothesis: {statement}", *lines, "", "plan:", idea.plan])


def _first_cause(error: CandidateError, author: Author) -> CandidateError:
    """Returns why a dialogue reached its limit: unfit work, no edit at all, or `error` itself."""
    if error.reason not in _GAVE_UP:
        return error
    cause = author.unfit
    if cause is None and error.reason == "turn_limit":
        cause = author.nothing_edited()
    if cause is None:
        return error
    return CandidateError(f"{cause} (then: {error})", reason=cause.reason)
