"""The host's end of the policy child: a gateway that can also be trained.

Promises: calls run in lock-step and are deterministic for a fixed batch and thread count. If a
child dies or hangs, a `TrainingError` gives the reason and the end of its output, within the
timeout. After that this object refuses everything but `close`. What the child refuses (a recipe, a
broken checkpoint) raises the error's own type and the child stays usable.
Not covered: choosing tasks, rewards and groups: that is `run.train_policy`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NoReturn, Self, TypeVar

from meta_agent.core import errors
from meta_agent.core.errors import (
    CandidateError,
    ConfigError,
    Interrupted,
    PreflightError,
    TrainingError,
)
from meta_agent.core.lab.training import TRAIN_STEP_SEC
from meta_agent.core.ledger.waiting import Wait, moved, waiting
from meta_agent.core.protocols import (
    JSON,
    Checkpoint,
    GenerateReply,
    GenerateRequest,
    Rollout,
    TokenRecord,
)
from meta_agent.policies.training import _wire
from meta_agent.policies.training._frames import FrameError
from meta_agent.policies.training._spawn import ChildProcess
from meta_agent.policies.training._wire import (
    Advantages,
    RolloutEvent,
    Row,
    StepMetrics,
    TrainJob,
    TrainSettings,
)
from meta_agent.policies.training.hub import hf_place
from meta_agent.readers.formats import prompt_of

T = TypeVar("T")

ROWS_A_FRAME: Final = 16
"""A token takes 16 bytes, so that rows of a million tokens stay below a frame's limit."""
_WARM_STARTS: Final = Path(__file__).parents[2] / "domains" / "nano" / "checkpoints"
_PASSED_ON: Final = ("ConfigError", "InfrastructureError", "IntegrityError", "PreflightError")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds for a child process to load a policy, sample, or train one step."""

    load_sec: float = 600.0
    generate_sec: float = 600.0
    train_step_sec: float = TRAIN_STEP_SEC


class PolicyChild:
    """A child process that holds a policy's weights, samples and trains; implements `Gateway`.

    Its commands raise TrainingError once the child has died or hangs.
    """

    lock_step = True

    def __init__(
        self,
        *,
        threads: int = 2,
        timeouts: Timeouts | None = None,
        settings: TrainSettings | None = None,
        devices: str | None = None,
    ) -> None:
        """`devices`: what the child sees, as in CUDA_VISIBLE_DEVICES; None: what we see."""
        self.policy = ""  # set by `load`
        self.settings = settings or TrainSettings()
        self._timeouts = timeouts or Timeouts()
        self._lock = threading.RLock()  # one conversation with the child at a time
        self._ended: str | None = None
        self._process = ChildProcess(threads, devices)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Returns True while the child process can be used: not closed, ended or hung."""
        return self._ended is None

    def load(self, policy: str | Path) -> str:
        """Loads a checkpoint's directory or `hf:PATH` and returns the policy's identity.

        Raises ConfigError or IntegrityError if it cannot be loaded.
        """
        path, foreign = place_of(policy)
        command = {"op": "load", "path": str(path), "foreign": foreign}
        command["settings"] = asdict(self.settings)
        answer = self._ask(command, self._timeouts.load_sec)
        self.policy = self._parse("load", lambda value: str(value["policy"]), answer)
        return self.policy

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        """Returns the next reply of each request's rollout, in the order of the requests."""
        return self.generate_until(requests, lambda: False)

    def generate_until(
        self, requests: Sequence[GenerateRequest], stopping: Callable[[], bool]
    ) -> list[GenerateReply]:
        """Returns each request's reply, but raises Interrupted once `stopping` returns True.

        It calls `stopping` about once a second while the child samples.
        """
        command = {"op": "generate", "requests": [_wire.request_to_json(r) for r in requests]}
        limit_sec = self._timeouts.generate_sec
        with self._lock, self._waiting(f"a model call of {len(requests)} attempts", limit_sec):
            self._send(command)
            while "event" in (frame := self._receive(limit_sec)):
                if stopping():
                    self._stop_call()
                    raise Interrupted
                moved(f"{frame['tokens']} tokens so far, {frame['rows']} attempts still write")
        return self._rows("replies", _wire.reply_from_json, frame.get("ok"), len(requests))

    def _stop_call(self) -> None:
        """Ends the model call that the child works on, and drops its reply."""
        self._send({"op": "stop"})
        try:
            while "event" in self._receive(self._timeouts.generate_sec):
                pass
        except TrainingError:
            if self._ended is not None:
                raise

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        """Ends the rollouts `keys`; returns each one's tokens, or None if none were sampled."""
        rows: list[TokenRecord | None] = []
        for part in _parts(keys):
            answer = self._ask({"op": "finish", "keys": part}, self._timeouts.generate_sec)
            rows += self._rows("token rows", _wire.record_from_json, answer, len(part))
        return rows

    def check_recipe(self, recipe: Mapping[str, JSON]) -> None:
        """Raises ConfigError if TRL or meta-agent refuses a setting of the training recipe."""
        self._ask({"op": "check_recipe", "recipe": dict(recipe)}, self._timeouts.load_sec)

    def train(
        self,
        job: TrainJob,
        provide_rows: Callable[[RolloutEvent], list[Row]],
        on_metrics: Callable[[StepMetrics], None] | None = None,
        on_advantages: Callable[[Advantages], None] | None = None,
    ) -> Checkpoint:
        """Trains the loaded policy; loads and returns the resulting checkpoint.

        `provide_rows` is called for each rollout event and may call `generate` and `finish`, which
        then run under the weights of that moment. If it raises, training is aborted in the child
        and the exception is raised here.
        """
        command = {"op": "train", "job": _wire.job_to_json(job)}
        return self._trained_by(command, job, provide_rows, on_metrics, on_advantages)

    def warm_up(
        self,
        job: TrainJob,
        rows: Sequence[Rollout],
        on_metrics: Callable[[StepMetrics], None] | None = None,
    ) -> Checkpoint:
        """Trains the policy to imitate the rollouts `rows`; loads and returns the checkpoint.

        If `on_metrics` raises, the child is still at work, and has to be closed.
        """
        examples = [_example_to_json(row) for row in rows]
        command = {"op": "warm_up", "job": _wire.job_to_json(job), "rows": examples}
        return self._trained_by(command, job, on_metrics=on_metrics)

    def _trained_by(
        self,
        command: JSON,
        job: TrainJob,
        provide_rows: Callable[[RolloutEvent], list[Row]] = lambda _: [],
        on_metrics: Callable[[StepMetrics], None] | None = None,
        on_advantages: Callable[[Advantages], None] | None = None,
    ) -> Checkpoint:
        with self._lock:
            self._send(command)
            while True:
                limit_sec = self._timeouts.train_step_sec
                with self._waiting(f"a step of the training {job.output.name}", limit_sec):
                    frame = self._receive(limit_sec)
                match frame.get("event"):
                    case "rollout":
                        self._provide(
                            self._parse("rollout event", _rollout_event, frame), provide_rows
                        )
                    case "metrics" if on_metrics:
                        on_metrics(self._parse("metrics", _step_metrics, frame))
                    case "advantages" if on_advantages:
                        on_advantages(self._parse("advantages", _advantages, frame))
                    case "trained":
                        return self._trained(frame, job)

    def seal(self) -> None:
        """Saves the trainer's state to resume from; for use only while `train` waits for rows."""
        self._ask({"op": "seal"}, self._timeouts.train_step_sec)

    def write(self, path: Path) -> None:
        """Writes a checkpoint of the weights; for use only while `train` waits for rows."""
        command = {"op": "write", "path": str(path.absolute())}
        self._ask(command, self._timeouts.train_step_sec)

    def close(self) -> None:
        """Ends the child process; a second call does nothing."""
        with self._lock:
            if self._ended is None:
                self._ended = "it was closed"
                self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _provide(
        self, event: RolloutEvent, provide_rows: Callable[[RolloutEvent], list[Row]]
    ) -> None:
        base = self.policy
        self.policy = f"{base}+{event.step}"  # these weights are no checkpoint
        try:
            with self._lent():
                rows = provide_rows(event)
        except BaseException:
            self._abort()
            raise
        finally:
            self.policy = base
        for at, part in enumerate(parts := _parts(rows) or [[]], 1):
            rows_json = [_wire.row_to_json(row) for row in part]
            self._send({"op": "rows", "rows": rows_json, "more": at < len(parts)})

    @contextmanager
    def _lent(self) -> Iterator[None]:
        """Lets other threads ask the child, while `train` waits for rows.

        An agent that is a command has a thread for each attempt.
        """
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def _abort(self) -> None:
        """Aborts the training in the child, and drops the error that it answers with."""
        if self._ended is not None:
            return
        self._send({"op": "abort"})
        try:
            self._receive(self._timeouts.generate_sec)
        except TrainingError:
            if self._ended is not None:
                raise

    def _trained(self, frame: JSON, job: TrainJob) -> Checkpoint:
        policy, path = self._parse(
            "checkpoint",
            lambda value: (str(value["checkpoint"]["policy"]), Path(value["checkpoint"]["path"])),
            frame,
        )
        self.policy = policy
        return Checkpoint(path=path, policy=policy, steps=job.steps, seed=job.seed)

    def _ask(self, command: JSON, timeout_sec: float) -> JSON:
        op = str(command["op"])
        with self._lock, self._waiting(f"the answer to `{op}`", timeout_sec):
            self._send(command)
            return self._receive(timeout_sec).get("ok")

    def _waiting(self, subject: str, limit_sec: float) -> AbstractContextManager[Wait]:
        """Announces that this process waits for the child."""
        return waiting(
            "training",
            f"{subject} by the policy child (process {self.pid})",
            limit_sec=limit_sec,
            advice="A child that is silent for its limit is killed; the same command then resumes. "
            "See whether it works: state T is a stopped process (kill -CONT continues it).",
            command=f"ps -o pid,stat,time,pcpu,command -p {self.pid}",
        )

    def _send(self, command: JSON) -> None:
        self._check_alive()
        try:
            self._process.channel.send(command, self._timeouts.generate_sec)
        except (EOFError, TimeoutError, FrameError) as error:
            self._died(error)

    def _receive(self, timeout_sec: float) -> dict[str, JSON]:
        """Returns the next frame. Raises the error that an error frame describes."""
        try:
            frame = self._process.channel.receive(timeout_sec)
        except (EOFError, TimeoutError, FrameError) as error:
            self._died(error)
        if not isinstance(frame, dict):
            self._died(
                FrameError(f"the training process sent {type(frame).__name__}, not an object")
            )
        if "err" in frame:
            _raise(self._parse("error", lambda value: dict(value["err"]), frame))
        return frame

    def _rows(self, what: str, parser: Callable[[JSON], T], answer: JSON, count: int) -> list[T]:
        rows = self._parse(what, lambda value: [parser(item) for item in value], answer)
        if len(rows) != count:
            self._died(
                FrameError(f"the training process sent {len(rows)} {what} for {count} requests")
            )
        return rows

    def _parse(self, what: str, parser: Callable[[JSON], T], value: JSON) -> T:
        try:
            return _wire.parse(what, parser, value)
        except FrameError as error:
            self._died(error)

    def _check_alive(self) -> None:
        if self._ended is not None:
            raise TrainingError(
                f"the training process (the policy child) has ended: {self._ended}",
                hint="run the same command again; in Python, start a new PolicyChild",
            )

    def _died(self, error: Exception) -> NoReturn:
        """Ends the child for good, and raises TrainingError with the reason."""
        silent = isinstance(error, EOFError)
        self._ended = self._process.obituary(wait_sec=5.0 if silent else 0.0)
        self._process.close()
        raise TrainingError(
            f"the training process failed: {error}: {self._ended}",
            hint="run the same command again: it resumes",
        ) from error


def _example_to_json(rollout: Rollout) -> JSON:
    """Returns what a warm-up imitates of a rollout: its tokens, or else its messages."""
    return {
        "messages": rollout.messages,
        "prompt_messages": rollout.outcome_detail.get("prompt_messages", len(prompt_of(rollout))),
        "tools": rollout.outcome_detail.get("schemas"),
        "tokens": _wire.record_to_json(rollout.tokens),
    }


def _parts(rows: Sequence[T]) -> list[list[T]]:
    return [list(rows[at : at + ROWS_A_FRAME]) for at in range(0, len(rows), ROWS_A_FRAME)]


def place_of(policy: str | Path) -> tuple[Path, bool]:
    """Returns the folder of a policy string, and whether the folder may lack a manifest.

    Raises ConfigError if it names no model to load here, PreflightError without nano's files.
    """
    text = str(policy)
    if text == "nano" or text.startswith("nano:"):
        return _warm_start(text.removeprefix("nano").lstrip(":") or "swe"), False
    if text.startswith("hf:"):
        return hf_place(text.removeprefix("hf:")), True
    if not text or text.startswith("vllm:"):
        raise ConfigError(
            f"the policy {text!r} cannot be trained or sampled in this process",
            hint="use a checkpoint's directory, nano, or hf:PATH",
        )
    return Path(policy).absolute(), False


def _warm_start(suite: str) -> Path:
    path = _WARM_STARTS / suite
    if not path.is_dir():
        raise PreflightError(
            f"the first weights of the nano policy for the suite {suite!r} are not at {path}",
            hint=f"install meta-agent again, or run python -m maintain.warmstart --suite {suite} "
            f"--out {path}",
        )
    return path


def _raise(description: dict[str, JSON]) -> NoReturn:
    """Raises the error that the child reports. Errors of this package keep their type."""
    kind, message = str(description.get("type")), str(description.get("message"))
    if kind == "CandidateError":
        raise CandidateError(message, reason=str(description["reason"]), hint=description["hint"])
    if kind in _PASSED_ON:
        raise getattr(errors, kind)(message, hint=description.get("hint"))
    raise TrainingError(f"{kind}: {message}\n{description.get('traceback', '')}".strip())


def _rollout_event(frame: JSON) -> RolloutEvent:
    return RolloutEvent(int(frame["step"]), int(frame["groups"]), int(frame["group_size"]))


def _step_metrics(frame: JSON) -> StepMetrics:
    values = {str(name): float(value) for name, value in frame["values"].items()}
    return StepMetrics(int(frame["step"]), values)


def _advantages(frame: JSON) -> Advantages:
    return Advantages(int(frame["step"]), [float(value) for value in frame["values"]])
