"""Blocks of a Markdown page, and a shell that carries them out as a reader would.

The words after the language say what a block needs: ```` ```bash key ````. What is not here is not
carried out: such a block is read by the parser of the command line alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from meta_agent import cli
from meta_agent.cli import main
from meta_agent.cli._flags import resolve_flags
from meta_agent.composition.used import require_used
from meta_agent.core.setting_table import SETTINGS
from meta_agent.strategies.strategies import STRATEGIES

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)


class Block(NamedTuple):
    """One fenced block."""

    language: str
    needs: frozenset[str]
    text: str
    line: int
    after: str
    """The page's words from here to the next block."""


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    ends = [one.start() for one in found[1:]] + [len(text)] * bool(found)
    for one, end in zip(found, ends, strict=True):
        language, *needs = one["info"].split() or [""]
        line = text.count("\n", 0, one.start()) + 2
        yield Block(language, frozenset(needs), one["text"], line, text[one.end() : end])


_CLIENT = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
told = json.dumps([os.getcwd(), sys.argv[1:], dict(os.environ)]).encode()
socket.send_fds(server, [len(told).to_bytes(4, "big")], [0, 1, 2])
server.sendall(told)
sys.exit(server.recv(1)[0])
"""
_OWN = """#!/bin/sh
exec {python} -m meta_agent "$@"
"""


class Shell:
    """A folder in which blocks are carried out one after the other; variables and `cd` stay.

    `meta-agent` runs in this process, which a small program on the shell's path asks for it: a new
    interpreter for each command would spend most of its time on imports. With `apart` it gets one:
    for whole runs, which start children and catch signals.
    """

    def __init__(self, folder: Path, *, apart: bool = False, **variables: str) -> None:
        self.folder, self._apart = folder, apart
        self._bin, self._state = folder.parent / "bin", folder.parent / "state.sh"
        self._bin.mkdir()
        self._state.write_text("")
        kept = {k: v for k, v in os.environ.items() if not k.startswith("META_AGENT_")}
        paths = {"PATH": f"{self._bin}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self._variables = {**kept, **paths, "HOME": str(folder.parent), **variables}

    def __call__(self, text: str) -> str:
        """What a block printed on stdout. Raises AssertionError where a command of it fails."""
        keep = f"{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} > {self._state}"
        script = f"set -euo pipefail\n. {self._state}\n{text}\n{keep}\n"
        with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
            server.bind(f"{short}/s")
            server.listen()
            server.settimeout(0.05)
            program = self._bin / "meta-agent"
            client = _OWN if self._apart else _CLIENT
            program.write_text(client.format(python=sys.executable, address=f"{short}/s"))
            program.chmod(0o755)
            printed, said = Path(short, "out"), Path(short, "err")
            with printed.open("w") as out, said.open("w") as err:
                ran = subprocess.Popen(
                    ["bash", "-c", script],
                    cwd=self.folder,
                    env=self._variables,
                    stdout=out,
                    stderr=err,
                )
                while ran.poll() is None:
                    with contextlib.suppress(TimeoutError):
                        answered(server)
            told = printed.read_text(encoding="utf-8")
            assert ran.returncode == 0, f"exit {ran.returncode}\n{text}\n{told}\n{said.read_text()}"
        return told


def answered(server: socket.socket) -> None:
    """Runs the command of one caller here, in its folder, with its variables and its streams."""
    asking, _ = server.accept()
    with asking:
        asking.settimeout(60)
        size, streams, *_ = socket.recv_fds(asking, 4, 3)
        with asking.makefile("rb") as told:
            folder, arguments, variables = json.loads(told.read(int.from_bytes(size, "big")))
        with standing_in(folder, arguments, variables, streams):
            try:
                main()
                code: object = 0
            except SystemExit as ended:
                code = ended.code
        asking.sendall(bytes([code if isinstance(code, int) else int(code is not None)]))


@contextlib.contextmanager
def standing_in(
    folder: str, arguments: list[str], variables: dict[str, str], streams: list[int]
) -> Iterator[None]:
    """This process with another one's folder, arguments, variables and streams, for a while."""
    ours = [os.dup(number) for number in range(3)]
    before = Path.cwd(), sys.argv, dict(os.environ), (sys.stdin, sys.stdout, sys.stderr)
    sys.stdout.flush(), sys.stderr.flush()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    sys.argv = ["meta-agent", *arguments]
    os.environ.clear()
    os.environ.update(variables)
    opened = [os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")]
    sys.stdin, sys.stdout, sys.stderr = opened
    try:
        yield
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        for number, stream in enumerate(ours):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(before[0])
        sys.argv = before[1]
        os.environ.clear()
        os.environ.update(before[2])
        sys.stdin, sys.stdout, sys.stderr = before[3]


def parsed(words: list[str], where: str) -> None:
    """Raises AssertionError where the command line would refuse them, or a setting's value."""
    if words[0] == "make":
        targets = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{words[1]}:", targets, re.MULTILINE), where
        return
    command = cli.command()
    alone = words[0].startswith("--")
    if alone:
        takers = [one for one in leaves(command) if words[0] in flags_of(one)]
        assert takers or words == ["--help"], where
        if len(words) == 1 or command.commands["evolve"] not in takers:
            return
        words = ["evolve", *words]
    while hasattr(command, "commands"):
        assert words and words[0] in command.commands, where
        command, words = command.commands[words[0]], words[1:]
    try:
        given = command.make_context(command.name, list(words)).params
        settings = {one.name for one in command.params if is_setting(one)}
        config = resolve_flags(**{name: given[name] for name in settings})
        assert config.strategy in STRATEGIES
        if command.name in ("evolve", "calibrate") and not alone:
            require_used(config)
    except Exception as refused:  # whatever a parser says
        raise AssertionError(f"{where}: {refused}") from refused


def is_setting(parameter: Any) -> bool:
    known = SETTINGS.get(parameter.name)
    return known is not None and getattr(parameter, "help", None) == known.help


def leaves(group: Any) -> Iterator[Any]:
    for one in group.commands.values():
        yield from leaves(one) if hasattr(one, "commands") else [one]


def flags_of(command: Any) -> set[str]:
    return {flag for one in command.params for flag in one.opts}
