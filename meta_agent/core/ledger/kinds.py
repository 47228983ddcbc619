"""Every kind of step that the ledger holds: its key, who writes it, and the type of its outcome.

The type checker knows no other kind, so no other can be written or read by mistake. The test
`tests/ledger/test_kinds.py` compares this table with the source. A step's key is the run's id and
the key given here. An outcome may also hold `rollouts` and `train_steps`: what *this* step itself
used, not what steps nested in it used. What not every run records is `NotRequired`.

Does not cover: hostile ledgers. Reports read tolerantly (`reports.reducer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypedDict

StepKind = Literal[
    "attribution", "baseline", "bundle", "candidate", "cell",
    "checkpoint", "claim", "clock", "decision", "diagnostic", "discrimination", "drift",
    "escalation", "eval", "evidence", "experiment", "handover", "lead", "leg", "live", "merge",
    "passes", "proposal", "race", "ref", "results", "revert", "revision", "screen", "skill",
    "start", "tasks", "train", "untrained", "vault", "verdict", "visible", "warmup",
]  # fmt: skip

Standing = Literal["proven", "unproven", "start", "trained", "trained in vain"]
TRAINED: Final[Standing] = "trained"
TRAINED_IN_VAIN: Final[Standing] = "trained in vain"
"""What a single training without a search ends with, by whether it gained on the search tasks."""


class Refused(TypedDict):
    """A proposed idea that was refused before it became a candidate, and the reason."""

    statement: str
    code: str
    reason: str
    index: NotRequired[int]


class Share(TypedDict):
    """How much clean success a candidate adds to the others that were trained together with it."""

    candidate: str
    delta: float
    ci_low: float
    ci_high: float


class Gap(TypedDict):
    """A change of clean success from one version to the next, and whether no metric explains it."""

    unexplained: bool
    delta: float
    z: float


class Evidence(TypedDict):
    """What a generation saw in a version's attempts: metrics, alerts, faults and examples."""

    generation: int
    version: str
    layers: dict[str, dict[str, float]]
    alerts: list[dict[str, object]]
    findings: list[dict[str, object]]
    exemplars: NotRequired[dict[str, list[dict[str, object]]]]
    gap: NotRequired[Gap | None]


class Proposal(TypedDict):
    """The candidates that were proposed in one generation.

    `nothing` says why there are none; `noted` is the proposer's note for later generations.
    `measured` holds the keys of the measurements that the proposers made.
    """

    generation: int
    candidates: list[str]
    skills: list[str]
    bottleneck: NotRequired[str]
    refused: NotRequired[list[Refused]]
    nothing: NotRequired[str]
    noted: NotRequired[str]
    measured: NotRequired[list[str]]


class Candidate(TypedDict):
    """One proposed change: its commit, the commit it edits, its hypothesis and changed paths."""

    id: str
    run: str
    generation: int
    index: int
    ref: str
    base: str
    commit: str
    tree_hash: str
    factor: str
    hypothesis: dict[str, object]
    paths: list[str]
    diff: NotRequired[str]


class Screen(TypedDict):
    """The result of one check of a candidate, such as contract tests, before it is measured."""

    candidate: str
    stage: Literal["static", "contract", "replay", "seed"]
    passed: bool
    reasons: NotRequired[list[str]]
    numbers: NotRequired[dict[str, object]]


class Live(TypedDict):
    """One interim analysis of a run's claim, the test of its result against the start."""

    candidate: str
    split: str
    claim: NotRequired[Literal["harness", "version"]]
    verdict: NotRequired[dict[str, object]]
    numbers: NotRequired[dict[str, object]]
    arms: NotRequired[list[dict[str, object]]]


class Scored(TypedDict):
    """The predicted and the measured change of the metric that a hypothesis names."""

    metric: str
    predicted: float
    realised: float


class Verdict(TypedDict):
    """The verdict on a candidate. `arms` says where the outcomes behind it are stored."""

    candidate: str
    commit: str
    kind: str
    reasons: list[str]
    arms: NotRequired[list[dict[str, object]] | None]
    effect: NotRequired[dict[str, object] | None]
    screened_out: NotRequired[bool]
    evidence: NotRequired[dict[str, object]]
    calibration: NotRequired[Scored | None]


class Merge(TypedDict):
    """A merge of a candidate into the branch `main`, with the version that it made."""

    candidate: str
    commit: str
    version: str
    generation: int
    policy: NotRequired[str]
    verdict: NotRequired[dict[str, object]]
    undone: NotRequired[bool]
    attribution: NotRequired[dict[str, object]]


class Cell(TypedDict):
    """The result on the search split of some candidates that were merged and trained together."""

    generation: int
    name: str
    members: list[str]
    commit: str
    n: int
    clean_success: float | None
    delta: float | None
    valid: bool
    vetoes: list[dict[str, object]]
    failed: bool


class Bundle(TypedDict):
    """How a generation's candidates did when trained together, and once without each of them.

    `chosen` is the combination that the next generation builds on, or None.
    """

    generation: int
    clean_success: float
    cells: list[str]
    chosen: str | None
    members: list[str]
    shares: list[Share]


_Kept = TypedDict("_Kept", {"kept": NotRequired[list[object]]})  # noqa: UP013 - a stored key


class Train(_Kept):
    """The stored result of one training run: policy, seed, steps, metrics and checkpoints."""

    policy: str
    path: str
    seed: int
    steps: int
    shard: dict[str, object] | None
    metrics: list[object]
    train_steps: NotRequired[int]
    rollouts: NotRequired[int]


class Warmup(TypedDict):
    """The attempts that a run's trainings first imitate: their number and their file's SHA-256.

    `left_out` counts, by reason, the attempts of the source that are not imitated.
    """

    rows: int
    sha256: str
    left_out: NotRequired[dict[str, int]]


class Stored(TypedDict):
    """The result of an evaluation: where its attempts are stored, and how many were solved."""

    shard: dict[str, object]
    planned: int
    solved: int
    clean: int
    seed: int
    rollouts: NotRequired[int]
    served: NotRequired[list[str]]


class Commit(TypedDict):
    """The outcome of a step that made or chose one git commit."""

    commit: str


class Clock(TypedDict):
    """The time at a run's start, in seconds since the epoch."""

    at: int


class Drift(TypedDict):
    """The check whether the served model changed during a run, by two measurements of the start.

    `before` and `after` are the shares of solved attempts early in the run and before its final
    comparison; `p` is the p-value of their difference.
    """

    attempts: int
    before: float
    after: float
    p: float


class Half(TypedDict):
    """The keys of the tasks that a run searches on, if a small task set was halved for it."""

    search: list[str]


@dataclass(frozen=True, slots=True)
class Wrote:
    """How a kind of step is recorded: its key, the modules that write it, its outcome's type.

    If `outcome` is None, the outcome's form is defined in the module that writes it.
    """

    key: str
    writers: tuple[str, ...]
    outcome: type | None = None
    in_views: bool = False
    """True if the views of a run's state include steps of this kind."""


_V: Final = "core/loop/verbs"
KINDS: Final[Mapping[StepKind, Wrote]] = {
    "clock": Wrote("clock", ("composition/opening",), Clock),
    "start": Wrote("start", ("core/loop/loop",), Commit),
    "visible": Wrote("visible", ("composition/visible",), in_views=True),
    "warmup": Wrote("warmup", ("core/lab/live",), Warmup),
    "train": Wrote("train/NAME", ("core/lab/live",), Train),
    "eval": Wrote("eval/NAME", ("core/lab/live",), Stored),
    "baseline": Wrote("baseline", (f"{_V}/collect",), in_views=True),
    "evidence": Wrote("gN/evidence", (f"{_V}/collect",), Evidence, in_views=True),
    "untrained": Wrote("gN/untrained", (f"{_V}/collect",)),
    "diagnostic": Wrote("diagnostics", ("core/loop/diagnostics/tend",)),
    "experiment": Wrote("gN/experiment/TREE-HOW", (f"{_V}/_experiments",)),
    "proposal": Wrote("gN/propose", (f"{_V}/propose",), Proposal, in_views=True),
    "candidate": Wrote("gN/cK", (f"{_V}/propose",), Candidate, in_views=True),
    "revision": Wrote("gN/cK/revision", (f"{_V}/propose",), in_views=True),
    "screen": Wrote("gN/cK/STAGE", (f"{_V}/test",), Screen, in_views=True),
    "decision": Wrote("gN/cK/approve/GATE", (f"{_V}/approve",), in_views=True),
    "discrimination": Wrote("gN/cK/discriminate", ("core/loop/diagnostics/discriminate",)),
    "cell": Wrote("gN/cell/COMMIT", (f"{_V}/cells",), Cell, in_views=True),
    "bundle": Wrote("gN/bundle", (f"{_V}/bundle",), Bundle, in_views=True),
    "escalation": Wrote("gN/escalate/STEP", ("core/loop/escalate",), in_views=True),
    "race": Wrote("race/WHAT/K", ("strategies/race",)),
    "passes": Wrote("warm-up/passes", ("strategies/warm_up",)),
    "leg": Wrote("leg/N", ("strategies/leg",)),
    "tasks": Wrote("race/tasks", ("core/loop/spending",), Half),
    "drift": Wrote("race/again", ("core/loop/drift",), Drift),
    "claim": Wrote("claim/begun", ("core/loop/spending",)),
    "lead": Wrote("gN/lead", (f"{_V}/bundle", f"{_V}/hand_over", "strategies/race"), in_views=True),
    "live": Wrote("claim/KIND/LOOK", (f"{_V}/claim",), Live, in_views=True),
    "checkpoint": Wrote("checkpoint", (f"{_V}/train_on",)),
    "attribution": Wrote("claim/attribution", (f"{_V}/attribute",)),
    "ref": Wrote("claim/ref", (f"{_V}/promote",), Commit),
    "merge": Wrote("claim/merge", (f"{_V}/promote", "strategies/_baselines"), Merge, in_views=True),
    "verdict": Wrote("gN/cK/verdict", (f"{_V}/learn", f"{_V}/members"), Verdict, in_views=True),
    "skill": Wrote("gN/cK/skill", (f"{_V}/learn",), in_views=True),
    "handover": Wrote("handover", ("core/loop/finish",), in_views=True),
    "vault": Wrote("vault/WHICH", ("core/loop/finish",), in_views=True),
    "results": Wrote("vault/results", ("core/loop/results",), in_views=True),
    "revert": Wrote("revert/COMMIT", ("studies/story",), in_views=True),
}
