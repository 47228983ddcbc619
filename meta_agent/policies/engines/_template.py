"""Renders a model folder's chat template in a process where it can do no harm.

A template is a program that came with the weights. The sandbox of jinja keeps it from files and
from our objects, but not from an endless loop or a string of gigabytes. Therefore it is rendered in
a forked process, which has little memory and is killed if it takes too long.
Not covered: systems without `fork`, and a template that renders nonsense.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Message

PATIENCE_SEC: Final = 20.0
MORE_BYTES: Final = 256 << 20
MAX_TEXT_BYTES: Final = 32 << 20
_FAILED, _DONE = b"!", b"."


class ChatTemplate:
    """Renders conversations with one tokenizer's chat template, in a forked process."""

    def __init__(self, tokenizer: Any, *, patience_sec: float = PATIENCE_SEC) -> None:
        self._patience_sec = patience_sec
        self._end, theirs = Pipe()
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid == 0:
            self._end.close()
            _serve(tokenizer, theirs)
        theirs.close()
        self._finish = weakref.finalize(self, _finish, self._end, self._pid)

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, JSON]] | None,
        *,
        prompt: bool = True,
    ) -> str:
        """Returns a conversation as text; `prompt` says whether the generation prompt ends it.

        Raises ConfigError if that takes too much time or memory, ValueError if the template fails.
        """
        try:
            arguments = [list(messages), list(tools or ()) or None, prompt]
            self._end.send_bytes(json.dumps(arguments).encode())
            if not self._end.poll(self._patience_sec):
                raise self._harmful(f"took over {self._patience_sec:g} s")
            reply = self._end.recv_bytes(MAX_TEXT_BYTES)
        except (OSError, EOFError):
            raise self._harmful(
                f"needed over {MORE_BYTES >> 20} MB of memory, or wrote over "
                f"{MAX_TEXT_BYTES >> 20} MB of text"
            ) from None
        text = reply[1:].decode("utf-8", "replace")
        if reply[:1] == _FAILED:
            raise ValueError(
                f"the model's chat template refuses this conversation: {text}; change the "
                "scaffold's messages, or use another model"
            )
        return text

    def _harmful(self, what: str) -> ConfigError:
        self._finish()
        return ConfigError(
            f"the model's chat template {what} for one conversation",
            hint="use another model, or repair its chat template",
        )


def _finish(end: Connection, pid: int) -> None:
    end.close()
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _serve(tokenizer: Any, end: Connection) -> None:
    """Answers render requests in the forked process until the other side is gone. Never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _limit_memory()
        while True:
            messages, tools, prompt = json.loads(end.recv_bytes())
            try:
                text = tokenizer.apply_chat_template(
                    messages, tools=tools, tokenize=False, add_generation_prompt=prompt
                )
                reply = _DONE + str(text).encode("utf-8", "replace")
            except MemoryError:
                raise
            except Exception as error:
                reply = _FAILED + f"{type(error).__name__}: {error}"[:500].encode()
            end.send_bytes(reply)
    except EOFError:
        code = 0
    finally:
        os._exit(code)


def _limit_memory() -> None:
    """Allows `MORE_BYTES` more memory than the fork inherited, such as a model's weights."""
    import resource

    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        held = next(int(line.split()[1]) for line in lines if line.startswith("VmData:")) << 10
        resource.setrlimit(resource.RLIMIT_DATA, (held + MORE_BYTES, held + MORE_BYTES))
