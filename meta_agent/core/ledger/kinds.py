"""Every kind of step that the journal holds: its key, who writes it, and what its outcome is.

The type checker knows no other kind, so none can be written or asked for by mistake; that this
table is true of the code, `tests/ledger/test_kinds.py` reads off the source. Keys come after the
run's id. An outcome may also hold `rollouts` and `train_steps`: what *this* step itself used, not
what steps nested in it used. What older versions did not record is `NotRequired`.

Does not cover: hostile ledgers. Reports read tolerantly (`reports.state`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypedDict

Kind = Literal[
    "attribution", "baseline", "budget", "bundle", "calibration", "candidate", "cell",
    "checkpoint", "claim", "clock", "decision", "diagnostic", "discrimination", "drift", "eval",
    "evidence", "experiment", "handover", "lead", "live", "merge", "proposal", "race", "ref",
    "results", "revert", "revision", "screen", "skill", "start", "tasks", "train", "untrained",
    "vault", "verdict", "visible",
]  # fmt: skip


class Refused(TypedDict):
    """A draft that was never admitted."""

    statement: str
    code: str
    reason: str
    index: NotRequired[int]


class Share(TypedDict):
    """What a member adds to its bundle: an explanation."""

    candidate: str
    delta: float
    ci_low: float
    ci_high: float


class Measured(TypedDict):
    """Shares with the number that they rest on."""

    version: str
    split: str
    n: int
    success: float | None
    clean_success: float | None
    ci: list[float] | None


class Baseline(Measured):
    """The first version as the search split sees it."""

    policy: str
    harness_commit: str
    valid: NotRequired[bool]


class Vault(Measured):
    """A version on the vault, read once."""

    which: Literal["baseline", "final"]


class Gap(TypedDict):
    """A score that moved, and whether no metric moved with it."""

    unexplained: bool
    delta: float
    z: float


class Evidence(TypedDict):
    """`evidence.Evidence`, with what validity says of the version itself."""

    generation: int
    version: str
    layers: dict[str, dict[str, float]]
    alerts: list[dict[str, object]]
    findings: list[dict[str, object]]
    exemplars: NotRequired[dict[str, list[dict[str, object]]]]
    gap: NotRequired[Gap | None]


class Proposal(TypedDict):
    """Ideas of a generation; `nothing` and `noted` are an analyst's words."""

    generation: int
    candidates: list[str]
    skills: list[str]
    bottleneck: NotRequired[str]
    refused: NotRequired[list[Refused]]
    nothing: NotRequired[str]
    noted: NotRequired[str]


class Revision(TypedDict):
    """A candidate that a person sent back, again."""

    admitted: bool
    refused: NotRequired[Refused]


class Candidate(TypedDict):
    """`protocols.Candidate`."""

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
    """A check before anything is measured."""

    candidate: str
    stage: Literal["static", "contract", "replay", "seed"]
    passed: bool
    reasons: NotRequired[list[str]]
    numbers: NotRequired[dict[str, object]]


class Live(TypedDict):
    """One look at what is claimed."""

    candidate: str
    split: str
    claim: NotRequired[Literal["harness", "version"]]
    verdict: NotRequired[dict[str, object]]
    numbers: NotRequired[dict[str, object]]
    arms: NotRequired[list[dict[str, object]]]


class Scored(TypedDict):
    """What was predicted of a hypothesis's own metric, and what came."""

    metric: str
    predicted: float
    realised: float


class Verdict(TypedDict):
    """`protocols.Verdict` of a candidate, and the stored arms that it rests on."""

    candidate: str
    commit: str
    kind: str
    reasons: list[str]
    arms: NotRequired[list[dict[str, object]] | None]
    effect: NotRequired[dict[str, object] | None]
    screened_out: NotRequired[bool]
    evidence: NotRequired[dict[str, object]]
    calibration: NotRequired[Scored | None]


class Discrimination(TypedDict):
    """Whether a diagnostics candidate tells past versions apart."""

    candidate: str
    verdict: dict[str, object]


class Decision(TypedDict):
    """What a person said; none while it waits. Its intent holds what was asked."""

    answer: Literal["APPROVE", "REVISE", "ABORT"]
    feedback: str
    by: str


class Merge(TypedDict):
    """A candidate that `main` has."""

    candidate: str
    commit: str
    version: str
    generation: int
    policy: NotRequired[str]
    verdict: NotRequired[dict[str, object]]
    undone: NotRequired[bool]
    attribution: NotRequired[dict[str, object]]


class Revert(TypedDict):
    """Taken back by a person, outside any run."""

    candidate: str
    reverted: str
    commit: str


class Cell(TypedDict):
    """A bundle, or a bundle without a member, on the search split."""

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
    """What a generation goes on from."""

    generation: int
    clean_success: float
    cells: list[str]
    chosen: str | None
    members: list[str]
    shares: list[Share]


class Staged(TypedDict):
    """What joined the staging branch `lead`, unproven."""

    candidate: str | None
    generation: int
    commit: str
    main: str
    members: list[str]


class Handover(TypedDict):
    """What a run gives to its owner."""

    version: str
    commit: str
    standing: Literal["proven", "unproven", "start"]
    words: str
    policy: str
    checkpoint: str | None
    steps: int


class Skill(TypedDict):
    """A skill that this run wrote."""

    name: str
    path: str
    candidate: NotRequired[str]
    description: NotRequired[str]
    negative: NotRequired[bool]
    status: NotRequired[str]
    worth: NotRequired[str]


_Kept = TypedDict("_Kept", {"kept": NotRequired[list[object]]})  # noqa: UP013 - a stored key


class Train(_Kept):
    """`core.lab.measured.Trained` as it is stored. `kept` holds its `checkpoints`."""

    policy: str
    path: str
    seed: int
    steps: int
    shard: dict[str, object] | None
    metrics: list[object]
    train_steps: NotRequired[int]
    rollouts: NotRequired[int]


class Stored(TypedDict):
    """`core.lab.measured.Evaluated`: where the attempts of an evaluation are stored."""

    shard: dict[str, object]
    planned: int
    solved: int
    clean: int
    seed: int
    rollouts: NotRequired[int]
    served: NotRequired[list[str]]


class Checkpoint(TypedDict):
    """The best on the search split, of a training that went on."""

    steps: int
    policy: str
    path: str
    search_clean_success: dict[str, float]


class Visible(TypedDict):
    """The minimum detectable effect of a run's budget."""

    effect: float | None
    basis: str
    words: str


class Commit(TypedDict):
    """Where a branch, or a run, stands."""

    commit: str


class Start(Commit):
    """The commit that a run starts from, and the version of the rules of its claims."""

    rules: NotRequired[int]


class Clock(TypedDict):
    """Seconds since the epoch at a run's start."""

    at: int


class Drift(TypedDict):
    """The start's attempts at a race's beginning and before its exam, compared."""

    attempts: int
    before: float
    after: float
    p: float


class Half(TypedDict):
    """The half of a small set that a race searches on."""

    search: list[str]


class Rehearsed(TypedDict):
    """What an author heard of an experiment."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Wrote:
    """Who writes a kind, under which keys, and what comes of it (None: its writer's own record)."""

    key: str
    writers: tuple[str, ...]
    outcome: type | None = None
    in_views: bool = False
    """Whether views fold it into a `RunState`."""


_V: Final = "core/loop/verbs"
KINDS: Final[Mapping[Kind, Wrote]] = {
    "clock": Wrote("clock", ("composition/opening",), Clock),
    "start": Wrote("start", ("composition/opening",), Start),
    "visible": Wrote("visible", ("composition/visible",), Visible, in_views=True),
    "budget": Wrote("WHAT/budget", ("core/loop/budget", f"{_V}/_experiments")),
    "train": Wrote("train/NAME", ("core/lab/live",), Train),
    "eval": Wrote("eval/NAME", ("core/lab/live",), Stored),
    "baseline": Wrote("baseline", (f"{_V}/collect",), Baseline, in_views=True),
    "evidence": Wrote("gN/evidence", (f"{_V}/collect",), Evidence, in_views=True),
    "untrained": Wrote("gN/untrained", (f"{_V}/collect",)),
    "diagnostic": Wrote("diagnostics", ("core/loop/diagnostics/tend",)),
    "experiment": Wrote("gN/WHO/try/K", (f"{_V}/_experiments",), Rehearsed),
    "proposal": Wrote("gN/propose", (f"{_V}/propose",), Proposal, in_views=True),
    "candidate": Wrote("gN/cK", (f"{_V}/propose",), Candidate, in_views=True),
    "revision": Wrote("gN/cK/revision", (f"{_V}/propose",), Revision, in_views=True),
    "screen": Wrote("gN/cK/STAGE", (f"{_V}/test",), Screen, in_views=True),
    "decision": Wrote("decision/GATE/SUBJECT", (f"{_V}/approve",), Decision, in_views=True),
    "discrimination": Wrote(
        "gN/cK/discriminate", ("core/loop/diagnostics/discriminate",), Discrimination
    ),
    "cell": Wrote("gN/cell/COMMIT", (f"{_V}/cells",), Cell, in_views=True),
    "bundle": Wrote("gN/bundle", ("strategies/search",), Bundle, in_views=True),
    "race": Wrote("race/WHAT/K", ("strategies/race",)),
    "tasks": Wrote("race/tasks", ("core/loop/spending",), Half),
    "drift": Wrote("race/again", ("core/loop/drift",), Drift),
    "claim": Wrote("claim/begun", ("core/loop/spending",)),
    "lead": Wrote(
        "gN/lead",
        ("strategies/full", "strategies/race", "strategies/search"),
        Staged,
        in_views=True,
    ),
    "live": Wrote("claim/KIND/LOOK", (f"{_V}/claim",), Live, in_views=True),
    "checkpoint": Wrote("checkpoint", (f"{_V}/train_on",), Checkpoint),
    "attribution": Wrote("claim/attribution", (f"{_V}/attribute",)),
    "ref": Wrote("claim/ref", (f"{_V}/promote",), Commit),
    "merge": Wrote("claim/merge", (f"{_V}/promote", "strategies/_by_score"), Merge, in_views=True),
    "verdict": Wrote("gN/cK/verdict", (f"{_V}/learn", f"{_V}/members"), Verdict, in_views=True),
    "skill": Wrote("gN/cK/skill", (f"{_V}/learn",), Skill, in_views=True),
    "handover": Wrote("handover", ("core/loop/finish",), Handover, in_views=True),
    "vault": Wrote("vault/WHICH", ("core/loop/finish",), Vault, in_views=True),
    "results": Wrote("vault/results", ("core/loop/results",), in_views=True),
    "calibration": Wrote("calibration/NAME", ()),  # written up to version 0.1
    "revert": Wrote("revert/COMMIT", ("studies/story",), Revert, in_views=True),
}
