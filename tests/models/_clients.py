"""A run with a ledger and transcripts in a temporary workspace, for tests of the client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from meta_agent.core.chat import ChatRequest, ToolSpec
from meta_agent.core.config import RunConfig
from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import Message, Role
from meta_agent.llm_clients.asking._retry import RetryPolicy
from meta_agent.llm_clients.asking.client import Client, open_client
from meta_agent.llm_clients.asking.transcripts import Transcripts

RUN = "swe-0123456789"
AT_ONCE = RetryPolicy(3, 2, rate_limited_attempts=3, first_wait_sec=0.0)
SHELL = ToolSpec("shell", "runs a command", {"type": "object", "properties": {"cmd": {}}})


class Opened(NamedTuple):
    client: Client
    ledger: Ledger
    transcripts: Transcripts


@contextmanager
def opened(workspace: Path, *, run: str = RUN, **settings: Any) -> Iterator[Opened]:
    """One start of the run's process, as far as the client is concerned."""
    passed = {name: settings.pop(name) for name in PASSED & set(settings)}
    config = settings.pop("config", None) or RunConfig(workspace=workspace, **settings)
    with Ledger.open(workspace / "ledger.sqlite") as ledger:
        ledger.start_run(run, config.to_json(), config_hash="h")
        ledger.once(f"{run}/clock", "clock", {}, lambda: {"at": 1_700_000_000})
        transcripts = Transcripts(workspace / "transcripts" / run)
        client = open_client(
            config,
            ledger,
            run,
            transcripts,
            **{"environment": {}, "clock": lambda: 1_700_000_123.0, "retry": AT_ONCE, **passed},
        )
        with client:
            yield Opened(client, ledger, transcripts)


PASSED = {"environment", "clock", "retry", "servers", "labels", "timeouts"}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def request(
    messages: Sequence[Message] | str, role: Role = "analyst", max_tokens: int = 100, **more: Any
) -> ChatRequest:
    asked = [user(messages)] if isinstance(messages, str) else messages
    return ChatRequest(role=role, model="", messages=asked, max_tokens=max_tokens, **more)


def script(path: Path, *lines: tuple[str, Mapping[str, Any]]) -> str:
    """Writes a script; returns its model string."""
    rows = [json.dumps({"conversation": pattern, "reply": reply}) for pattern, reply in lines]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return f"scripted:{path}"
