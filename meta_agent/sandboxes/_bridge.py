"""Sandboxes at a service, through Harbor's client of it: the only file that imports Harbor.

It is a program for the interpreter that has Harbor, which pins what this package does not; it
imports nothing of this package. It listens on a socket file. A connection with the order `open` is
one sandbox: the answer is a line with its promises or an error, then the worker's bytes follow in
parts as Docker frames them. `remove` ends a sandbox, and `state` says why one ended.
Promises: A sandbox is deleted when its connection ends, so also when the host is killed, or when
this process is asked to end. Each error is one line.
Does not cover: a kill -9 of this process. Then the service's own time limit ends the sandbox.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
import shlex
import signal
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from harbor.environments.base import BaseEnvironment  # noqa: TID251
from harbor.environments.factory import EnvironmentFactory  # noqa: TID251
from harbor.models.environment_type import EnvironmentType  # noqa: TID251
from harbor.models.task.config import EnvironmentConfig, NetworkPolicy  # noqa: TID251
from harbor.models.trial.paths import TrialPaths  # noqa: TID251

_ELSEWHERE: Final = ("host", "processes", "peers")
_OF_THE_WORKER: Final = ("unprivileged", "capabilities")
# Commands in the relay's folder. They wait where there is nothing to do, and may be repeated.
_WAIT: Final = "i=0; while {until} && [ $i -lt {{waits}} ]; do sleep 0.05; i=$((i+1)); done; "
_PUT: Final = (
    _WAIT.format(until="[ -e in.{before} ] && [ ! -e code ]")
    + "if [ -e in.{before} ] && [ ! -e code ]; then echo '<<ma::1>>'; "
    "else mv chunk in.{number}; echo '<<ma::>>'; fi"
)
_TAKE: Final = (
    "rm -f out.{before}; touch alive; "
    + _WAIT.format(until="[ ! -e out.{number} ] && [ ! -e code ]")
    + "echo '<<ma:'; if [ -e out.{number} ]; then base64 out.{number}; echo ':>>'; "
    "elif [ -e code ]; then echo \":$(cat code)>>\"; else echo ':>>'; fi"
)
_WAITS: Final = 300
_PAUSES_SEC: Final = (0.5, 2.0, 5.0)
_REPLY: Final = re.compile(r"<<ma:([A-Za-z0-9+/=\s]*):(\w*)>>")
_MOST_BYTES: Final = 4 << 20
_COMMAND_SEC: Final = 60
_STOP_SEC: Final = 60
_LAST_WORDS: Final = 2000


class Failed(Exception):  # noqa: N818 - it ends one sandbox, with a text for people
    """Raised if a cloud service for sandboxes fails to do what the host ordered, with the cause."""


class Remote:
    """A sandbox at a cloud service, and the relay of bytes to the program in it (the worker)."""

    def __init__(self, order: dict[str, Any], folder: Path) -> None:
        self._order, self._folder = order, folder
        self._link = f"/tmp/{order['open']}"
        self._environment, self.fences, self.bounds_memory = _environment(order, folder)

    async def start(self) -> None:
        """Starts the sandbox with the worker program and a relay in it. Raises Failed on errors."""
        await self._environment.start(force_build=False)
        await self._run(f"umask 077 && mkdir {self._link} && command -v python3")
        for name in ("relay.py", "program"):
            await self._upload(name, self._order[name].encode())
        contained = "1" if "processes" in self.fences else ""
        argv = [self._link, self._order["work"], str(self._order["deadline_sec"]), contained]
        await self._run(shlex.join(["python3", "-s", f"{self._link}/relay.py", *argv]))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """Passes bytes between the host and the worker, the program inside, until one of them ends.

        Returns the worker's exit code ("oom": memory ran out), or "" if the host ended first.
        """
        both = [asyncio.create_task(part) for part in (self._feed(reader), self._drain(writer))]
        try:
            ended, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return ended.pop().result()
        finally:
            for task in both:
                task.cancel()

    async def last_words(self) -> str:
        """Returns the end of what the worker, the program inside, wrote to standard error."""
        return str(await self._run(f"tail -c {_LAST_WORDS} {self._link}/errors")).strip()

    async def stop(self) -> None:
        """Deletes the sandbox at the service."""
        await self._environment.stop(delete=True)

    async def _feed(self, reader: asyncio.StreamReader) -> str:
        number = 0
        while chunk := await reader.read(_MOST_BYTES):
            await self._upload("chunk", chunk)
            put = _PUT.format(waits=_WAITS, before=number - 1, number=number)
            while (await self._relay(put))[1]:
                pass
            number += 1
        return ""

    async def _drain(self, writer: asyncio.StreamWriter) -> str:
        number, code = 0, ""
        while not code:
            take = _TAKE.format(waits=_WAITS, before=number - 1, number=number)
            data, code = await self._relay(take)
            if data:
                number += 1
                writer.write(struct.pack(">BxxxL", 1, len(data)) + data)
                await writer.drain()
        return code

    async def _upload(self, name: str, content: bytes) -> None:
        path = self._folder / name
        path.write_bytes(content)
        await self._environment.upload_file(path, f"{self._link}/{name}")

    async def _relay(self, command: str) -> tuple[bytes, str]:
        """Returns the data and the state that a command in the relay's folder printed.

        An answer that is lost on its way is asked for again.
        """
        for pause_sec in (*_PAUSES_SEC, None):
            try:
                output = await self._run(f"cd {self._link} && {command}")
                break
            except Failed:
                raise
            except Exception:
                if pause_sec is None:
                    raise
                await asyncio.sleep(pause_sec)
        match = _REPLY.search(output)
        if not match:
            raise Failed(f"the sandbox's answer has another form: {output[-_LAST_WORDS:]}")
        return base64.b64decode(match[1]), match[2]

    async def _run(self, command: str) -> str:
        result = await self._environment.exec(command, timeout_sec=_COMMAND_SEC, user="root")
        if result.return_code:
            words = f"{result.stdout or ''} {result.stderr or ''}".strip() or "it printed nothing"
            code = result.return_code
            raise Failed(f"`{command[:80]}` failed with code {code}: {words[-_LAST_WORDS:]}")
        return result.stdout or ""


def _environment(order: dict[str, Any], folder: Path) -> tuple[BaseEnvironment, list[str], bool]:
    """Returns an environment of the service, its protections, and whether it limits memory.

    Harbor's own services run on other machines or in containers. A user's class names its
    protections in an attribute `promises`; without that it has none.
    """
    service = order["service"]
    if ":" in service:
        sys.path.append(str(Path.cwd()))
        kind = EnvironmentFactory.get_environment_class(import_path=service)
        fences = list(getattr(kind, "promises", ()))
    elif service in EnvironmentFactory.registered_names():
        kind = EnvironmentFactory.get_environment_class(EnvironmentType(service))
        fences = [*_ELSEWHERE]
    else:
        names = ", ".join(EnvironmentFactory.registered_names())
        raise Failed(f"Harbor has no service {service!r}; choose one of {names}")
    kind.preflight()
    able = kind.resource_capabilities()
    bounded = bool(able and able.memory_limit)
    mode = "limit" if bounded else "auto"
    options: dict[str, Any] = {
        "environment_dir": folder,
        "environment_name": "meta-agent",
        "session_id": order["open"],
        "trial_paths": TrialPaths(folder),
        "task_env_config": EnvironmentConfig(
            docker_image=order["image"], cpus=math.ceil(order["cpus"]), memory_mb=order["memory_mb"]
        ),
        "memory_enforcement_policy": mode,
        "enable_environment_dir_upload": False,
    }
    fences += _OF_THE_WORKER
    try:
        cut_off = NetworkPolicy(network_mode="no-network")
        return kind(**options, network_policy=cut_off), [*fences, "network"], bounded
    except ValueError as error:
        if "no-network" not in str(error):
            raise
    return kind(**options, network_policy=NetworkPolicy(network_mode="public")), fences, bounded


class Bridge:
    """Opens and removes sandboxes at a cloud service, as orders from a socket say."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, dict[str, Any]] = {}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries out an order, one line of JSON: to open, remove or inspect a sandbox."""
        if not (line := await reader.readline()):  # somebody looked whether this process listens
            writer.close()
            return
        order = json.loads(line)
        if name := order.get("open"):
            holding = asyncio.ensure_future(self._hold(order, reader, writer))
            self._running[name] = holding
            await asyncio.wait([holding])
            del self._running[name]
        else:
            name = order.get("remove") or order["state"]
            running = self._running.get(name)
            if running and "remove" in order:
                running.cancel()
            if running:
                await asyncio.wait([running], timeout=_STOP_SEC if "remove" in order else 2)
            _say(writer, self._ends.get(name, {"ExitCode": 0, "Error": ""}))
        writer.close()

    async def _hold(
        self, order: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with tempfile.TemporaryDirectory() as folder:
            end = self._ends[order["open"]] = {"ExitCode": 0, "Error": ""}
            remote, started = None, False
            try:
                remote = Remote(order, Path(folder))
                await remote.start()
                _say(writer, {"fences": remote.fences, "bounds_memory": remote.bounds_memory})
                started = True
                if code := await remote.serve(reader, writer):
                    oom = code == "oom"
                    end |= {"ExitCode": 137 if oom else int(code), "OOMKilled": oom}
                    end["Error"] = await remote.last_words()
            except (Exception, SystemExit) as error:
                end["Problem"] = " ".join(str(error).split()) or repr(error)
                if not started:
                    _say(writer, {"error": end["Problem"]})
            finally:
                writer.close()
                if remote:
                    await remote.stop()

    async def stop(self) -> None:
        """Deletes all sandboxes that are still open at the service."""
        for task in self._running.values():
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=_STOP_SEC)


def _say(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")


async def main(path: str) -> None:
    """Serves orders to open or remove sandboxes on the socket file `path`, until SIGTERM."""
    bridge, stop_signal = Bridge(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop_signal.set)
    await asyncio.start_unix_server(bridge.answer, path, limit=_MOST_BYTES)
    await stop_signal.wait()
    await bridge.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
