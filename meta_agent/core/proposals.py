"""What a proposer receives, and what it returns. A proposer suggests changes of the harness.

`Proposer` is all that the loop knows. Rules and language models implement it. A draft of either is
a set of edited files, which becomes a candidate only after the checks of `HarnessRepo.admit`.

Does not cover: whether a draft is admitted, tested or any good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol

from meta_agent.core.evidence import Evidence
from meta_agent.core.gate import Finding
from meta_agent.core.history import HarnessRepo
from meta_agent.core.protocols import (
    FACTORS,
    JSON,
    Candidate,
    Ceilings,
    Factor,
    HarnessTree,
    Hypothesis,
    Rollout,
    Sandbox,
    Verdict,
    VerdictKind,
)
from meta_agent.core.skills import Skill, SkillDraft

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class TriedIdea:
    """An earlier idea: rule, base commit, verdict, and whether it failed before the final test."""

    rule: str
    base: str
    verdict: VerdictKind
    screened_out: bool = False


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """One earlier proposal of a change, and what became of it.

    `verdict` is also `REFUSED` if no candidate came of it. Before the final test it is `KEPT` if
    the next version builds on the change, else `TRIED`.
    """

    name: str
    statement: str
    verdict: str
    reasons: tuple[str, ...] = ()
    factor: Factor | None = None
    hypothesis: Hypothesis | None = None
    same_base: bool = False  # it started from the version under study
    realised: float | None = None
    delta: tuple[float, float, float] | None = None  # clean success and its interval
    paths: tuple[str, ...] = ()
    diff: str = ""
    screened_out: bool = False
    caveat: str = ""  # why the verdict says little about the idea itself


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """The data on a harness version from which the evidence files for a proposer are made."""

    version: str
    evidence: Evidence
    findings: Sequence[Finding]
    rollouts: Sequence[Rollout]
    train_metrics: Sequence[Mapping[str, JSON]] = ()
    untrained: Evidence | None = None
    """The metrics of the base policy under the version, from the first groups of its training."""
    before: Sequence[Rollout] = ()
    """The base policy's attempts."""
    past: Sequence[PastAttempt] = ()
    noted: Sequence[tuple[str, str]] = ()
    skills: Sequence[Skill] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """The limits, tool names and settings of a run that a proposer may know."""

    ceilings: Ceilings | None = None
    tools: Sequence[str] = ()  # as the environment documents them
    train_tasks: int = 0
    weights: Literal["nano", "full", "lora", "frozen"] = "nano"
    """How the policy learns: the small built-in model, all pretrained weights, adapters, or not
    at all.
    """
    solutions: Callable[[], Sequence[tuple[str, str]]] = tuple
    """Requests of training tasks with replies that solve them, in the order of the task file."""
    reply_tokens: Callable[[], int] = int
    """Returns a limit of tokens for a reply that is nothing but an answer; 0 if none is known."""
    easier: str = ""
    """Generators of easier training tasks, as `generate` in a recipe declares them, if known."""
    attempts: Callable[[], Sequence[Rollout]] = tuple
    """Reads the version's attempts on the search and train splits when it is called."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A report on an edited harness. `ok` is True if it passed the checks, or could be measured."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class EditTrial:
    """An experiment with an edited harness: which policy acts, on how many tasks of which split."""

    policy: Literal["base", "trained"]
    split: Literal["search", "train"]
    tasks: int


@dataclass(frozen=True, slots=True)
class Grant:
    """How many attempts a proposer may use for experiments, and how many each experiment takes."""

    attempts: int = 0
    declared: int = 0
    """How many attempts all dialogues of the generation may use together."""
    steps: int = 0
    """Optimiser steps of a short training."""
    version: int = 0
    """Attempts for the unchanged version in the first short training."""
    edit: int = 0
    """Attempts for an edit in each short training."""
    cell: int = 0
    """Attempts to measure a bundle of edits, which the search's share pays for, too."""


class CloneSource(NamedTuple):
    """A sandbox in which one candidate is made, and the repository and commit to clone there."""

    sandbox: Sandbox
    repo: HarnessRepo
    base: str
    """The commit of the version that the candidate starts from."""
    when: int
    """The date of the candidate's first commit, in seconds since the epoch."""


class HostServices(Protocol):
    """What a proposer may ask of the host, such as a sandbox. Any thread may call it."""

    def sandbox(self, index: int) -> AbstractContextManager[CloneSource]:
        """Opens a sandbox to make candidate `index` in, until the `with` block ends."""
        ...

    def message(self, index: int, hypothesis: Hypothesis, subject: str) -> str:
        """Returns the commit message of candidate `index`; `subject` says what it changes."""
        ...

    def contract_tests(self, tree: HarnessTree) -> Rehearsal:
        """Returns a report on static checks and contract tests of a changed harness."""
        ...

    def replay(self, tree: HarnessTree) -> Rehearsal:
        """Returns a report on how a changed harness's reward and filter score stored rollouts."""
        ...

    def lend(self, sharing: int = 1) -> Grant:
        """Returns the attempts that one of `sharing` proposers may use of those left."""
        ...

    def quote(self, tree: HarnessTree, trial: EditTrial | None) -> int:
        """Returns how many attempts an experiment with an edited harness takes.

        If `trial` is None, it is a short training. Raises CandidateError if the edit fails a check.
        """
        ...

    def experiment(self, tree: HarnessTree, trial: EditTrial | None) -> Rehearsal:
        """Makes an experiment once and returns its report; without `trial`, a short training."""
        ...

    def tell(self, text: str) -> None:
        """Shows a line to people who watch the run. Must be called from one thread only."""
        ...

    def stopping(self) -> bool:
        """Returns True if the user asked to stop."""
        ...


@dataclass(frozen=True, slots=True)
class Brief:
    """Everything that a proposer receives in one generation of the search, to write its edits."""

    generation: int
    k: int
    domain: str
    tree: HarnessTree
    evidence: Evidence
    findings: tuple[Finding, ...]
    tried: Sequence[TriedIdea]
    skills: Sequence[Skill]
    host: HostServices
    files: Callable[[], Files] = dict
    """Makes the evidence as files when it is called (see `evidence_files`)."""
    terms: tuple[str, ...] = ()
    """Sentences on how candidates will be judged in this run."""
    factors: tuple[Factor, ...] = FACTORS
    """The factors (groups of harness files) that a change may touch. A frozen policy has fewer."""
    situation: Situation | None = None
    untrained: Evidence | None = None
    """The metrics of the base policy under this harness, or None if nothing is trained."""
    bundled: bool = False
    """True if ideas are tried together, and once without each.

    False if they are tried one at a time.
    """
    feedback: tuple[str, ...] = ()
    """What people said about earlier candidates of this run, oldest first."""

    @property
    def invalid(self) -> bool:
        """Returns True if the version's score is invalid, so that a repair has to come first."""
        return any(finding.severity == "veto" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed change of files, not yet admitted as a candidate."""

    index: int
    hypothesis: Hypothesis
    subject: str
    message: str  # of its commit, as the host writes it
    edits: Mapping[str, bytes | None]  # new contents by path; None: removed
    spend: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """A proposal that did not become a draft. `code` is a fixed word, `reason` a sentence."""

    index: int
    statement: str
    reason: str
    code: str
    spend: Mapping[str, JSON] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        row = {"statement": self.statement, "reason": self.reason, "code": self.code}
        return {**row, "index": self.index, "spend": dict(self.spend)}


@dataclass(frozen=True, slots=True)
class Proposed:
    """What a proposer returned: drafts of changes, and proposals that were refused."""

    attempts: Sequence[Draft | Refused] = ()
    """At most `brief.k`, by index; rules add a diagnostic."""
    nothing: str = ""
    """The proposer's reason if it found nothing to try from this version."""
    noted: str = ""
    """What the proposer wants to remember in later generations."""


RULES: Final = "rules"
"""The author's name of a proposer that asks no language model."""


class Proposer(Protocol):
    """Reads the metrics and attempts of a harness version and drafts changes of the harness."""

    author: str
    """The model that writes the edits, or `RULES`."""

    def propose(self, brief: Brief) -> Proposed:
        """Returns drafts of changes. A repeated call asks no model again: replies are recorded."""
        ...

    def revise(
        self,
        brief: Brief,
        index: int,
        hypothesis: Hypothesis,
        edits: Mapping[str, bytes | None],
        feedback: str,
    ) -> Draft | Refused:
        """Returns candidate `index` made anew after a person's feedback; by default, a refusal.

        `edits` is what the candidate changed, as content by path (None: removed). Proposers that
        are rules are not asked.
        """
        return Refused(index, hypothesis.statement, f"{self.author} revises nothing", "unrevised")

    def lesson(
        self,
        draft: SkillDraft,
        candidate: Candidate,
        verdict: Verdict,
        diff: str,
        *,
        prediction: str = "",
    ) -> SkillDraft:
        """Returns a skill's draft in the author's words; by default, the draft unchanged.

        `prediction` says how the hypothesis's metric was predicted to change, and how it did.
        """
        return draft
