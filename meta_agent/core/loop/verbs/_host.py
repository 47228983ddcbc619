"""The host's services for authors: sandboxes, commit messages, rehearsals and experiments.

A rehearsal runs the checks of `test` on a draft that is not admitted. It runs in a fresh sandbox
and decides nothing. Its author gets text without any number that varies between runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.history import candidate_message
from meta_agent.core.lab.fair import fairly
from meta_agent.core.loop.verbs._experiments import Experiments, checked
from meta_agent.core.loop.verbs.test import replayed
from meta_agent.core.proposals import CloneSource, Rehearsal
from meta_agent.core.protocols import JSON, HarnessTree, Hypothesis, SandboxLimits

WORKBENCH_SEC = 12 * 3600.0
"""Lifetime of an author's sandbox. It must outlive slow models and all experiments."""


class Host(Experiments):
    """What the host does for the authors of edits: sandboxes, checks, replays and experiments."""

    @contextmanager
    def sandbox(self, index: int) -> Iterator[CloneSource]:
        run, base = self.run, self.collected.version.commit
        limits = SandboxLimits(deadline_sec=WORKBENCH_SEC)
        sandbox = run.lab.open_sandbox(limits=limits)
        try:
            yield CloneSource(sandbox, run.repo, base, run.date(self.generation, index))
        finally:
            sandbox.close()

    def message(self, index: int, hypothesis: Hypothesis, subject: str) -> str:
        trailers = self.run.trailers(f"{self.run.id}/g{self.generation}/c{index}", hypothesis)
        return candidate_message(hypothesis, subject=subject, trailers=trailers)

    def contract_tests(self, tree: HarnessTree) -> Rehearsal:
        """Reports what static checks and, after them, stored rollouts say of an edited harness."""
        findings = checked(self.run, self.collected, tree)
        vetoed = any(finding.severity == "veto" for finding in findings)
        lines = (f"{f.severity}: {f.code}: {f.message}" for f in findings)
        return Rehearsal(not vetoed, "\n".join(lines) or "Static checks and contract tests pass.")

    def replay(self, tree: HarnessTree) -> Rehearsal:
        """Reports how a changed harness's reward and filter rank the stored training rollouts."""
        if self.collected.trained.shard is None:
            return Rehearsal(False, "There are no stored training rollouts to replay.")
        try:
            report = fairly(lambda: replayed(self.run, self.collected, tree))
        except (CandidateError, ConfigError) as error:
            return Rehearsal(False, f"The replay fails: {str(error)[:1000]}")
        return Rehearsal(True, "\n".join(_lines("", report.to_json())))

    def tell(self, text: str) -> None:
        self.run.note(text)

    def stopping(self) -> bool:
        return self.run.stopping()


def _lines(name: str, value: JSON) -> Iterator[str]:
    """Yields nested numbers as `name: value` lines with four significant digits."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _lines(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, float):
        yield f"{name}: {value:.4g}"
    elif isinstance(value, list | tuple) and any(isinstance(i, list | dict) for i in value):
        for at, inner in enumerate(value[:20]):
            yield from _lines(f"{name}[{at}]", inner)
    else:
        yield f"{name}: {value}"
