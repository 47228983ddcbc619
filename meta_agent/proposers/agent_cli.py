"""A coding agent's command-line program: the known ones, and how one session of it runs.

Promises: a session ends. It ends by itself, at a limit of time, steps or printed bytes, or because
the user asked to stop; then its whole process group is killed. Its output is stored in a file.

Does not cover: what the program may do. It runs on this machine as the person's own tool, with the
person's login and rights. A process that it moves to a group of its own may outlive it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal

from meta_agent.core import processes
from meta_agent.core.errors import ConfigError, Interrupted, PreflightError
from meta_agent.core.ledger.waiting import moved, waiting
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON

PREFIX: Final = "agent:"
_ASKED_SEC: Final = 60.0
_POLL_SEC: Final = 0.1
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_LAST_CHARS: Final = 400
_LINE_BYTES: Final = 8 << 20
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_KEY_NAME: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)$")

Ending = Literal["by itself", "time_limit", "turn_limit", "output_limit"]


@dataclass(frozen=True, slots=True)
class AgentCli:
    """A coding agent's command-line program: command, login, and the oldest version that works.

    For a command that the user gave, only `name` and `argv` are set.
    """

    name: str
    argv: tuple[str, ...]
    inherits: tuple[str, ...] = ()
    """Beginnings of the names of the variables that hold its login and its settings."""
    keys: tuple[str, ...] = ()
    """Variables that are a login."""
    clouds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By the switch for a cloud's login: beginnings of the names of the variables of that cloud."""
    status: tuple[str, ...] = ()
    """The command that ends with 0 if the person is logged in."""
    log_in: str = ""
    install: str = ""
    least: tuple[int, int, int] = (0, 0, 0)
    """The oldest version that has the options of `argv`."""

    @property
    def label(self) -> str:
        """Returns the value of `--meta-model` that selects the program, `agent:NAME`."""
        return f"{PREFIX}{self.name}"


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The limits of one coding agent's session: seconds, turns, and bytes of output."""

    seconds: float = 1800.0
    turns: int = 80
    """Replies and tool calls, as far as the program prints them as JSON."""
    printed_bytes: int = 64 << 20


LIMITS: Final = SessionLimits()
# No settings of the folder that it works in: a harness holds files that other models wrote.
_CLAUDE: Final = AgentCli(
    "claude",
    (
        *("claude", "--print", "--output-format", "stream-json", "--verbose"),
        *("--permission-mode", "acceptEdits", "--tools", "Bash,Read,Edit,Write,Glob,Grep"),
        *("--setting-sources", "user", "--strict-mcp-config", "--no-session-persistence"),
        *("--max-turns", str(LIMITS.turns)),
    ),
    ("ANTHROPIC_", "CLAUDE_"),
    ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    {
        "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
        "CLAUDE_CODE_USE_VERTEX": (
            *("GOOGLE_APPLICATION_", "GOOGLE_CLOUD_", "GCLOUD_", "CLOUDSDK_", "CLOUD_ML_"),
            "VERTEX_",
        ),
        "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
    },
    ("claude", "auth", "status"),
    "claude auth login",
    "npm install -g @anthropic-ai/claude-code",
    (2, 1, 0),
)
_CODEX: Final = AgentCli(
    "codex",
    (
        *("codex", "exec", "--json", "--ephemeral", "--skip-git-repo-check"),
        *("--sandbox", "workspace-write", "-"),
    ),
    ("OPENAI_", "CODEX_"),
    ("CODEX_API_KEY",),
    {},
    ("codex", "login", "status"),
    "codex login",
    "npm install -g @openai/codex",
    (0, 100, 0),
)
_KNOWN: Final = {cli.name: cli for cli in (_CLAUDE, _CODEX)}


def agent_cli(meta_model: str) -> AgentCli:
    """Returns the program named in `agent:NAME` or `agent:COMMAND`. Raises ConfigError if none."""
    name = meta_model.removeprefix(PREFIX)
    if name in _KNOWN:
        return _KNOWN[name]
    try:
        argv = tuple(shlex.split(name))
    except ValueError as error:
        raise ConfigError(
            f"--meta-model {meta_model}: {error}", hint="quote the command as in a shell"
        ) from error
    if not argv:
        raise ConfigError(
            "--meta-model agent: does not name a program",
            hint=f"give {' or '.join(PREFIX + program for program in _KNOWN)}, or agent:'COMMAND'",
        )
    return AgentCli(name, argv)


def require_agent(cli: AgentCli, key_variable: str | None, environment: Mapping[str, str]) -> None:
    """Raises PreflightError if a coding agent's program is missing, too old or not logged in.

    `key_variable` is the environment variable with an API key for the program, if there is one.
    """
    program = cli.argv[0]
    if shutil.which(program, path=environment.get("PATH")) is None:
        raise PreflightError(
            f"--meta-model {cli.label}: the program {program} is not installed",
            hint=cli.install or f"install {program}, or give its path",
        )
    if not cli.status:
        return
    variables = _variables(cli, key_variable, environment)
    version = _printed(cli, (program, "--version"), variables)[1]
    numbers = _VERSION.search(version)
    if numbers is None or tuple(map(int, numbers.groups())) < cli.least:
        raise PreflightError(
            f"{program} reports the version {version.strip()[:80]!r}, but "
            f"{'.'.join(map(str, cli.least))} or newer is needed",
            hint=cli.install,
        )
    has_key = any(variables.get(key) for key in cli.keys)
    if not has_key and _printed(cli, cli.status, variables)[0] != 0:
        raise PreflightError(f"{program} is not logged in", hint=cli.log_in)


def _printed(cli: AgentCli, argv: tuple[str, ...], variables: Mapping[str, str]) -> tuple[int, str]:
    try:
        ran = processes.run(argv, variables=variables, timeout_sec=_ASKED_SEC)
    except (OSError, processes.TimeoutExpired) as error:
        raise PreflightError(
            f"the command {' '.join(argv)} does not answer: {error}", hint=cli.install
        ) from error
    return ran.returncode, (ran.stdout or ran.stderr).decode("utf-8", "replace")


def _variables(
    cli: AgentCli, key_variable: str | None, environment: Mapping[str, str]
) -> dict[str, str]:
    """Returns the variables of the program's own login and network, and that of `--key-env`."""
    begins = list(cli.inherits)
    for switch, names in cli.clouds.items():
        if environment.get(switch, "").strip().lower() not in ("", "0", "false"):
            begins += names
    return {
        name: value.strip() if name == key_variable or name in cli.keys else value
        for name, value in environment.items()
        if name.startswith(tuple(begins))
        or name in ("PATH", "NODE_EXTRA_CA_CERTS", key_variable)
        or name.upper() in _PROXIES
    }


def withheld(cli: AgentCli, key_variable: str | None, environment: Mapping[str, str]) -> list[str]:
    """Returns the names of variables like `OPENAI_API_KEY` that the program does not see."""
    passed = _variables(cli, key_variable, environment)
    return sorted(name for name in environment if _KEY_NAME.search(name) and name not in passed)


@dataclass(slots=True)
class Usage:
    """The turns, tokens and US$ that a coding agent reports as JSON. `usd` is None if unknown."""

    turns: int = 0
    tokens: int = 0
    usd: float | None = None

    def add(self, other: Usage) -> None:
        self.turns += other.turns
        self.tokens += other.tokens
        self.usd = other.usd if self.usd is None else self.usd + (other.usd or 0.0)

    def to_json(self) -> dict[str, JSON]:
        return {"turns": self.turns, "tokens": self.tokens, "usd": self.usd}


@dataclass(frozen=True, slots=True)
class Session:
    """A finished session of a coding agent: why it ended, its exit code, and its reported usage."""

    ending: Ending
    exit_code: int
    usage: Usage
    last: str
    """The program's last words, for people."""
    failed: bool = False
    """Whether the program said that the session failed, for example at a rate limit."""


def run_session(
    cli: AgentCli,
    folder: Path,
    prompt: Path,
    output: Path,
    *,
    key_variable: str | None,
    environment: Mapping[str, str],
    limits: SessionLimits,
    stopping: Callable[[], bool],
) -> Session:
    """Runs a coding agent in `folder` with the file `prompt` as input; its output goes to `output`.

    At a limit the agent is killed. Raises Interrupted if `stopping` returns True, and
    PreflightError if the program cannot start.
    """
    with prompt.open("rb") as text:
        try:
            process = processes.start(
                cli.argv,
                variables=_variables(cli, key_variable, environment),
                cwd=folder,
                stdin=text,
                stdout=processes.PIPE,
                stderr=processes.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise PreflightError(
                f"{cli.argv[0]} cannot be started: {error}", hint="check its path and permissions"
            ) from error
    assert process.stdout is not None
    listener = _Listener(process.stdout, output, limits)
    listener.start()
    try:
        with waiting(
            "agent",
            f"the session of {cli.name} (process {process.pid})",
            limit_sec=limits.seconds,
            advice="The session ends at its limit. What it prints goes to its transcript.",
            command=shlex.join(["tail", "-f", str(output)]),
        ):
            ending = _wait(process, listener, limits, stopping)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        listener.join(_POLL_SEC * 50)
    ending = listener.over or ending
    return Session(ending, code, listener.usage, listener.last, listener.failed)


def _wait(
    process: processes.Popen[bytes],
    listener: _Listener,
    limits: SessionLimits,
    stopping: Callable[[], bool],
) -> Ending:
    until, turns = time.monotonic() + limits.seconds, 0
    while process.poll() is None:
        if listener.usage.turns > turns:
            turns = listener.usage.turns
            moved(f"{turns} replies and tool calls so far")
        if stopping():
            raise Interrupted
        if listener.over is not None:
            break
        if time.monotonic() >= until:
            return "time_limit"
        time.sleep(_POLL_SEC)
    return "by itself"


@dataclass(eq=False)
class _Listener(threading.Thread):
    """Stores what a program prints, and reads the JSON lines of a known kind in it."""

    pipe: IO[bytes]
    output: Path
    limits: SessionLimits
    over: Ending | None = None
    usage: Usage = field(default_factory=Usage)
    last: str = ""
    failed: bool = False
    _replies: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        size = 0
        with self.pipe, self.output.open("wb") as file:
            while line := self.pipe.readline(_LINE_BYTES):
                size += len(line)
                if size > self.limits.printed_bytes:
                    self.over = "output_limit"
                    return
                file.write(line)
                file.flush()
                self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            event = document(line)
        except (ValueError, RecursionError):
            event = None
        events = event if isinstance(event, list) else [event]
        if all(isinstance(event, dict) for event in events):
            for event in events:
                self._read(event)
        elif text := line.decode("utf-8", "replace").strip():
            self.last = text[:_LAST_CHARS]
        if self.usage.turns > self.limits.turns:
            self.over = "turn_limit"

    def _read(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind == "assistant" and isinstance(message := event.get("message"), dict):
            self._replies.add(str(message.get("id")))  # a reply of several blocks is several lines
            self.usage.turns = len(self._replies)
        elif kind == "item.completed":
            self.usage.turns += 1
        elif kind in ("result", "turn.completed") and isinstance(used := event.get("usage"), dict):
            names = _TOKENS if kind == "result" else _TOKENS[:2]  # codex: cached ones are input
            self.usage.tokens += sum(round(_number(used.get(name))) for name in names)
        if kind in _CLOSING:  # a program that tries again says later that it succeeded
            erred = event.get("is_error") is True or kind in ("error", "turn.failed")
            self.failed = erred or str(event.get("subtype", "")).startswith("error")
        if kind == "result":
            if event.get("subtype") == "error_max_turns":
                self.over = "turn_limit"
            if "total_cost_usd" in event:
                self.usage.usd = _number(event["total_cost_usd"])
        error = event.get("error")
        error = error.get("message") if isinstance(error, dict) else error
        text = event.get("result") or error or event.get("message")
        if isinstance(text, str):
            self.last = text[:_LAST_CHARS]


_CLOSING: Final = ("result", "turn.completed", "turn.failed", "error")
_TOKENS: Final = (
    *("input_tokens", "output_tokens"),
    *("cache_creation_input_tokens", "cache_read_input_tokens"),
)


def _number(value: JSON) -> float:
    """Returns an amount that a program printed; 0 for anything that is no sensible amount."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e12 else 0.0
