"""The nouns of meta-agent, as small frozen dataclasses and Protocols: the page to read first.

Records that leave the process are plain JSON (`to_json` / `from_json` beside each record that is
stored); nothing is pickled. Units are in the names. Everything here is import-light: no torch, no
Docker, no git. How a room does its work is not here: see ARCHITECTURE.md for the contracts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

JSON = Any

Split = Literal["train", "search", "confirm", "vault"]
SPLITS: Final[tuple[Split, ...]] = ("train", "search", "confirm", "vault")

Factor = Literal["scaffold", "reward", "filter", "data", "recipe", "diagnostics"]
FACTORS: Final[tuple[Factor, ...]] = get_args(Factor)
# Those that act through training alone; scaffold acts at rollout time as well.
TRAINING_FACTORS: Final[frozenset[Factor]] = frozenset({"reward", "filter", "data", "recipe"})

Message = dict[str, Any]  # OpenAI form: {"role": "system|user|assistant|tool", "content": str}


# --- domains -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """One problem, as the agent may see it. Answers stay inside the domain."""

    domain: str
    key: str
    split: Split
    content_hash: str
    view: Mapping[str, JSON]  # what `agent.run(task, ...)` receives besides `key`


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Limits set by the sealed evaluator. A harness may only go below them."""

    max_turns: int
    max_tokens_per_turn: int
    max_context_tokens: int
    wall_sec: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the policy is sampled when it is *measured* (training sampling is the recipe's)."""

    temperature: float
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one tool call returned to the agent."""

    text: str
    ok: bool = True
    flags: tuple[str, ...] = ()  # conduct the environment saw, e.g. "leak:log"
    done: bool = False  # the environment accepts no further calls


@dataclass(frozen=True, slots=True)
class Outcome:
    """The sealed grader's answer. `verifier_inputs` is all it needs to grade again."""

    success: bool
    detail: Mapping[str, JSON] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # conduct that only grading can see, e.g. "tamper:tests"


class Environment(Protocol):
    """One attempt at one task. Trusted code; what it executes for the policy it must contain."""

    tools: Sequence[str]

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult: ...

    def grade(self) -> Outcome: ...

    def verifier_inputs(self) -> dict[str, JSON]: ...

    def close(self) -> None: ...


class Domain(Protocol):
    """Tasks with fixed splits, an environment, and a sealed grader.

    Optional attributes are declared in `meta_agent.core.capabilities`.
    """

    name: str
    evaluator_hash: str  # grader + task files + splits + sampling + ceilings
    ceilings: Ceilings
    sampling: Sampling

    def tasks(self, split: Split) -> Sequence[Task]: ...

    def open(self, task: Task) -> Environment: ...

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome: ...


# --- rollouts ----------------------------------------------------------------------------------

StopReason = Literal[
    "submitted",  # the agent ended the attempt by the domain's own ending tool
    "returned",  # agent.run returned without submitting
    "turn_limit",
    "token_limit",  # the context ceiling was reached
    "length",  # a reply hit max_tokens without its stop token, and the agent gave up
    "wall_limit",
    "error",
]
ErrorKind = Literal["infra", "policy", "verifier"]


@dataclass(slots=True)
class RolloutFailure:
    """Why a rollout has no ordinary ending. `infra` is never scored as a failure of the policy."""

    kind: ErrorKind
    detail: str


@dataclass(slots=True)
class ToolEvent:
    """One tool call in a rollout."""

    turn: int
    tool: str
    arguments: dict[str, JSON]
    result: str
    ok: bool


@dataclass(slots=True)
class TokenRecord:
    """The token row of a rollout: shapes are all `[n]` over `completion_ids` but for `prompt_ids`.

    `mask` is 1 where the policy generated the token and 0 where the environment wrote it.
    `logprobs` (natural log, at sampling temperature) is 0.0 where `mask` is 0, and None where an
    engine told none.
    `exact` is False when the calls did not extend one token prefix: then only the last exact
    segment is kept here; `lost` counts the sampled tokens of others and is not stored.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float | None]
    exact: bool = True
    lost: int = field(default=0, compare=False)


@dataclass(slots=True)
class ViewChange:
    """A model call whose messages do not extend those of the call before and its reply.

    Before it the conversation was `call[:kept] + gone`, where `call` is what the policy saw here.
    """

    turn: int  # model calls before this one
    kept: int  # messages at the front that stayed as they were
    lost: int  # messages after them that were there before
    gone: list[Message] = field(default_factory=list)  # these; none where the record is full


@dataclass(slots=True)
class Rollout:
    """One attempt at one task: the record every other room reads. Schema version 1."""

    run: str
    version: str
    domain: str
    split: Split
    task_key: str
    task_hash: str
    group_id: str
    sample_idx: int
    seed: int
    harness_commit: str
    policy: str
    evaluator_hash: str
    messages: list[Message] = field(default_factory=list)
    tool_events: list[ToolEvent] = field(default_factory=list)
    tokens: TokenRecord | None = None
    rewards: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    advantage: float | None = None
    outcome: bool | None = None  # None only where `error.kind` is infra or verifier
    outcome_detail: dict[str, JSON] = field(default_factory=dict)
    verifier_inputs: dict[str, JSON] = field(default_factory=dict)
    stop_reason: StopReason = "returned"
    error: RolloutFailure | None = None
    flags: list[str] = field(default_factory=list)
    turns: int = 0
    timings: dict[str, float] = field(default_factory=dict)  # seconds
    cost: dict[str, float] = field(default_factory=dict)  # {"tokens": n, "usd": x}
    cut_replies: int = 0  # those that ended at their token limit
    views: list[ViewChange] = field(default_factory=list)  # of calls that are no plain extension

    @property
    def clean(self) -> bool:
        """Solved by the sealed grader and without flagged conduct."""
        return bool(self.outcome) and not self.flags

    @property
    def total_reward(self) -> float:
        """The weighted sum that training sees."""
        return sum(self.weights.get(name, 1.0) * value for name, value in self.rewards.items())


@dataclass(frozen=True, slots=True)
class PlannedRollout:
    """One row of a denominator: every planned rollout appears in the results."""

    task: Task
    sample_idx: int
    seed: int
    group_id: str


# --- models ------------------------------------------------------------------------------------

Role = Literal["analyst", "proposer", "reviewer", "librarian", "judge", "policy"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""Who asks a model. `judge` grades where a grader of one's own has `judge(task, answer)`."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One model call of one rollout.

    `key` names the rollout; `turn` counts its model calls from 0. Random numbers are keyed by
    (seed, task_key, sample_idx, turn), never by arrival order.
    """

    key: str
    task_key: str
    sample_idx: int
    seed: int
    turn: int
    messages: Sequence[Message]
    max_tokens: int
    temperature: float
    top_p: float = 1.0
    tools: Sequence[Mapping[str, JSON]] | None = None
    max_context_tokens: int = 1 << 30


@dataclass(frozen=True, slots=True)
class GenerateReply:
    """`finish_reason`: `stop`, `length`, `tool_calls`, or `context` (no room left to generate)."""

    content: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    tool_calls: Sequence[Mapping[str, JSON]] = ()
    usd: float | None = 0.0  # None: price unknown
    failure: RolloutFailure | None = None


class Gateway(Protocol):
    """Every policy call goes through one of these; it meters and keeps token rows."""

    policy: str  # the identity stored on rollouts, e.g. "nano@<checkpoint hash>"
    lock_step: bool  # True: deterministic; the runner batches all waiting rollouts in fixed order

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]: ...

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        """Ends these rollouts and returns their token rows (None where not known)."""
        ...


# --- sandbox -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Resource limits of one sandbox. `deadline_sec` is its whole life."""

    memory_mb: int = 1024
    cpus: float = 1.0
    pids: int = 128
    scratch_mb: int = 256
    deadline_sec: float = 3600.0


@dataclass(frozen=True, slots=True)
class ExecResult:
    """A command inside a sandbox. Output is capped; `truncated` says so."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool
    duration_sec: float
    oom: bool = False  # the kernel killed it for memory (where the backend can tell)


Call = dict[str, Any]  # {"cid": int, "kind": "model" | "tool", ...}: a request *from* the guest
Answer = dict[str, Any]  # {"cid": int, "ok": JSON} or {"cid": int, "err": str}


class Answerer(Protocol):
    """Takes answers to a sandbox. `excused_sec`: of the host, which the deadline does not count."""

    def __call__(self, answers: list[Answer], *, excused_sec: float = 0.0) -> None: ...


# Receives a batch of calls; answers now or later, from any thread, in any grouping.
CallServer = Callable[[list[Call], Answerer], None]


@runtime_checkable
class Sandbox(Protocol):
    """One locked-down container or process group with a persistent worker behind a pipe."""

    backend: str  # "docker" | "podman" | "process"

    def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_sec: float = 60.0,
        cpu_limit_sec: float | None = None,
        output_limit_bytes: int = 1 << 20,
    ) -> ExecResult:
        """Runs a command to completion. A timeout kills the command's whole process group."""
        ...

    def write(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        """Writes files at paths relative to the work directory."""
        ...

    def read(self, paths: Sequence[str], *, limit_bytes: int = 16 << 20) -> dict[str, bytes]:
        """Reads regular files (no links, no devices). A missing file is left out."""
        ...

    def install(self, name: str, source: str) -> None:
        """Loads a trusted guest module (stdlib-only Python source) that registers operations."""
        ...

    def request(
        self,
        op: str,
        args: Mapping[str, JSON],
        *,
        timeout_sec: float,
        serve: CallServer | None = None,
    ) -> JSON:
        """Calls a guest operation. Raises GuestError (guest code raised) or SandboxError."""
        ...

    def begin(
        self,
        op: str,
        args: Mapping[str, JSON],
        *,
        timeout_sec: float,
        attached: Sequence[bytes] = (),
    ) -> Callable[[], JSON]:
        """Sends a request ahead; the result waits for its reply and raises as `request` does.

        The guest takes requests in the order they were sent. `attached` bytes travel as they are
        and arrive joined as `args["attached"]`.
        """
        ...

    def close(self) -> None: ...


class SandboxOpener(Protocol):
    """Starts sandboxes of one run."""

    def __call__(self, *, limits: SandboxLimits, image: str | None = None) -> Sandbox:
        """Starts a sandbox of this image, or of the base image if none is named."""
        ...


# --- harness and candidates --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HarnessTree:
    """A harness as plain files, exported from a host-owned repository. Never a path to a repo."""

    commit: str
    tree_hash: str
    files: Mapping[str, bytes]  # relative path -> content


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One falsifiable sentence, and what would show it false."""

    factor: Factor
    statement: str  # "if X then Y because Z"
    metric: str  # e.g. "clean_success" or "signal.dead_group_ratio"
    direction: Literal["up", "down"]
    expected_delta: float
    risks: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()  # lines of evidence it rests on
    rule: str = ""  # which rule or agent produced it
    skills: tuple[str, ...] = ()  # names of the skills that were used
    factors: tuple[Factor, ...] = ()  # the label of a combined change: exactly these two

    @property
    def label(self) -> str:
        """What it is about, for people: one factor, or `a+b`."""
        return "+".join(self.factors) or self.factor


@dataclass(frozen=True, slots=True)
class Candidate:
    """A branch that carries one hypothesis."""

    id: str  # "<run>/g<generation>/c<k>"
    run: str
    generation: int
    index: int
    ref: str  # refs/heads/candidate/<run>/<n>
    base: str
    commit: str
    tree_hash: str
    factor: Factor
    hypothesis: Hypothesis
    paths: tuple[str, ...]


# --- gate --------------------------------------------------------------------------------------


class VerdictKind(StrEnum):
    """What the gate decided."""

    PROMOTE = "PROMOTE"
    REJECT = "REJECT"
    INVALID = "INVALID"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Effect:
    """Candidate minus baseline, in clean success (a share, not points)."""

    delta: float
    ci_low: float
    ci_high: float
    pairs: int
    training_seeds: int
    p_improvement: float | None = None
    shrunk: float | None = None
    """Of a promotion: the gain, allowing for that only estimates above a bar are promoted."""

    @property
    def selected(self) -> str:
        """For beside the estimate: what is left of it when its selection is allowed for."""
        told, likelier = (f"{100 * x:+.1f}" for x in (self.delta, self.shrunk or 0.0))
        same = self.shrunk is None or likelier == told
        return "" if same else f" (selected; likelier {likelier})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision and the numbers behind it."""

    kind: VerdictKind
    reasons: tuple[str, ...]
    effect: Effect | None = None
    screened_out: bool = False  # ranked out on the search split, never claimed on
    evidence: Mapping[str, JSON] = field(default_factory=dict)


# --- training ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A trained policy on disk: directory with weights and a manifest that was written last."""

    path: Path
    policy: str  # identity, e.g. "nano@<sha256[:12]>"
    steps: int
    seed: int
