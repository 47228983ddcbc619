"""Opens the policy of a run: child processes that can be trained, or a frozen model.

A lab measures through one of these and does not know which. A policy that can be trained is a
pool of child processes, each with its own weights in memory. A frozen one is a `ModelClient`
that any number of rollouts share.

Not covered: training (`training.train_policy`), and starting a model server (`served.vllm_server`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from queue import Empty, LifoQueue
from threading import Lock

from meta_agent.core.chat import Effort, ModelClient
from meta_agent.core.errors import ConfigError
from meta_agent.core.harness import Teaches
from meta_agent.core.lab.training import RollsOut, Trainer, TrainingRequest, TrainResult
from meta_agent.core.protocols import JSON, Domain, Gateway, Rollout
from meta_agent.policies.served.api_gateway import ApiGateway
from meta_agent.policies.served.dialect import Dialect, dialect_of
from meta_agent.policies.training import PolicyChild, TrainSettings, train_policy
from meta_agent.policies.training._wire import TrainJob
from meta_agent.policies.training.events.overlap import Publisher
from meta_agent.policies.training.serving.publishing import EngineChild
from meta_agent.policies.training.warmup import imitated


class ChildTrainer:
    """Trains one policy in a child process, which holds the policy's weights."""

    def __init__(
        self, child: PolicyChild, path: str, gateway: Gateway, publisher: Publisher | None
    ) -> None:
        self.gateway = gateway
        self._child, self._path, self._publisher = child, path, publisher

    def accept(self, recipe: Mapping[str, JSON]) -> dict[str, JSON]:
        self._child.check_recipe(recipe)
        rank = self._child.settings.lora_rank
        return {**recipe, "lora_r": rank} if rank else dict(recipe)

    def train(
        self,
        runner: RollsOut,
        session: Teaches,
        domain: Domain,
        recipe: Mapping[str, JSON],
        request: TrainingRequest,
        *,
        on_metrics: Callable[[dict[str, JSON]], None],
        stopping: Callable[[], bool],
    ) -> TrainResult:
        return train_policy(
            self._child,
            runner,
            session,
            domain,
            recipe,
            seed=request.seed,
            steps=request.steps,
            base_policy=self._path,
            out_dir=request.output,
            keep_steps=request.keep_steps,
            keep_every=request.keep_every,
            seal_every=request.seal_every,
            min_exact=request.min_exact,
            warmup=request.warmup,
            history=request.history,
            on_metrics=on_metrics,
            stopping=stopping,
            publisher=self._publisher,
        )

    def imitate(
        self,
        rows: Sequence[Rollout],
        recipe: Mapping[str, JSON],
        request: TrainingRequest,
        *,
        on_metrics: Callable[[dict[str, JSON]], None],
        stopping: Callable[[], bool],
    ) -> TrainResult:
        job = TrainJob(dict(recipe), request.steps, request.seed, request.output)
        return imitated(self._child, self._path, job, rows, on_metrics, stopping)


class ChildPolicies:
    """A pool of child processes that hold policies' weights; starts another one if all are busy."""

    lock_step = True

    def __init__(
        self, threads: int, settings: TrainSettings | None = None, devices: Sequence[str] = ()
    ) -> None:
        """`devices` holds each child's CUDA_VISIBLE_DEVICES. If empty, all see the same GPUs."""
        self._threads, self._settings = threads, settings or TrainSettings()
        self._devices = devices
        self._taken: dict[PolicyChild, str] = {}
        self._starting = Lock()  # guards `_taken`, so that no two children take one device
        self._idle: LifoQueue[PolicyChild] = LifoQueue()
        self._children: list[PolicyChild] = []

    @contextmanager
    def acting(self, path: str, label: str) -> Iterator[Gateway]:
        with self.child() as child:
            child.load(path)
            yield child

    @contextmanager
    def training(self, path: str, output: Path) -> Iterator[Trainer]:
        with self.child() as child, self.sampling(child, path, output) as (gateway, publisher):
            yield ChildTrainer(child, path, gateway, publisher)

    @contextmanager
    def child(self) -> Iterator[PolicyChild]:
        """Yields an idle or a new child process, which is ended if the `with` block raises."""
        try:
            child = self._idle.get_nowait()
        except Empty:
            child = self._start()
        try:
            yield child
        except BaseException:
            # The child may still answer an old command, so it is ended and not reused.
            self._children.remove(child)
            child.close()
            self._taken.pop(child, None)
            raise
        if child.alive:  # a child's death may be recorded in rollouts and not raised
            self._idle.put(child)

    @contextmanager
    def sampling(
        self, child: PolicyChild, path: str, output: Path
    ) -> Iterator[tuple[Gateway, Publisher | None]]:
        """Yields the gateway that samples a training's rollouts, and its weight publisher or None.

        These are `child` and None or, if rollouts are made ahead, a second child process and the
        publisher that hands it each new version of the weights.
        """
        if not child.settings.max_staleness:
            yield child, None
            return
        with self.child() as engine:
            yield engine, EngineChild(child, engine, output)

    def close(self) -> None:
        """Ends all child processes."""
        for child in self._children:
            child.close()

    def _start(self) -> PolicyChild:
        with self._starting:
            taken = list(self._taken.values())
            free = min(self._devices, key=taken.count, default=None)
            child = PolicyChild(threads=self._threads, settings=self._settings, devices=free)
            self._children.append(child)
            if free is not None:
                self._taken[child] = free
        return child


class FrozenPolicy:
    """A model behind a server, which is never trained; `policy` is its name in rollouts."""

    lock_step = False

    def __init__(
        self,
        client: ModelClient,
        model: str,
        *,
        policy: str,
        logprobs: bool = False,
        effort: Effort | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`tell` gets a line for people if the server refuses parts of requests."""
        self._client = client
        self._model = model
        self._policy = policy
        self._logprobs, self._effort, self._tell = logprobs, effort, tell
        self._asking = Lock()  # guards `_dialect`: the server is asked once
        self._dialect: Dialect | None = None

    @contextmanager
    def acting(self, path: str, label: str) -> Iterator[Gateway]:
        with self._asking:
            self._dialect = self._dialect or dialect_of(
                self._client,
                self._model,
                logprobs=self._logprobs,
                effort=self._effort,
                tell=self._tell,
            )
        yield ApiGateway(
            self._client,
            self._model,
            label=label,
            policy=self._policy,
            logprobs=self._logprobs,
            effort=self._effort,
            dialect=self._dialect,
        )

    def training(self, path: str, output: Path) -> AbstractContextManager[Trainer]:
        raise ConfigError(
            f"the policy {self._policy} is frozen, so it cannot be trained",
            hint="use --policy nano or --policy hf:FOLDER",
        )

    def close(self) -> None:
        """Does nothing, since the model client that was passed in belongs to the caller."""
