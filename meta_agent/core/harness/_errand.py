"""Runs an agent's command once in a sandbox of its own, and reports how it ended.

    harness/   the files of the harness         {harness}, META_AGENT_HARNESS
    repo/      the task's files, where it works {repo}, META_AGENT_REPO (and the current folder)
    task.md    the problem as text              {prompt}, {prompt_file}, META_AGENT_PROMPT_FILE
    task.json  key, prompt and the task's view  {task_file}, META_AGENT_TASK_FILE
    home/      HOME; tmp/ TMPDIR

If the image has git, `repo/` is a repository with one commit, so that agents can ask for their
own diff; it holds no earlier history.

Promises: this file checks whatever the sandbox sends, so a hostile agent can end its own attempt
and nothing else. A call counts for the attempt that its sandbox was opened for, whatever number it
carries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from meta_agent.core.errors import GuestError, SandboxError
from meta_agent.core.harness.contract import TRAINING_FOLDER, HarnessContract
from meta_agent.core.protocols import JSON, Answer, Answerer, Call, HarnessTree, Sandbox
from meta_agent.core.rollouts.away import AgentEnd

AGENT_MODULES: Final = (
    ("agent_dialects", "_dialects_guest.py"),
    ("agent_endpoint", "_endpoint_guest.py"),
    ("agent_command", "_command_guest.py"),
)
GRACE_SEC: Final = 15.0
"""Seconds that an agent has to end once its attempt is over."""
MAX_MESSAGES: Final = 2048
MAX_TOOLS: Final = 256
PROMPT_KEYS: Final = ("prompt", "issue", "question", "problem")
# The words by which agents and their libraries know this error.
TOO_LONG: Final = "the request is over the model's maximum context length"
_SLACK_SEC: Final = 60.0
_SETTLE_SEC: Final = 30.0
# Failures of a sandbox in which an agent runs that are the agent's doing, or its policy's.
_AGENT_KILLS: Final = frozenset({"oom", "died", "protocol", "timeout"})
_GIT: Final = (
    "command -v git >/dev/null || exit 0; git init -q --initial-branch=main --template= . && "
    "git config user.name agent && git config user.email agent@localhost && "
    "git config gc.auto 0 && git add -A -f . && "
    "git commit -q --no-verify --allow-empty -m 'the task'"
)

Ask = Callable[[Call], Any]


@dataclass(frozen=True, slots=True)
class Errand:
    """What a command agent gets for one attempt: the task as it is shown, files and limits."""

    key: str
    view: Mapping[str, JSON]
    files: Mapping[str, bytes]
    wall_sec: float
    max_turns: int
    max_conversation_bytes: int

    @property
    def prompt(self) -> str:
        """Returns the task's problem text, or without one all that the agent sees, as JSON."""
        texts = (self.view.get(name) for name in PROMPT_KEYS)
        problem = next((text for text in texts if isinstance(text, str) and text), None)
        return problem or json.dumps(self.shown_view, ensure_ascii=False, indent=2)

    @property
    def shown_view(self) -> dict[str, JSON]:
        """Returns the task as the agent sees it, without tools, which a command cannot call."""
        return {name: value for name, value in self.view.items() if name != "tools"}


def run_errand(
    sandbox: Sandbox, tree: HarnessTree, contract: HarnessContract, errand: Errand, ask: Ask
) -> AgentEnd:
    """Runs the harness's command on one task in `sandbox`, and kills the processes that it left.

    `ask` answers the command's model calls. Returns how the agent ended. Raises SandboxError if the
    sandbox failed and the agent is not to blame.
    """
    place = _stage(sandbox, tree, errand)
    relay = Relay(ask, errand.max_conversation_bytes)
    arguments = _arguments(contract, errand, place)
    limit_sec = errand.wall_sec + GRACE_SEC + _SLACK_SEC
    try:
        report = sandbox.request("command.run", arguments, timeout_sec=limit_sec, serve=relay.serve)
        sandbox.exec(["true"], timeout_sec=_SETTLE_SEC)  # ends whatever is below the worker
    except GuestError as error:
        return AgentEnd(contract.command, -1, str(error), None, killed="broke its worker")
    except SandboxError as error:
        if error.kind not in _AGENT_KILLS:
            raise
        return AgentEnd(contract.command, -1, str(error), None, killed=f"sandbox {error.kind}")
    return _ending(report, contract, sandbox)


def _stage(sandbox: Sandbox, tree: HarnessTree, errand: Errand) -> str:
    files = {p: d for p, d in tree.files.items() if not p.startswith(f"{TRAINING_FOLDER}/")}
    scripts = {p: d for p, d in files.items() if d.startswith(b"#!")}
    others = {p: d for p, d in files.items() if p not in scripts}
    sandbox.write({f"harness/{path}": data for path, data in scripts.items()}, executable=True)
    sandbox.write({f"harness/{path}": data for path, data in others.items()})
    sandbox.write({f"repo/{path}": data for path, data in errand.files.items()})
    task = {"key": errand.key, "prompt": errand.prompt, "view": errand.shown_view}
    sandbox.write(
        {
            "task.md": errand.prompt.encode(),
            "task.json": json.dumps(task, ensure_ascii=False, indent=2).encode(),
            "home/.keep": b"",
            "tmp/.keep": b"",
        }
    )
    sandbox.exec(["mkdir", "-p", "repo"], timeout_sec=_SETTLE_SEC)
    sandbox.exec(["sh", "-c", _GIT], cwd="repo", env={"HOME": "."}, timeout_sec=120)
    for name, file in AGENT_MODULES:
        sandbox.install(name, Path(__file__).with_name(file).read_text(encoding="utf-8"))
    where = sandbox.exec(["pwd", "-P"], timeout_sec=_SETTLE_SEC).stdout
    return where.decode("utf-8", "replace").strip()


def _arguments(contract: HarnessContract, errand: Errand, place: str) -> dict[str, JSON]:
    paths = {
        "harness": f"{place}/harness",
        "repo": f"{place}/repo",
        "prompt_file": f"{place}/task.md",
        "task_file": f"{place}/task.json",
    }
    env = {f"META_AGENT_{name.upper()}": path for name, path in paths.items()}
    env |= {"META_AGENT_MAX_TURNS": str(errand.max_turns), "META_AGENT_MODEL": "policy"}
    env |= {"META_AGENT_WALL_SEC": f"{errand.wall_sec:g}", "PYTHONUNBUFFERED": "1"}
    return {
        "argv": list(contract.command),
        "cwd": f"{place}/repo",
        "env": {**env, "HOME": f"{place}/home", "TMPDIR": f"{place}/tmp"},
        "own_env": dict(contract.env),
        "values": {**paths, "prompt": errand.prompt},
        "wall_sec": errand.wall_sec,
        "grace_sec": GRACE_SEC,
    }


def _ending(answer: JSON, contract: HarnessContract, sandbox: Sandbox) -> AgentEnd:
    """Returns how the command ended, from the guest's report, which the agent could have forged."""
    report = answer if isinstance(answer, dict) else {}
    code = report.get("exit_code")
    output = "\n".join(str(report.get(name) or "") for name in ("stdout", "stderr"))
    end = AgentEnd(contract.command, code if type(code) is int else -1, output.strip(), sandbox)
    if report.get("over") is True and report.get("ended") is False:
        return replace(end, killed="did not end when its attempt was over")
    if report.get("ended") is False:
        return replace(end, killed="out of time", late=True)
    return end


class Relay:
    """Passes one command agent's model calls from its sandbox to the host's function `ask`.

    The agent can forge calls, since it shares a user with the program that sends them. So a
    malformed call gets an error as its answer and ends nothing.
    """

    def __init__(self, ask: Ask, max_bytes: int) -> None:
        self._ask = ask
        self._max_bytes = max_bytes
        self._sizes: list[int] = []  # of the messages that the attempt has
        self._over = False

    def serve(self, calls: list[Call], answer: Answerer) -> None:
        """Answers each of `calls`, in turn and on the calling thread, through `answer`."""
        for call in calls:
            answer([{"cid": call["cid"], **self._answer(call)}])

    def _answer(self, call: Call) -> Answer:
        if self._over:
            return {"ok": None}
        problem = self._problem(call)
        if problem:
            return {"err": problem}
        relayed = {name: call[name] for name in ("kind", "base", "new", "max")}
        tools = call.get("tools")
        value = self._ask({**relayed, "tools": tools} if tools else relayed)
        self._over = value is None
        if value is not None:
            self._sizes[call["base"] :] = [*map(_size, call["new"]), _size(value)]
        return {"ok": value}

    def _problem(self, call: Call) -> str:
        """Returns what is wrong with a call, or an empty string."""
        base: JSON = call.get("base")
        new: JSON = call.get("new")
        limit: JSON = call.get("max")
        if call["kind"] != "model" or type(base) is not int or not 0 <= base <= len(self._sizes):
            return "only model calls are relayed"
        if not _messages(new) or base + len(new) > MAX_MESSAGES or not base + len(new):
            return f"messages must be objects with a role, from 1 to {MAX_MESSAGES} of them"
        if limit is not None and (type(limit) is not int or limit < 1):
            return "a limit on tokens must be a positive whole number"
        if not _tools(call.get("tools")):
            return f"tools must be at most {MAX_TOOLS} objects"
        size = sum(self._sizes[:base]) + sum(map(_size, new)) + _size(call.get("tools"))
        if size > self._max_bytes:
            return f"{TOO_LONG}: {size} bytes of conversation, at most {self._max_bytes} are taken"
        return ""


def _messages(value: JSON) -> bool:
    return isinstance(value, list) and all(
        isinstance(message, dict) and isinstance(message.get("role"), str) for message in value
    )


def _tools(value: JSON) -> bool:
    if value is None:
        return True
    short_list = isinstance(value, list) and len(value) <= MAX_TOOLS
    return short_list and all(isinstance(tool, dict) for tool in value)


def _size(value: JSON) -> int:
    return len(json.dumps(value, ensure_ascii=False))
