"""The LLM team behind `Proposer`: analyst, K proposers in parallel, reviewer, librarian.

Every request goes through one `ModelClient`, which holds the keys, meters and records. The team
has no state beside the record. After a restart it repeats its dialogues from the record for free,
up to where they broke off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from meta_agent.core.chat import ModelClient
from meta_agent.core.errors import CandidateError, Interrupted
from meta_agent.core.proposals import Brief, Draft, Grant, Proposed, Refused
from meta_agent.core.protocols import Candidate, Hypothesis, Role, Verdict
from meta_agent.core.skills import SkillDraft
from meta_agent.proposers.team._analyst import Analysis, Idea, analyst_dialogue, idea_of
from meta_agent.proposers.team._case import AuthorCase
from meta_agent.proposers.team._dialogue import Line
from meta_agent.proposers.team._librarian import lesson
from meta_agent.proposers.team._limits import LIMITS
from meta_agent.proposers.team._prompts import Prompts
from meta_agent.proposers.team._proposer import Proposer
from meta_agent.proposers.team._reviewer import Review, review

__all__ = ["LlmTeam", "idea_of"]

_ANALYSIS = "the analysis of the version"
_AT_ONCE = 8  # proposers


class LlmTeam:
    """Language models that find ideas, write and review edits, and put lessons into words."""

    def __init__(
        self,
        client: ModelClient,
        *,
        run: str,
        model_of: Callable[[Role], str],
        author: str = "",
        prompts: Path | None = None,
    ) -> None:
        """Files in the folder `prompts` replace built-in prompts; `author` is named in commits."""
        self.author = author or model_of("proposer")
        self._client, self._run, self._model_of = client, run, model_of
        self._prompts = Prompts(prompts)

    def propose(self, brief: Brief) -> Proposed:
        """Has one model find ideas, others write them in parallel; returns commits and refusals."""
        case, broken = AuthorCase(brief), threading.Event()
        line = self._line("analyst", f"g{brief.generation}/analyst", brief, broken)
        dialogue = analyst_dialogue(case, line, brief.host.lend())
        try:
            analysis: Analysis = dialogue.run()
        except CandidateError as error:
            spend = dialogue.spend.to_json()
            return Proposed([Refused(0, _ANALYSIS, str(error), error.reason, spend)])
        for index, idea in enumerate(analysis.ideas):
            hypothesis = idea.hypothesis
            brief.host.tell(f"idea {index}: {hypothesis.factor}: {hypothesis.statement}")
        if not analysis.ideas:
            return Proposed((), analysis.nothing, analysis.noted)
        grant = brief.host.lend(len(analysis.ideas))
        work = [
            self._proposer(case, index, idea, grant, broken)
            for index, idea in enumerate(analysis.ideas)
        ]
        return Proposed(self._together(work, broken), analysis.nothing, analysis.noted)

    def revise(
        self,
        brief: Brief,
        index: int,
        hypothesis: Hypothesis,
        edits: Mapping[str, bytes | None],
        feedback: str,
    ) -> Draft | Refused:
        """Has a model revise candidate `index`; returns the new commit, or why there is none.

        `edits` maps the candidate's paths to contents (None: removed). `feedback` is a person's.
        """
        idea = Idea(hypothesis, "A first version of this is in your clone.")
        grant = brief.host.lend()
        proposer = self._proposer(AuthorCase(brief), index, idea, grant, threading.Event())
        proposer.edits, proposer.feedback = edits, feedback
        return proposer.draft()

    def lesson(
        self,
        draft: SkillDraft,
        candidate: Candidate,
        verdict: Verdict,
        diff: str,
        *,
        prediction: str = "",
    ) -> SkillDraft:
        """Returns a skill (lesson) reworded by a model; unchanged if the model's reply is unusable.

        `prediction` compares the predicted with the measured change of the hypothesis's metric.
        """
        conversation = f"g{candidate.generation}/c{candidate.index}/librarian"
        line = self._line("librarian", conversation, None, threading.Event())
        return lesson(draft, candidate, verdict, diff, prediction=prediction, line=line)

    # --- inside --------------------------------------------------------------------------------

    def _line(
        self, role: Role, conversation: str, brief: Brief | None, broken: threading.Event
    ) -> Line:
        def stopping() -> bool:
            return broken.is_set() or (brief is not None and brief.host.stopping())

        access = self._client, role, self._model_of(role), LIMITS[role]
        return Line(*access, self._run, conversation, self._prompts, stopping)

    def _proposer(
        self, case: AuthorCase, index: int, idea: Idea, grant: Grant, broken: threading.Event
    ) -> Proposer:
        brief = case.brief
        base = f"g{brief.generation}/c{index}"

        def reviewed(
            hypothesis: Hypothesis, diff: str, beside: Mapping[str, str], look: int
        ) -> Review:
            conversation = f"{base}/reviewer" + (str(look) if look > 1 else "")
            line = self._line("reviewer", conversation, brief, broken)
            return review(case, line, hypothesis, diff, beside)

        line = self._line("proposer", f"{base}/proposer", brief, broken)
        return Proposer(case, index, idea, line, reviewed, grant=grant)

    def _together(self, work: list[Proposer], broken: threading.Event) -> list[Draft | Refused]:
        """Returns all drafts in order. An error of one proposer stops the others at a turn."""

        def draft_of(proposer: Proposer) -> Draft | Refused:
            try:
                return proposer.draft()
            except BaseException:
                broken.set()
                raise

        with ThreadPoolExecutor(min(_AT_ONCE, len(work)), "proposer") as pool:
            futures = [pool.submit(draft_of, proposer) for proposer in work]
        return _results(futures)


def _results(futures: list[Future[Draft | Refused]]) -> list[Draft | Refused]:
    """Returns every result, or raises the error that stopped the others."""
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, Interrupted)):
        raise error
    return [future.result() for future in futures]
