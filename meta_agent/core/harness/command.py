"""`CommandSession`: a harness whose agent is a command, run for each attempt in its own sandbox.

The training side and the diagnostics, if any, are loaded as in any harness. Each attempt has one
sandbox: agents cannot see each other's files or processes, limits on memory and processes hold for
one attempt, and leftovers vanish with the sandbox (`docs/log/speed.md` has the cost).
Promises: a failure of the sandbox before the agent ran is `infra`; a sandbox that the agent brought
down is the agent's failure. The runner serves calls as those of a Python harness, with the same
limits and records. Does not cover: how the command uses its time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final

from meta_agent.core.errors import ConfigError, SandboxError
from meta_agent.core.harness._errand import Errand, run_errand
from meta_agent.core.harness._trial import try_command
from meta_agent.core.harness._values import CheckResult, Rewards
from meta_agent.core.harness.contract import parse_contract
from meta_agent.core.harness.session import HarnessSession
from meta_agent.core.protocols import (
    JSON,
    Answer,
    Call,
    CallServer,
    Factor,
    HarnessTree,
    Rollout,
    Sandbox,
)
from meta_agent.core.rollouts.away import Departure, HostCall

Opener = Callable[[str | None], Sandbox]
"""Opens a sandbox of the given image; None means the base image."""
MAX_THREADS: Final = 512
_TRAINING_SIDE: Final[tuple[Factor, ...]] = ("reward", "filter", "data", "diagnostics")


@contextmanager
def open_session(tree: HarnessTree, opener: Opener) -> Iterator[HarnessSession]:
    """Loads a harness in a sandbox and yields the object that calls it; then closes the sandbox.

    `opener` opens a sandbox of an image (None: the base image). Raises CandidateError if the
    harness cannot be loaded.
    """
    contract = parse_contract(tree)
    image = None if contract.image == "base" else contract.image
    sandbox = opener(image if contract.entry else None)
    try:
        if contract.entry:
            yield HarnessSession(sandbox, tree)
        else:
            yield CommandSession(sandbox, tree, lambda: opener(image))
    finally:
        sandbox.close()


class CommandSession(HarnessSession):
    """A loaded harness whose agent is a command; `open_agent` opens a sandbox for each attempt."""

    def __init__(
        self, sandbox: Sandbox, tree: HarnessTree, open_agent: Callable[[], Sandbox]
    ) -> None:
        super().__init__(sandbox, tree)
        self._open_agent = open_agent

    def _require_kind(self) -> None:
        if self.contract.entry is not None:
            raise ConfigError(
                f"the harness {self.contract.name} has an `entry` in harness.toml, not a "
                "`command`; load it with `open_session`"
            )

    def _sources(self) -> Mapping[str, bytes]:
        """Returns only the files that are imported here: the agent's own files may be anything."""
        paths = {p for f in _TRAINING_SIDE for p in self.contract.files_of(f, self.tree)}
        return {path: self.tree.files[path] for path in sorted(paths)}

    def rollout(
        self,
        items: Sequence[Mapping[str, JSON]],
        serve: CallServer,
        *,
        timeout_sec: float,
        ask_open: bool = False,
        step_limit_sec: float = 20.0,
    ) -> None:
        """Runs the command on every item (task), each in its own sandbox, until all have ended.

        `serve` answers model calls, and with `ask_open` a call before each start. The limits in
        seconds are not used.
        """
        Round(self, items, serve).run(ask_open=ask_open)

    def run_one(self, item: Mapping[str, JSON], ask: Callable[[Call], Any]) -> None:
        """Runs the command on one item (task) in a new sandbox.

        `ask` sends a call to the host and returns the answer. The last call says how the command
        ended, or that the sandbox failed, for which the attempt is not to blame.
        """
        departure: Departure | None = ask({"kind": HostCall.LEAVE})
        if departure is None:
            return
        errand = Errand(
            str(item["key"]),
            item["view"],
            departure.files,
            departure.wall_sec,
            departure.max_turns,
            departure.max_conversation_bytes,
        )
        try:
            sandbox = self._open_agent()
        except SandboxError as error:
            ask({"kind": HostCall.LOST, "detail": f"sandbox {error.kind}: {error}"})
            return
        try:
            end = run_errand(sandbox, self.tree, self.contract, errand, ask)
            ask({"kind": HostCall.RETURN, "end": end})
        except SandboxError as error:
            ask({"kind": HostCall.LOST, "detail": f"sandbox {error.kind}: {error}"})
        finally:
            sandbox.close()

    def begin_reward(self, lines: Sequence[bytes]) -> Callable[[], Rewards]:
        """Starts to compute the rewards of rollouts. Returns a function that waits for them.

        `lines` are the rollouts as JSON. Without a reward file each reward is an empty dict.
        """
        if self.has("reward"):
            return super().begin_reward(lines)
        return lambda: [{} for _ in lines]

    def check(
        self, samples: Sequence[Rollout], tasks: Sequence[Mapping[str, JSON]]
    ) -> list[CheckResult]:
        """Returns the results of a trial run of the command and of tests of the harness's code."""
        with_reward = samples if self.has("reward") else ()
        rows = super().check(with_reward, tasks)
        return [*try_command(self._open_agent, self.tree, self.contract), *rows]


class Round:
    """Runs the command on the tasks of one request, in threads whose calls go to the host."""

    def __init__(
        self, session: CommandSession, items: Sequence[Mapping[str, JSON]], serve: CallServer
    ) -> None:
        self._session = session
        self._items = items
        self._serve = serve
        # The runner's servers take one batch of calls at a time.
        self._serving = threading.RLock()
        self._boxes: list[SimpleQueue[Any]] = [SimpleQueue() for _ in items]
        self._failures: list[BaseException] = []

    def run(self, *, ask_open: bool) -> None:
        """Runs all attempts to their end. With `ask_open` each asks the host before it starts.

        Raises the first error that neither the agent nor a sandbox caused.
        """
        threads = max(1, min(MAX_THREADS, len(self._items)))
        with ThreadPoolExecutor(threads, thread_name_prefix="agent") as pool:
            for index in range(len(self._items)):
                pool.submit(self._guarded, index, ask_open)
        if self._failures:
            raise self._failures[0]

    def _guarded(self, index: int, ask_open: bool) -> None:
        def ask(call: Call) -> Any:
            return self._ask(index, call)

        try:
            if not ask_open or ask({"kind": "open"}) is not None:
                self._session.run_one(self._items[index], ask)
        except BaseException as error:
            self._failures.append(error)
            ask({"kind": HostCall.LOST, "detail": f"{type(error).__name__}: {error}"})

    def _ask(self, index: int, call: Call) -> Any:
        with self._serving:
            self._serve([{**call, "cid": index}], self._answer)
        return self._boxes[index].get()

    def _answer(self, answers: list[Answer], *, excused_sec: float = 0.0) -> None:
        """Hands answers to their attempts. No time is excused: a command's limit counts all."""
        for answer in answers:
            self._boxes[answer["cid"]].put(answer.get("ok"))
