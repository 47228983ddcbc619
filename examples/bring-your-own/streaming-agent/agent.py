"""A coding agent in one file: Anthropic's messages as a stream, and one tool.

It knows nothing of meta-agent. It reads the task from a file, works in the current folder, and
talks to whatever ANTHROPIC_BASE_URL names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic

SHELL: Any = {
    "name": "shell",
    "description": "Runs a command with sh in the repository and returns what it printed.",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
}
OUTPUT_CHARS = 6000
COMMAND_SEC = 60


def shell(command: str) -> str:
    """Runs a command; its output, from both ends where it is long."""
    try:
        ran = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, timeout=COMMAND_SEC
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {COMMAND_SEC} s"
    text = f"exit {ran.returncode}\n{ran.stdout}{ran.stderr}"
    half = OUTPUT_CHARS // 2
    return text if len(text) <= OUTPUT_CHARS else f"{text[:half]}\n[...]\n{text[-half:]}"


def turn(client: anthropic.Anthropic, system: str, messages: list[Any]) -> Any:
    """One reply, shown as it comes."""
    with client.messages.stream(
        model="policy", system=system, messages=messages, tools=[SHELL], max_tokens=2048
    ) as stream:
        for text in stream.text_stream:
            print(text, end="", flush=True)
        print()
        return stream.get_final_message()


def results(reply: Any) -> list[Any]:
    """What the tools that a reply called have to say."""
    return [
        {
            "type": "tool_result",
            "tool_use_id": block.id,
            "content": shell(str(block.input.get("command", "true"))),
        }
        for block in reply.content
        if block.type == "tool_use"
    ]


def main() -> int:
    """Works until the model calls no more tools."""
    system = Path(__file__).with_name("prompt.md").read_text(encoding="utf-8")
    task = Path(os.environ["META_AGENT_PROMPT_FILE"]).read_text(encoding="utf-8")
    messages: list[Any] = [{"role": "user", "content": task}]
    client = anthropic.Anthropic()
    while True:
        reply = turn(client, system, messages)
        messages.append({"role": "assistant", "content": reply.content})
        told = results(reply)
        if not told:
            return 0
        messages.append({"role": "user", "content": told})


if __name__ == "__main__":
    sys.exit(main())
