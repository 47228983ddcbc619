"""Starts the policy child and the child's other ranks: the only file that starts a process here.

Where there is no GPU, children are forked from one process, which has imported torch and TRL: the
import takes seconds, a fork some hundredths of one. Where there is one, each child is a program of
its own: a fork cannot use a GPU for which its parent has looked.
Promises: the child gets an allowlisted environment (no key can leak into it), its own quota of
threads, its own process group, and dies with the host. A Ctrl-C at the terminal reaches the host
alone, which then decides; a session of its own would also move the child into another scheduling
group. The end of its stderr is kept for the error message. Other ranks write there too. A rank that
ends by itself takes the child with it.
Not covered: memory limits; where one is set on the host's group, the kernel kills the
child and the host reports it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any, Final

from meta_agent.core.processes import DEVNULL, Popen, TimeoutExpired, inherited, start
from meta_agent.core.sandbox.forks import Forked, ForkServer
from meta_agent.policies.training._frames import FrameChannel
from meta_agent.policies.training.devices import devices as devices_here

_ALSO_INHERITED: Final = ("VIRTUAL_ENV", "PYTHONPATH")
_LAST_WORDS_BYTES: Final = 2000
_IMPORT_SEC: Final = 600.0
CHILD_EVENT: Final = "meta_agent.policy_child"
"""The audit event of a child that begins. A fork raises none of its own that names a program."""

# The kernel ties PDEATHSIG to the *thread* that forked, so one thread that lives as long as the
# process does all the starting.
_starter: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policy-child-starter")
_servers: Final[dict[frozenset[tuple[str, str]], ForkServer]] = {}
"""By the environment variables of a server; only the starter's thread uses them."""


class ChildProcess:
    """A running policy child (a process that holds a policy's weights), and the channel to it."""

    def __init__(self, threads: int, devices: str | None = None) -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        (stdin, ours_to), (ours_from, stdout) = os.pipe(), os.pipe()
        theirs = (stdin, stdout, self._stderr.fileno())
        self._process = _starter.submit(_begin, _variables(threads, devices), theirs).result()
        os.close(stdin)
        os.close(stdout)
        self.channel = FrameChannel(ours_from, ours_to)

    @property
    def pid(self) -> int:
        return self._process.pid

    def obituary(self, wait_sec: float = 5.0) -> str:
        """Returns how the child ended and the end of its stderr. Kills it if it has not ended."""
        try:
            code = self._process.wait(wait_sec)
        except TimeoutExpired:
            self.kill()
            return f"it hung and was killed; {self._last_words()}"
        return f"{_ending(code)}; {self._last_words()}"

    def kill(self) -> None:
        """Kills the child at once."""
        self._process.kill()
        self._process.wait()

    def close(self, grace_sec: float = 5.0) -> None:
        """Closes the channel, which ends a healthy child, and kills the child after `grace_sec`."""
        self.channel.close()
        try:
            self._process.wait(grace_sec)
        except TimeoutExpired:
            self.kill()
        self._stderr.close()

    def _last_words(self) -> str:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _LAST_WORDS_BYTES))
        words = self._stderr.read().decode(errors="replace").strip()
        return f"its last words: {words}" if words else "it said nothing"


def _begin(variables: dict[str, str], stdio: tuple[int, int, int]) -> Popen[bytes] | Forked:
    """Forks a policy child, or starts one: where a GPU is or no fork succeeds."""
    sys.audit(CHILD_EVENT)
    if not any(device.name for device in devices_here()):
        with suppress(OSError):
            return Forked(_fork_server(variables), {}, stdio)
    stdin, stdout, stderr = stdio
    return _start(variables, stdin=stdin, stdout=stdout, stderr=stderr)


def _fork_server(variables: dict[str, str]) -> ForkServer:
    """Returns the process whose forks see exactly these variables; starts one if none is running.

    Ends those with other variables that have nothing left to wait for. One that ended by itself
    is returned, and forks nothing: the same would happen to the next.
    """
    visible = frozenset((inherited(_ALSO_INHERITED) | variables).items())
    for other in [*_servers.keys() - {visible}]:
        if not _servers[other].forks:
            _servers.pop(other).close()
    if visible not in _servers:
        _servers[visible] = ForkServer(
            lambda orders, errors: _start(
                variables,
                str(orders),
                stdin=DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=(orders,),
            ),
            _IMPORT_SEC,
        )
    return _servers[visible]


def _start(variables: dict[str, str], *arguments: str, **options: Any) -> Popen[bytes]:
    return start(
        [sys.executable, "-m", "meta_agent.policies.training.child", *arguments],
        variables=variables,
        also=_ALSO_INHERITED,
        process_group=0,
        **options,
    )


class OtherRanks:
    """The processes of ranks 1 and up in a training on several devices; this process is rank 0."""

    def __init__(self, port: int, threads: int, devices: Sequence[str | None]) -> None:
        self._closed = False
        start = [
            lambda rank=rank, device=device: self._start(rank, device, port, threads, len(devices))
            for rank, device in enumerate(devices, 1)
        ]
        self._processes = [_starter.submit(begin).result() for begin in start]
        for rank in range(1, len(devices) + 1):
            threading.Thread(target=self._watch, args=(rank,), daemon=True).start()

    def _start(
        self, rank: int, device: str | None, port: int, threads: int, others: int
    ) -> Popen[bytes]:
        settings = {"rank": rank, "count": others + 1, "port": port}
        return start(
            [
                sys.executable,
                "-m",
                "meta_agent.policies.training.passes.other_rank",
                json.dumps(settings),
            ],
            stdin=DEVNULL,
            stdout=2,  # the child's: the host reads it when the child ends
            variables=_variables(threads, device),
            also=_ALSO_INHERITED,
        )

    def require(self, patience_sec: float = 1.0) -> None:
        """Ends this process if one of ranks 1 and up has ended or ends within `patience_sec`."""
        for rank, process in enumerate(self._processes, 1):
            with suppress(TimeoutExpired):
                process.wait(patience_sec)
                self._end(rank)

    def close(self) -> None:
        """Kills the processes of ranks 1 and up."""
        self._closed = True
        for process in self._processes:
            process.kill()

    def _watch(self, rank: int) -> None:
        self._processes[rank - 1].wait()
        if not self._closed:
            self._end(rank)

    def _end(self, rank: int) -> None:
        ending = _ending(self._processes[rank - 1].wait()).removeprefix("it ")
        print(f"rank {rank} of the training {ending}", file=sys.stderr, flush=True)
        os._exit(1)


def _variables(threads: int, devices: str | None) -> dict[str, str]:
    visible = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
    return visible | {
        "META_AGENT_CHILD_THREADS": str(threads),
        "META_AGENT_CHILD_PARENT": str(os.getpid()),
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONHASHSEED": "0",
    }


def _ending(code: int) -> str:
    if code >= 0:
        return f"it exited with code {code}"
    name = signal.Signals(-code).name
    memory = " (often: out of memory)" if -code == signal.SIGKILL else ""
    return f"it was killed by {name}{memory}"
