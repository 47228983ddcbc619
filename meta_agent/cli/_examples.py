"""One example of every command, which its `--help` ends with. A test parses each of them."""

from __future__ import annotations

from typing import Any, Final

EXAMPLES: Final = (
    "init --domain math --workspace my-math",
    "evolve --tasks tasks.jsonl --grade grader.py --policy openai/NAME --meta-model openai/NAME",
    "train --policy smollm2 --tasks tasks.jsonl --grade grader.py --train-steps 30",
    "compare --domain math --seeds 2 --out comparison.json",
    "demo --seconds 0",
    "status --workspace my-math",
    "report --rollouts attempts.jsonl --html report.html",
    "why g0/c1",
    "diff v0 v1",
    "log --follow",
    "verify main",
    "approve g0/c1 --revise 'keep the tool'",
    "adopt --into FOLDER",
    "revert g0/c1",
    "doctor --live --policy openai/NAME",
    "mcp --allow-runs",
    "tasks check tasks.jsonl --grade grader.py",
    "tasks make my-package --out tasks.jsonl --from faults",
    "sandbox build --requirements requirements.txt --tag agent:1",
    "skills longer-replies",
    "trial longer-replies",
)


def add_examples(group: Any) -> None:
    """Makes the help of each command of a click group end with its example."""
    for example in EXAMPLES:
        command, words = group, example.split()
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.epilog = f"Example: meta-agent {example}"
