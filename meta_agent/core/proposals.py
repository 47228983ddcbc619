"""What a proposer is given, and what it hands back.

`Proposer` is all that the loop knows. Rules and language models stand behind it. A draft of either
is a pack from a sandbox, which only the quarantine turns into a candidate.

Does not cover: whether a draft is admitted, tested or any good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol

from meta_agent.core.diagnostic_library import Lead
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
    """One earlier hypothesis and what came of it, as the ledger knows it."""

    rule: str
    base: str
    verdict: VerdictKind
    screened_out: bool = False


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """One earlier attempt. `verdict` is `REFUSED` where no candidate came of it; `KEPT` or `TRIED`
    while a bundle was measured and the claim is to come: what was gone on from has it, or not.
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
    """What the files are made of."""

    version: str
    evidence: Evidence
    findings: Sequence[Finding]
    rollouts: Sequence[Rollout]
    train_metrics: Sequence[Mapping[str, JSON]] = ()
    untrained: Evidence | None = None
    """The base policy under the version, with the first groups of its training."""
    before: Sequence[Rollout] = ()
    """The base policy's attempts."""
    past: Sequence[PastAttempt] = ()
    noted: Sequence[tuple[str, str]] = ()
    skills: Sequence[Skill] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """What the evaluator and the environment tell anybody: limits and tool names."""

    ceilings: Ceilings | None = None
    tools: Sequence[str] = ()  # as the environment documents them
    train_tasks: int = 0
    leads: Sequence[Lead] = ()
    """Numbers that tell past versions apart, best first, where a gap asks for one."""
    weights: Literal["nano", "full", "lora", "frozen"] = "nano"
    """How the policy learns: our own small model, all pretrained weights, adapters, or not."""
    temperature: float | None = None
    """At which the evaluator samples the policy."""
    solutions: Callable[[], Sequence[tuple[str, str]]] = tuple
    """Requests of training tasks with replies that solve them, in the order of the task file."""
    attempts: Callable[[], Sequence[Rollout]] = tuple
    """The version's attempts on the search and train splits, read when somebody asks."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a check of a draft found, as text for whoever is making it."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class EditTrial:
    """An experiment that rolls an edit out: whose policy acts, on how many tasks of which split."""

    policy: Literal["base", "trained"]
    split: Literal["search", "train"]
    tasks: int


@dataclass(frozen=True, slots=True)
class Grant:
    """What the experiments of one dialogue may take; without attempts there are none."""

    attempts: int = 0
    declared: int = 0
    """What all dialogues of the generation may take together."""
    steps: int = 0
    """Of a short training."""
    version: int = 0
    """Attempts for the version's side of the first short training."""
    edit: int = 0
    """Attempts for an edit's side of each."""
    cell: int = 0
    """Attempts for a cell of the bundle, which the search's share pays for, too."""


class CloneSource(NamedTuple):
    """A sandbox in which one candidate is made, and what to clone into it."""

    sandbox: Sandbox
    repo: HarnessRepo
    base: str
    """The commit of the version that the candidate starts from."""
    when: int
    """Dates the candidate's first commit, in seconds since the epoch."""


class HostServices(Protocol):
    """What the host does for an agent that proposes; any thread may ask."""

    def sandbox(self, index: int) -> AbstractContextManager[CloneSource]:
        """Opens a sandbox for candidate `index`. It is closed when the context ends."""
        ...

    def message(self, index: int, hypothesis: Hypothesis, subject: str) -> str:
        """The commit message with its trailers."""
        ...

    def contract_tests(self, tree: HarnessTree) -> Rehearsal:
        """Static checks and contract tests of a draft, in a fresh sandbox."""
        ...

    def replay(self, tree: HarnessTree) -> Rehearsal:
        """Stored training rollouts scored again under a draft's reward and filter."""
        ...

    def lend(self, who: str, sharing: int) -> Grant:
        """What is left for experiments, in equal parts for those whose dialogues begin now."""
        ...

    def quote(self, tree: HarnessTree, trial: EditTrial | None) -> int:
        """The attempts of an experiment (None: a short training) with an edit that passes all
        checks. CandidateError says why this one does not.
        """
        ...

    def experiment(self, tree: HarnessTree, trial: EditTrial | None) -> Rehearsal:
        """Carries it out in sandboxes, once: asked again it is read from the journal."""
        ...

    def sample(
        self, trees: Sequence[HarnessTree], tasks: int | None
    ) -> Sequence[Mapping[str, bool] | None]:
        """Whether the base policy solves cleanly under each of these, by task: the first `tasks`
        of the search split (None: all), one attempt each. None where one cannot be measured.
        """
        ...

    def tell(self, text: str) -> None:
        """A line for whoever watches the run. Called from one thread, in the same order always."""
        ...

    def stopping(self) -> bool:
        """Whether the user asked to stop."""
        ...


@dataclass(frozen=True, slots=True)
class Brief:
    """Everything a meta-agent is told about one generation."""

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
    """The evidence as files, made when somebody reads them (see `evidence_files`)."""
    terms: tuple[str, ...] = ()
    """How candidates will be judged in this run, in sentences."""
    factors: tuple[Factor, ...] = FACTORS
    """What a change may be about in this run: a frozen policy leaves out what acts by training."""
    situation: Situation | None = None
    untrained: Evidence | None = None
    """What the base policy does under this harness; None where nothing is trained."""
    bundled: bool = False
    """Whether ideas that merge are tried together and each left out, or one at a time."""
    feedback: tuple[str, ...] = ()
    """What people said about earlier candidates of this run, oldest first."""

    @property
    def invalid(self) -> bool:
        """The version's own score is not what it seems: repair it first."""
        return any(finding.severity == "veto" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Draft:
    """A candidate that was committed in a sandbox and is not admitted yet."""

    index: int
    hypothesis: Hypothesis
    subject: str
    message: str  # what the host wants to read on the one commit
    tip: str  # a claim of the sandbox
    pack: bytes
    spend: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """An attempt that made no draft. `code` is a stable word, `reason` a sentence."""

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
    """What a meta-agent made of a brief."""

    attempts: Sequence[Draft | Refused] = ()
    """At most `brief.k`, by index."""
    nothing: str = ""
    """Why there is nothing to try from this version, where that is what it found."""
    noted: str = ""
    """What it wants to be remembered in later generations."""


RULES: Final = "rules"
"""The author of a proposer that asks no language model."""


class Proposer(Protocol):
    """Reads a version's evidence and hands back drafts."""

    @property
    def author(self) -> str:
        """The model that writes the edits, or `RULES`."""
        ...

    def propose(self, brief: Brief) -> Proposed:
        """Returns drafts. A repeated call costs nothing: what models said is recorded."""
        ...

    def revise(
        self,
        brief: Brief,
        index: int,
        hypothesis: Hypothesis,
        edits: Mapping[str, bytes | None],
        feedback: str,
    ) -> Draft | Refused:
        """Returns a candidate again, as candidate `index`, after what a person said of it.

        `edits` is what the candidate changed against the version (None: removed). Never called if
        the author is `RULES`.
        """
        ...

    def lesson(
        self,
        draft: SkillDraft,
        candidate: Candidate,
        verdict: Verdict,
        diff: str,
        *,
        prediction: str = "",
    ) -> SkillDraft:
        """Returns the draft of a skill in the author's words.

        `prediction` says what was predicted of the hypothesis's metric, and what came of it.
        """
        ...
