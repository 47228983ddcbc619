"""The policy child: a process that holds weights, engine and trainer, and answers over a pipe.

Only `_spawn` starts `python -m meta_agent.policies.training.child`, where there is no GPU as a
process that imports all that a child needs and forks the children. A child serves one host: `load`,
`generate`, `finish`, `check_recipe`, `warm_up`, `train`, `close`. If an engine elsewhere has the
weights, it also serves `speak`, `ask` and `settle` (see `speaker`). While it trains, it asks the
host for rollouts. It then serves `generate` and `finish` under the weights of that moment, `seal`,
which saves the trainer's state, and `write`, which makes a checkpoint.
If several ranks train (`TrainSettings.ranks`), the child is the first of them. It starts the others
for its first training, and if one of them ends, so does the child.
Promises: it holds no key, no git and no database (its environment is an allowlist), and dies with
its parent. The frames' descriptors are private, and whatever prints goes to stderr. Training
twice from one loaded policy gives the same bits as in a fresh child, because every random
generator is seeded and the weights are read from disk again. A failed command is answered by an
error frame and the child lives on.
Not covered: when a training resumes from a saved state, and from which: the host decides (`seals`).
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from meta_agent.core.errors import of_disk
from meta_agent.core.protocols import JSON
from meta_agent.core.sandbox.inside.forks import fork_on_orders
from meta_agent.policies.training import _wire
from meta_agent.policies.training._frames import FrameChannel, FrameError
from meta_agent.policies.training._spawn import OtherRanks

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_NAME: Final = b"policy-child"
"""What the system calls a child; the process that forks children has the same command line."""
_PARENT: Final = "META_AGENT_CHILD_PARENT"
_DEVICES: Final = "CUDA_VISIBLE_DEVICES"
_OTHER_DEVICES: Final = "META_AGENT_OTHER_DEVICES"
_REPORT_SEC: Final = 1.0
"""The time between two progress reports of a long model call."""


class AbortedError(Exception):
    """Raised in the child process when the host process aborts the training in progress."""


class StoppedError(Exception):
    """Raised in the child process when the host process stops the model call in progress."""


class Child:
    """Holds one loaded policy in this process, and answers commands of the host process."""

    def __init__(self, channel: FrameChannel) -> None:
        self._channel = channel
        self._policy: Any = None  # _local.LocalPolicy
        self._ranks: Any = None  # passes.ranks.Ranks
        self._others: OtherRanks | None = None
        self._reported_at = 0.0
        self._operations: dict[str, Callable[[JSON], JSON]] = {
            "load": self._load,
            "speak": self._speak,
            "ask": self._reply,
            "settle": self._settle,
            "generate": self._generate,
            "finish": self._finish,
            "check_recipe": self._check_recipe,
            "warm_up": self._warm_up,
            "train": self._train,
        }

    def serve(self) -> None:
        """Answers commands until the host sends `close` or closes the pipe."""
        while True:
            try:
                command = self._channel.receive()
            except EOFError:
                return
            if command["op"] == "close":
                return
            if command["op"] != "stop":  # else the call that it meant has ended already
                self._answer(command)

    def _answer(self, command: JSON, **more: Callable[[JSON], JSON]) -> None:
        try:
            result = (self._operations | more)[command["op"]](command)
        except EOFError:
            raise
        except Exception as error:
            self._channel.send({"err": _describe(error)})
        else:
            self._channel.send(result)

    def _load(self, command: JSON) -> JSON:
        from meta_agent.policies.training import _local

        self._policy = None  # frees the old weights first
        settings = _wire.TrainSettings(**command["settings"])
        self._policy = _local.load(Path(command["path"]), settings, foreign=command["foreign"])
        return {"ok": {"policy": self._policy.opened.policy}}

    def _speak(self, command: JSON) -> JSON:
        """Loads a policy's tokenizer and template without its weights."""
        from meta_agent.policies.training import _local

        settings = _wire.TrainSettings()
        self._policy = _local.speaking(Path(command["path"]), settings, foreign=command["foreign"])
        stops = sorted(self._policy.engine.stops)
        return {"ok": {"policy": self._policy.opened.policy, "stops": stops}}

    def _reply(self, command: JSON) -> JSON:
        prompt = self._loaded().engine.ask(_wire.request_from_json(command["request"]))
        return {"ok": _wire.prompt_to_json(prompt)}

    def _settle(self, command: JSON) -> JSON:
        request = _wire.request_from_json(command["request"])
        reply = self._loaded().engine.settle(request, command["ids"], command["logprobs"])
        return {"ok": _wire.reply_to_json(reply)}

    def _generate(self, command: JSON) -> JSON:
        requests = [_wire.request_from_json(item) for item in command["requests"]]
        self._reported_at = time.monotonic()
        replies = self._loaded().engine.generate(requests, self._watch)
        return {"ok": [_wire.reply_to_json(reply) for reply in replies]}

    def _watch(self, rows: int, tokens: int) -> None:
        """Reports the progress of a model call, and ends it if the host asks for that."""
        if self._channel.has_input():
            self._channel.receive()  # during a call it can only be `stop`
            raise StoppedError("the host asked to stop this model call, and its reply is dropped")
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_SEC:
            self._reported_at = now
            self._channel.send({"event": "sampling", "rows": rows, "tokens": tokens})

    def _finish(self, command: JSON) -> JSON:
        records = self._loaded().engine.finish(command["keys"])
        return {"ok": [_wire.record_to_json(record) for record in records]}

    def _check_recipe(self, command: JSON) -> JSON:
        import torch

        from meta_agent.policies.training._recipe import plan_training

        # On the device of the training to come: accelerate remembers the first one it was given.
        on_cpu, folder = not torch.cuda.is_available(), tempfile.gettempdir()
        plan_training(command["recipe"], steps=1, seed=0, output_dir=folder, on_cpu=on_cpu)
        return {"ok": None}

    def _train(self, command: JSON) -> JSON:
        from meta_agent.policies.training import _local

        job = _wire.job_from_json(command["job"])

        def train(base: Any, settings: JSON) -> tuple[str, Path]:
            ranks = self._together(base.settings.ranks)
            ranks.broadcast(
                {"settings": settings, "path": str(base.opened.path), "job": command["job"]}
            )
            return _local.train(base, job, self._ask, self._channel.send, ranks)

        return self._replaced(train)

    def _warm_up(self, command: JSON) -> JSON:
        from meta_agent.policies.training import _imitation

        job = _wire.job_from_json(command["job"])
        return self._replaced(
            lambda base, _: _imitation.warm_up(base, job, command["rows"], self._channel.send)
        )

    def _replaced(self, work: Callable[[Any, JSON], tuple[str, Path]]) -> JSON:
        """Trains the loaded policy by `work` and loads the result; the policy if `work` fails."""
        base = self._loaded()
        again = {"settings": asdict(base.settings)}
        try:
            identity, path = work(base, again["settings"])
        except Exception:
            self._part()
            # The weights in memory are neither the base's nor a checkpoint's now.
            with suppress(Exception):  # then none is loaded, and the next command says so
                self._load({**again, "path": str(base.opened.path), "foreign": True})
            raise
        self._load({**again, "path": str(path), "foreign": False})
        return {"event": "trained", "checkpoint": {"policy": identity, "path": str(path)}}

    def _together(self, count: int) -> Any:
        from meta_agent.policies.training.passes.ranks import Ranks

        if count > 1 and self._others is None:
            self._ranks = Ranks(count=count)
            threads = int(os.environ["META_AGENT_CHILD_THREADS"])
            device_names = [name for name in os.environ.get(_OTHER_DEVICES, "").split(",") if name]
            devices = [*device_names, *[None] * count][: count - 1]
            self._others = OtherRanks(self._ranks.open(), threads, devices)
            self._ranks.meet()
        return self._ranks or Ranks()

    def _part(self) -> None:
        """Ends the other ranks after a failed training, whatever they are doing."""
        if self._others is not None:
            self._others.require()
            self.end_others()
            self._ranks.leave()

    def end_others(self) -> None:
        """Kills the processes of ranks 1 and up of a training on several devices, if any."""
        if self._others is not None:
            self._others.close()
            self._others = None

    def _ask(self, event: _wire.RolloutEvent, resting: Any) -> list[_wire.Row]:
        """Asks the host for rollouts and serves its commands until rows come."""
        self._channel.send(
            {
                "event": "rollout",
                "step": event.step,
                "groups": event.groups,
                "group_size": event.group_size,
            }
        )
        rows: list[_wire.Row] = []

        def sealed(_: JSON) -> JSON:
            resting.seal()
            return {"ok": None}

        def written(command: JSON) -> JSON:
            resting.write(Path(command["path"]))
            return {"ok": None}

        served = {"seal": sealed, "write": written}
        while True:
            command = self._channel.receive()
            if command["op"] == "rows":
                rows += [_wire.row_from_json(row) for row in command["rows"]]
                if not command["more"]:
                    return rows
                continue
            if command["op"] == "stop":
                continue
            if command["op"] not in ("generate", "finish", *served):
                raise AbortedError(command["op"])
            self._answer(command, **served)

    def _loaded(self) -> Any:
        if self._policy is None:
            raise RuntimeError("no policy is loaded; call PolicyChild.load first")
        return self._policy


def main() -> None:
    """Runs the policy child: it answers commands on stdin and stdout until the host is done.

    With a descriptor as its argument, it forks a child at each order that comes there.
    """
    first, _, others = os.environ.get(_DEVICES, "").partition(",")
    if others:
        os.environ[_DEVICES], os.environ[_OTHER_DEVICES] = first, others
    if sys.argv[1:]:
        _fork_children(int(sys.argv[1]))
    channel = FrameChannel(os.dup(0), os.dup(1))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    prepare()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, _NAME)
    child = Child(channel)
    try:
        child.serve()
    except (EOFError, FrameError) as error:
        sys.exit(f"policy child: {error}")
    finally:
        child.end_others()


def _fork_children(descriptor: int) -> None:
    """Forks children until the host is gone. Returns in each child, which has taken its pipes.

    Exits where there is an accelerator: then the host starts each child as a program.
    """
    prepare()
    import torch

    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # the usual check is what breaks a fork
    if torch.accelerator.is_available():
        sys.exit("an accelerator is here, and a fork could not use it")
    os.environ[_PARENT] = str(os.getpid())
    _, stdio = fork_on_orders(descriptor, lambda order: order)
    os.setpgid(0, 0)
    for target, received in enumerate(stdio):
        os.dup2(received, target)
        os.close(received)


def prepare() -> None:
    """Prepares a process that holds weights: it ignores SIGTERM, and dies with its parent."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of a whole job: the host decides
    _die_with_parent()
    _import_all()


def _die_with_parent() -> None:
    """Asks the kernel to kill us when the thread that started us ends (see `_spawn`)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(os.environ[_PARENT]):  # it died before the call
        sys.exit("policy child: the parent is gone")


def _import_all() -> None:
    """Imports what a child needs, without garbage collection: it takes a fifth of TRL's import.

    Modules live as long as the process, so later collections leave them out: a full one takes 0.4 s
    otherwise, and trainers ask for it. Starts no thread.
    """
    gc.disable()
    import torch

    from meta_agent.policies.training import _imitation, _local  # noqa: F401

    gc.freeze()
    gc.enable()
    torch.set_num_threads(int(os.environ["META_AGENT_CHILD_THREADS"]))


def _describe(error: Exception) -> JSON:
    disk_error = of_disk(error) if isinstance(error, OSError) else None
    reported = disk_error or error
    return {
        "type": type(reported).__name__,
        "message": str(reported),
        "hint": getattr(reported, "hint", None),
        "reason": getattr(reported, "reason", None),
        "traceback": traceback.format_exc(limit=-12),
    }


if __name__ == "__main__":
    main()
