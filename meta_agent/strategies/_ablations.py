"""`full` without one of its parts, so that `compare` can show what the part is worth.

`no-memory` proposes as if no idea had been tried before. `no-bundles` trains each idea alone on its
version, and goes on from the best. `no-leaving-out` trains the bundle, and no bundle without one of
its ideas. `no-diagnostics` stands in `_baselines`.

Not covered: `full` without its backtest, since a replay has no vote in `full`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.cells import ALL, Mix, mixed, short
from meta_agent.core.proposals import Brief, Draft, Proposed, Proposer, Refused
from meta_agent.core.protocols import Candidate, Hypothesis, Verdict
from meta_agent.core.skills import SkillDraft
from meta_agent.strategies.full import Full

_OF_THE_PAST = ("history", "calibration", "skills/")


class NoMemory(Full):
    """The default search, whose proposer does not learn what became of earlier ideas."""

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        run.extensions.proposer = _Forgetful(run.extensions.proposer)
        return super().carry_out(run, first)


class _Forgetful(Proposer):
    """A proposer that receives no verdicts, notes and skills."""

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer
        self.author = proposer.author

    def propose(self, brief: Brief) -> Proposed:
        return self._proposer.propose(_forgotten(brief))

    def revise(
        self,
        brief: Brief,
        index: int,
        hypothesis: Hypothesis,
        edits: Mapping[str, bytes | None],
        feedback: str,
    ) -> Draft | Refused:
        return self._proposer.revise(_forgotten(brief), index, hypothesis, edits, feedback)

    def lesson(
        self,
        draft: SkillDraft,
        candidate: Candidate,
        verdict: Verdict,
        diff: str,
        *,
        prediction: str = "",
    ) -> SkillDraft:
        return self._proposer.lesson(draft, candidate, verdict, diff, prediction=prediction)


def _forgotten(brief: Brief) -> Brief:
    def files() -> dict[str, bytes]:
        pages = brief.files().items()
        return {path: page for path, page in pages if not path.startswith(_OF_THE_PAST)}

    return replace(brief, tried=(), skills=(), feedback=(), files=files)


class NoBundles(Full):
    """The default search with each idea trained alone."""

    @staticmethod
    def mixes(run: Run, base: str, members: Sequence[Candidate]) -> list[Mix]:
        return [mixed(run, base, f"only {short(run, member)}", [member]) for member in members]


class NoLeavingOut(Full):
    """The default search, which keeps or drops a bundle as a whole."""

    @staticmethod
    def mixes(run: Run, base: str, members: Sequence[Candidate]) -> list[Mix]:
        return [mixed(run, base, ALL, members)]
