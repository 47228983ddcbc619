"""The nouns of meta-agent, as small frozen dataclasses and Protocols: the page to read first.

Records that leave the process are plain JSON, by `to_json` and `from_json` beside each stored
record. Names end in their unit. `ARCHITECTURE.md` says how each folder does its work.
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
# Factors that act only through training. The scaffold also acts during rollouts.
TRAINING_FACTORS: Final[frozenset[Factor]] = frozenset({"reward", "filter", "data", "recipe"})

Message = dict[str, Any]  # OpenAI form: {"role": "system|user|assistant|tool", "content": str}


# --- domains -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """One problem, with what the agent may see of it. The answer stays inside the domain."""

    domain: str
    key: str
    split: Split
    content_hash: str
    view: Mapping[str, JSON]  # what `agent.run(task, ...)` receives beside `key`


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Limits of one attempt (turns, tokens, seconds). A harness may only set lower ones."""

    max_turns: int
    max_tokens_per_turn: int
    max_context_tokens: int
    wall_sec: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a policy that is measured. In training, the recipe sets others."""

    temperature: float
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one tool call returned to the agent, with flags for misconduct."""

    text: str
    ok: bool = True
    flags: tuple[str, ...] = ()  # misconduct that the environment saw, e.g. "leak:log"
    done: bool = False  # the environment accepts no further calls


FEEDBACK: Final = "feedback"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the sealed grader decided about an attempt."""

    success: bool
    detail: Mapping[str, JSON] = field(default_factory=dict)
    """Stored with the attempt. Of it a proposer reads only the text `feedback`."""
    flags: tuple[str, ...] = ()  # misconduct that only grading can see, e.g. "tamper:tests"


class Environment(Protocol):
    """One attempt at one task, with its tools and grader. Runs the policy's code in a sandbox."""

    tools: Sequence[str]

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult: ...

    def grade(self) -> Outcome: ...

    def verifier_inputs(self) -> dict[str, JSON]: ...  # what `Domain.regrade` needs

    def close(self) -> None: ...


class Domain(Protocol):
    """Tasks with fixed splits, an environment in which each is attempted, and a sealed grader."""

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
    """Why an attempt broke off. A failure of kind `infra` is never counted against the policy."""

    kind: ErrorKind
    detail: str


@dataclass(slots=True)
class ToolEvent:
    """One tool call in a rollout, with its result."""

    turn: int
    tool: str
    arguments: dict[str, JSON]
    result: str
    ok: bool


@dataclass(slots=True)
class TokenRecord:
    """The tokens of a rollout. `mask` and `logprobs` have one value for each completion token.

    `mask` is 1 where the policy generated the token and 0 where the environment wrote it.
    `logprobs` are natural logarithms at the sampling temperature: 0.0 where `mask` is 0, and None
    where the engine gave none. `exact` is False if a model call did not extend the tokens of the
    call before. Then the record holds the last segment only. `lost`, which is not stored, counts
    the sampled tokens of the others.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float | None]
    exact: bool = True
    lost: int = field(default=0, compare=False)


@dataclass(slots=True)
class ViewChange:
    """A model call for which the agent removed or changed earlier messages."""

    turn: int  # model calls before this one
    unchanged: int  # messages at the front that stayed as they were
    lost: int  # messages after those that the policy no longer sees
    removed: list[Message] = field(default_factory=list)  # the lost ones; empty if too large


@dataclass(slots=True)
class Rollout:
    """One attempt at one task: conversation, tool calls, tokens, rewards and outcome."""

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
    outcome: bool | None = None  # None only if `error.kind` is infra or verifier
    outcome_detail: dict[str, JSON] = field(default_factory=dict)
    verifier_inputs: dict[str, JSON] = field(default_factory=dict)
    stop_reason: StopReason = "returned"
    error: RolloutFailure | None = None
    flags: list[str] = field(default_factory=list)
    turns: int = 0
    timings: dict[str, float] = field(default_factory=dict)  # seconds
    cost: dict[str, float] = field(default_factory=dict)  # {"tokens": n, "usd": x}
    cut_replies: int = 0  # replies that ended at their token limit
    views: list[ViewChange] = field(default_factory=list)
    judged: str | None = None  # what a model said about it, at the request of the reward

    @property
    def clean(self) -> bool:
        """Returns whether the task is solved and no leak, tampering or forgery is flagged."""
        return bool(self.outcome) and not self.flags

    @property
    def total_reward(self) -> float:
        """Returns the sum of the reward components times their weights, as training uses it."""
        return sum(self.weights.get(name, 1.0) * value for name, value in self.rewards.items())


@dataclass(frozen=True, slots=True)
class PlannedRollout:
    """An attempt to be made. If a machine loses it, the results still have a record of it."""

    task: Task
    sample_idx: int
    seed: int
    group_id: str


# --- models ------------------------------------------------------------------------------------

Role = Literal["analyst", "proposer", "reviewer", "librarian", "judge", "reward", "policy"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""Who calls a model. `judge` is for a grader, and `reward` for a reward that defines `judge`."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One model call of one rollout.

    `key` names the rollout; `turn` counts its model calls from 0. Random numbers depend on
    (seed, task_key, sample_idx, turn), never on the order of arrival.
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
    """A policy's reply. `finish_reason` is `stop`, `length`, `tool_calls` or `context` (full)."""

    content: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    tool_calls: Sequence[Mapping[str, JSON]] = ()
    usd: float | None = 0.0  # None: price unknown
    failure: RolloutFailure | None = None


class Gateway(Protocol):
    """The way to a policy's model: carries each call, counts tokens and money, records tokens."""

    policy: str  # the identity stored on rollouts, e.g. "nano@<checkpoint hash>"
    lock_step: bool  # True: deterministic; the runner batches all waiting rollouts in fixed order

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]: ...

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        """Ends the rollouts of these keys. Returns the tokens of each, or None if not recorded."""
        ...


# --- sandbox -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Resource limits of one sandbox, which is ended `deadline_sec` seconds after its start."""

    memory_mb: int = 1024
    cpus: float = 1.0
    pids: int = 128
    scratch_mb: int = 256
    deadline_sec: float = 3600.0


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The result of a command in a sandbox: exit code, output, and whether a limit cut it short."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool
    duration_sec: float
    oom: bool = False  # the kernel killed it for memory, as far as the backend can tell


Call = dict[str, Any]  # {"cid": int, "kind": "model" | "tool", ...}: a request *from* the guest
Answer = dict[str, Any]  # {"cid": int, "ok": JSON} or {"cid": int, "err": str}


class Answerer(Protocol):
    """Sends answers to calls from a sandbox, whose request gets `excused_sec` more time."""

    def __call__(self, answers: list[Answer], *, excused_sec: float = 0.0) -> None: ...


# Receives a batch of calls. It may answer later, from any thread, in batches of any size.
CallServer = Callable[[list[Call], Answerer], None]


@runtime_checkable
class Sandbox(Protocol):
    """One locked-down container or process group, with a worker process that serves requests."""

    backend: str  # "docker", "podman", "process" or "harbor:SERVICE"

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
        """Runs a command in `cwd` to its end. A timeout kills the command's whole process group."""
        ...

    def write(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        """Writes files, given as content by path below the work directory, `executable` or not."""
        ...

    def read(self, paths: Sequence[str], *, limit_bytes: int = 16 << 20) -> dict[str, bytes]:
        """Returns the regular files of `paths`. Raises GuestError if they exceed `limit_bytes`."""
        ...

    def install(self, name: str, source: str) -> None:
        """Loads a Python module (standard library only), whose operations `request` then runs."""
        ...

    def request(
        self,
        op: str,
        args: Mapping[str, JSON],
        *,
        timeout_sec: float,
        serve: CallServer | None = None,
    ) -> JSON:
        """Runs an operation in the sandbox; returns its result. Raises GuestError if it fails."""
        ...

    def begin(
        self,
        op: str,
        args: Mapping[str, JSON],
        *,
        timeout_sec: float,
        attached: Sequence[bytes] = (),
    ) -> Callable[[], JSON]:
        """Sends a request to the sandbox, and returns a function that waits for the result.

        That function raises GuestError if the operation fails. Requests are served in the order of
        sending. The `attached` bytes arrive joined, as `args["attached"]`.
        """
        ...

    def close(self) -> None: ...


class SandboxOpener(Protocol):
    """A function that starts a sandbox with given limits, from the base image or another."""

    def __call__(self, *, limits: SandboxLimits, image: str | None = None) -> Sandbox:
        """Starts a sandbox from this image, or from the base image if `image` is None."""
        ...


# --- harness and candidates --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HarnessTree:
    """A harness as plain files of one commit, without access to the repository."""

    commit: str
    tree_hash: str
    files: Mapping[str, bytes]  # relative path -> content


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A statement about a change of the harness, with the metric that can prove it false."""

    factor: Factor
    statement: str  # "if X then Y because Z"
    metric: str  # e.g. "clean_success" or "signal.dead_group_ratio"
    direction: Literal["up", "down"]
    expected_delta: float
    risks: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()  # lines of the evidence that support it
    rule: str = ""  # which rule or agent produced it
    skills: tuple[str, ...] = ()  # names of the skills that were used
    factors: tuple[Factor, ...] = ()  # the label of a combined change: exactly these two

    @property
    def label(self) -> str:
        """Returns the factors that the change touches, for people: `a`, or `a+b` for two."""
        return "+".join(self.factors) or self.factor


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposed change of the harness: a branch of commits with one hypothesis."""

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
    """What a run decides about a candidate: promoted, rejected, invalid or not settled."""

    PROMOTE = "PROMOTE"
    REJECT = "REJECT"
    INVALID = "INVALID"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Effect:
    """The measured gain of a candidate over its baseline in clean success, from -1 to 1."""

    delta: float
    ci_low: float
    ci_high: float
    pairs: int
    training_seeds: int
    p_improvement: float | None = None
    shrunk: float | None = None
    """The gain of a promoted version, corrected for selection: only high estimates are promoted."""

    @property
    def selected(self) -> str:
        """Returns a text with the gain corrected for selection by luck; "" if nothing changes."""
        measured, likelier = (f"{100 * x:+.1f}" for x in (self.delta, self.shrunk or 0.0))
        same = self.shrunk is None or likelier == measured
        return "" if same else f" (selected; likelier {likelier})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run decides about a candidate, with its reasons and the measured effect."""

    kind: VerdictKind
    reasons: tuple[str, ...]
    effect: Effect | None = None
    screened_out: bool = False  # dropped after the search split, before the confirm split
    evidence: Mapping[str, JSON] = field(default_factory=dict)


# --- training ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A trained policy on disk: a folder of weights with a manifest, which is written last."""

    path: Path
    policy: str  # identity, e.g. "nano@<sha256[:12]>"
    steps: int
    seed: int
