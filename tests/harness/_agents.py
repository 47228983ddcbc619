"""Small agents for command harnesses, a domain that can be worked on elsewhere, and a policy."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.harness import CommandSession, HarnessSession, open_session
from meta_agent.core.protocols import (
    Ceilings,
    GenerateReply,
    GenerateRequest,
    HarnessTree,
    Outcome,
    PlannedRollout,
    Rollout,
    Sampling,
    Sandbox,
    SandboxLimits,
    Task,
    TokenRecord,
    ToolResult,
)
from meta_agent.core.rollouts import Runner, Stamp
from meta_agent.sandboxes import open_sandbox

TOML = """
[harness]
name = "brought"
command = {command}
editable = ["agent.py", "prompt.md"]
protected = ["tests/**"]
env = {{ GREETING = "at {{repo}}" }}
[factors]
scaffold = ["agent.py", "prompt.md"]
diagnostics = ["diagnostics/**"]
"""
# Asks by HTTP and runs the shell commands that the policy calls for, as small agents do.
AGENT = """
import json, os, subprocess, sys, urllib.request

def ask(messages):
    body = {"model": "gpt", "messages": messages, "tools": TOOLS}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]

TOOLS = [{"type": "function", "function": {"name": "sh", "parameters": {"type": "object"}}}]
system = open(os.path.join(os.environ["META_AGENT_HARNESS"], "prompt.md")).read()
messages = [{"role": "system", "content": system}, {"role": "user", "content": sys.argv[1]}]
while True:
    message = ask(messages)
    messages.append(message)
    if not message.get("tool_calls"):
        print("the end")
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        told = {"role": "tool", "tool_call_id": call["id"], "content": ran.stdout + ran.stderr}
        messages.append(told)
"""
TURNS = """
NAME, LAYER, THRESHOLDS = "turns", "behaviour", {}
def measure(rollouts):
    return {"mean": sum(r["turns"] for r in rollouts) / max(1, len(rollouts))}
"""


def harness(agent: str = AGENT, **parts: Any) -> HarnessTree:
    command = parts.get("command", ["python3", "{harness}/agent.py", "{prompt}"])
    files = {
        "harness.toml": TOML.format(command=json.dumps(command)),
        "agent.py": agent,
        "prompt.md": "You mend files.",
        "diagnostics/turns.py": TURNS,
    }
    data = {path: text.encode() for path, text in files.items()}
    return HarnessTree("c0ffee", "7ree", {**data, **parts.get("files", {})})


class Desk:
    """An environment that can only be worked on elsewhere: `note.txt` must say `mended`."""

    tools = ("submit",)

    def __init__(self) -> None:
        self.found = ""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult("submitted", done=True)

    def start_files(self) -> Mapping[str, bytes]:
        return {"note.txt": b"broken\n", "sub/other.txt": b"x\n"}

    def collect(self, sandbox: Sandbox) -> bool:
        self.found = sandbox.read(["repo/note.txt"]).get("repo/note.txt", b"").decode().strip()
        return self.found != "broken"

    def grade(self) -> Outcome:
        return Outcome(self.found == "mended", {"found": self.found})

    def verifier_inputs(self) -> dict[str, Any]:
        return {"found": self.found}

    def close(self) -> None:
        pass


class DeskDomain:
    name = "desk"
    evaluator_hash = "eva1"
    sampling = Sampling(temperature=0.0)
    capabilities = Capabilities(open_at_once=2)

    def __init__(self, **limits: Any) -> None:
        ceilings = {"max_turns": 6, "max_tokens_per_turn": 64, "max_context_tokens": 4096}
        self.ceilings = Ceilings(**{**ceilings, "wall_sec": 60.0, **limits})

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task("desk", f"t{i}", "search", "h", {"issue": f"Mend {i}."}) for i in range(4)]

    def open(self, task: Task) -> Desk:
        return Desk()

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, Any]) -> Outcome:
        return Outcome(verifier_inputs["found"] == "mended")


def calls(command: str, number: int = 0) -> list[dict[str, Any]]:
    function = {"name": "sh", "arguments": json.dumps({"command": command})}
    return [{"id": f"call{number}", "type": "function", "function": function}]


class Policy:
    """Says what `script` says at each turn: text, tool calls, or a function of the request."""

    policy = "scripted@test"

    def __init__(self, *script: Any, lock_step: bool = False) -> None:
        self.script = script
        self.lock_step = lock_step
        self.asked: list[GenerateRequest] = []
        self._lock = threading.Lock()

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        with self._lock:
            self.asked += requests
        return [self._reply(request) for request in requests]

    def _reply(self, request: GenerateRequest) -> GenerateReply:
        said = self.script[min(request.turn, len(self.script) - 1)]
        said = said(request) if callable(said) else said
        if isinstance(said, GenerateReply):
            return said
        if isinstance(said, str):
            return GenerateReply(said, "stop", 100, 20)
        return GenerateReply("", "tool_calls", 100, 20, tool_calls=said)

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        return [None for _ in keys]


def opener(backend: str = "process", **limits: Any) -> Callable[[str | None], Sandbox]:
    def opened(image: str | None) -> Sandbox:
        return open_sandbox(backend, run="test", limits=SandboxLimits(**limits), image=image)

    return opened


@contextmanager
def session(tree: HarnessTree, backend: str = "process") -> Iterator[HarnessSession]:
    with open_session(tree, opener(backend)) as held:
        assert isinstance(held, CommandSession)
        yield held


def roll(
    tree: HarnessTree,
    policy: Policy,
    *,
    count: int = 1,
    domain: Any = None,
    backend: str = "process",
) -> list[Rollout]:
    domain = domain or DeskDomain()
    plan = [PlannedRollout(task, 0, 7, "g") for task in domain.tasks("search")[:count]]
    with session(tree, backend) as held:
        return Runner(domain, held, policy, Stamp("r", "v", "c0ffee"), concurrency=2).run(plan)
