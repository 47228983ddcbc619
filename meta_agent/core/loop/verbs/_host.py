"""The host's side of a proposal: sandboxes to work in, commit messages, and rehearsals.

A rehearsal is what `test` will do later, on a draft that is not admitted: it runs in a fresh
sandbox, decides nothing, and is told to the author as text with no number that varies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.gate import Finding
from meta_agent.core.history import candidate_message
from meta_agent.core.lab.fair import fairly
from meta_agent.core.loop.records import Collected
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs._experiments import Experiments, checked
from meta_agent.core.loop.verbs.test import replayed
from meta_agent.core.proposals import CloneSource, EditTrial, Grant, Rehearsal
from meta_agent.core.protocols import JSON, HarnessTree, Hypothesis, SandboxLimits

WORKBENCH_SEC = 12 * 3600.0
"""A proposer's sandbox outlives a slow model's dialogue, and the experiments of all of them."""


@dataclass(frozen=True, slots=True)
class Host:
    """`HostServices` of one generation."""

    run: Run
    collected: Collected
    generation: int
    experiments: Experiments = field(init=False)

    def __post_init__(self) -> None:
        experiments = Experiments(self.run, self.collected, self.generation)
        object.__setattr__(self, "experiments", experiments)

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
        """Static checks; where they pass, contract tests on rollouts that were really made."""
        found = checked(self.run, self.collected, tree)
        vetoed = any(finding.severity == "veto" for finding in found)
        return Rehearsal(not vetoed, _told(found) or "Static checks and contract tests pass.")

    def replay(self, tree: HarnessTree) -> Rehearsal:
        """How the draft's reward and filter order the stored training rollouts."""
        if self.collected.trained.shard is None:
            return Rehearsal(False, "There are no stored training rollouts to replay.")
        try:
            report = fairly(lambda: replayed(self.run, self.collected, tree))
        except (CandidateError, ConfigError) as error:
            return Rehearsal(False, f"The replay fails: {str(error)[:1000]}")
        return Rehearsal(True, "\n".join(_lines("", report.brief())))

    def lend(self, who: str, sharing: int) -> Grant:
        return self.experiments.lend(who, sharing)

    def quote(self, tree: HarnessTree, trial: EditTrial | None) -> int:
        """The attempts of an experiment with an edit that passes all checks."""
        return self.experiments.quote(tree, trial)

    def experiment(self, tree: HarnessTree, trial: EditTrial | None) -> Rehearsal:
        return self.experiments.experiment(tree, trial)

    def sample(
        self, trees: Sequence[HarnessTree], tasks: int | None
    ) -> list[Mapping[str, bool] | None]:
        """What the base policy solves cleanly under each of these, by task of the search split."""
        return self.experiments.sample(trees, tasks)

    def tell(self, text: str) -> None:
        self.run.note(text)

    def stopping(self) -> bool:
        return self.run.stopping()


def _told(found: Sequence[Finding]) -> str:
    return "\n".join(f"{one.severity}: {one.code}: {one.message}" for one in found)


def _lines(name: str, value: JSON) -> Iterator[str]:
    """Nested numbers as `name: value` lines, four significant digits."""
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
