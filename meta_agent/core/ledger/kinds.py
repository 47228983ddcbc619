"""Every kind of step that the ledger holds: its key, who writes it, and the type of its outcome.

The type checker knows no other kind, so no other can be written or read by mistake. The test
`tests/ledger/test_kinds.py` compares this table with the source. A step's key is the run's id and
the key given here. An outcome may also hold `rollouts` and `train_steps`: what *this* step itself
used, not what steps nested in it used. What older versions did not record is `NotRequired`.

Does not cover: hostile ledgers. Reports read tolerantly (`reports.state`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypedDict

Kind = Literal[
    "attribution", "baseline", "budget", "bundle", "calibration", "candidate", "cell",
    "checkpoint", "claim", "clock", "decision", "diagnostic", "discrimination", "drift", "eval",
    "evidence", "experiment", "handover", "lead", "live", "merge", "plan", "proposal", "race",
    "ref", "results", "revert", "revision", "screen", "skill", "start", "tasks", "train",
    "untrained", "vault", "verdict", "visible", "warmup",
]  # fmt: skip


class Refused(TypedDict):
    """A draft of a candidate that was refused before any check, and the reason."""

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
    """A change of clean success between two versions, and whether no metric explains it."""

    unexplained: bool
    delta: float
    z: float


class Evidence(TypedDict):
    """What a generation reports about a version: metrics, alerts, faults and example attempts."""

    generation: int
    version: str
    layers: dict[str, dict[str, float]]
    alerts: list[dict[str, object]]
    findings: list[dict[str, object]]
    exemplars: NotRequired[dict[str, list[dict[str, object]]]]
    gap: NotRequired[Gap | None]


class Proposal(TypedDict):
    """The candidates of one generation.

    `nothing` says why there are none; `noted` is the proposer's note for later generations.
    """

    generation: int
    candidates: list[str]
    skills: list[str]
    bottleneck: NotRequired[str]
    refused: NotRequired[list[Refused]]
    nothing: NotRequired[str]
    noted: NotRequired[str]


class Candidate(TypedDict):
    """One proposed change: its commit, its base, its hypothesis and the paths that it changes."""

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
    """The result of one check of a candidate (static, contract, ...) before it is measured."""

    candidate: str
    stage: Literal["static", "contract", "replay", "seed"]
    passed: bool
    reasons: NotRequired[list[str]]
    numbers: NotRequired[dict[str, object]]


class Live(TypedDict):
    """One interim analysis of a run's final test, which compares its result with the start."""

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
    """The verdict on a candidate, and where the outcomes that it rests on are stored."""

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
    """How candidates that were merged and trained together did on the search split."""

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
    continued: NotRequired[int]
    ended: NotRequired[str]


class Plan(TypedDict):
    """How a generation's ideas are trained, by id, and the attempts of each kind of training."""

    generation: int
    continued: list[str]
    from_base: list[str]
    attempts: dict[str, int]


class Bundle(TypedDict):
    """A generation's bundle: its cells, the one to go on from, and each member's gain."""

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
    ended: NotRequired[dict[str, object]]


class Warmup(TypedDict):
    """The rows that a run's warm-ups imitate: their number and the SHA-256 of their file.

    `left_out` counts the rows of the source that are no clean success on a training task.
    """

    rows: int
    sha256: str
    left_out: NotRequired[dict[str, int]]


class Stored(TypedDict):
    """The stored result of an evaluation: where its attempts are, and how many were solved."""

    shard: dict[str, object]
    planned: int
    solved: int
    clean: int
    seed: int
    rollouts: NotRequired[int]
    served: NotRequired[list[str]]


class Commit(TypedDict):
    """A step's outcome that is one git commit, such as the one that `main` was moved to."""

    commit: str


class Start(Commit):
    """The commit that a run starts from, and the version of the rules of its final test."""

    rules: NotRequired[int]


class Clock(TypedDict):
    """The time at a run's start, in seconds since the epoch."""

    at: int


class Drift(TypedDict):
    """A check that the served model did not change during a run: the start is measured twice.

    `before` is the share of solved attempts early in the run, and `after` the share before the
    final comparison. `p` is the p-value of their difference.
    """

    attempts: int
    before: float
    after: float
    p: float


class Half(TypedDict):
    """The keys of the tasks that a search uses, if it has half of a small task set."""

    search: list[str]


@dataclass(frozen=True, slots=True)
class Wrote:
    """How a kind of step is recorded: its key, the files that write it, and its outcome's type.

    If `outcome` is None, the file that writes it defines the record.
    """

    key: str
    writers: tuple[str, ...]
    outcome: type | None = None
    in_views: bool = False
    """True if the views of a run's state include steps of this kind."""


_V: Final = "core/loop/verbs"
KINDS: Final[Mapping[Kind, Wrote]] = {
    "clock": Wrote("clock", ("composition/opening",), Clock),
    "start": Wrote("start", ("composition/opening",), Start),
    "visible": Wrote("visible", ("composition/visible",), in_views=True),
    "budget": Wrote("WHAT/budget", ("core/loop/budget", f"{_V}/_experiments")),
    "warmup": Wrote("warmup", ("core/lab/live",), Warmup),
    "train": Wrote("train/NAME", ("core/lab/live",), Train),
    "eval": Wrote("eval/NAME", ("core/lab/live",), Stored),
    "baseline": Wrote("baseline", (f"{_V}/collect",), in_views=True),
    "evidence": Wrote("gN/evidence", (f"{_V}/collect",), Evidence, in_views=True),
    "untrained": Wrote("gN/untrained", (f"{_V}/collect",)),
    "diagnostic": Wrote("diagnostics", ("core/loop/diagnostics/tend",)),
    "experiment": Wrote("gN/WHO/try/K", (f"{_V}/_experiments",)),
    "proposal": Wrote("gN/propose", (f"{_V}/propose",), Proposal, in_views=True),
    "candidate": Wrote("gN/cK", (f"{_V}/propose",), Candidate, in_views=True),
    "revision": Wrote("gN/cK/revision", (f"{_V}/propose",), in_views=True),
    "screen": Wrote("gN/cK/STAGE", (f"{_V}/test",), Screen, in_views=True),
    "decision": Wrote("decision/GATE/SUBJECT", (f"{_V}/approve",), in_views=True),
    "discrimination": Wrote("gN/cK/discriminate", ("core/loop/diagnostics/discriminate",)),
    "plan": Wrote("gN/plan", (f"{_V}/continued",), Plan),
    "cell": Wrote("gN/cell/COMMIT", (f"{_V}/cells",), Cell, in_views=True),
    "bundle": Wrote("gN/bundle", ("strategies/search",), Bundle, in_views=True),
    "race": Wrote("race/WHAT/K", ("strategies/race",)),
    "tasks": Wrote("race/tasks", ("core/loop/spending",), Half),
    "drift": Wrote("race/again", ("core/loop/drift",), Drift),
    "claim": Wrote("claim/begun", ("core/loop/spending",)),
    "lead": Wrote(
        "gN/lead",
        ("strategies/full", "strategies/race", "strategies/search"),
        in_views=True,
    ),
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
    "calibration": Wrote("calibration/NAME", ()),  # written up to version 0.1
    "revert": Wrote("revert/COMMIT", ("studies/story",), in_views=True),
}
