"""Rows as other tools write them, and rollouts of ours to write in their formats."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from meta_agent.core.protocols import Rollout, TokenRecord
from meta_agent.readers.evidence import ForeignReport
from meta_agent.reports.foreign_sections import WARNINGS, foreign_page
from meta_agent.reports.terminal.paint import painted_page

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"cmd": "ls"}'}}
DIALOGUE: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "what is here?"},
    {"role": "assistant", "content": "I look", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
    {"role": "assistant", "content": "a.py"},
]
ATIF_STEPS: list[dict[str, Any]] = [
    {"step_id": 1, "source": "user", "message": "what is here?"},
    {
        "step_id": 2,
        "source": "agent",
        "message": "I look",
        "reasoning_content": "hm",
        "tool_calls": [
            {"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}},
            {"tool_call_id": "c2", "function_name": "bash", "arguments": {"cmd": "pwd"}},
        ],
        "observation": {
            "results": [
                {"source_call_id": "c2", "content": "/repo"},
                {"source_call_id": "c1", "content": "a.py"},
            ]
        },
        "metrics": {
            "prompt_token_ids": [1, 2],
            "completion_token_ids": [3, 4],
            "logprobs": [-0.1, -0.2],
        },
    },
    {
        "step_id": 3,
        "source": "agent",
        "message": "a.py",
        "metrics": {
            "prompt_token_ids": [1, 2, 3, 4, 9],
            "completion_token_ids": [5],
            "logprobs": [-0.3],
        },
    },
]
ATIF = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s",
    "agent": {"name": "a", "version": "2", "model_name": "m"},
    "steps": ATIF_STEPS,
    "final_metrics": {"total_prompt_tokens": 7, "total_completion_tokens": 3},
}
SWE_AGENT = {
    "trajectory": [
        {
            "response": "look",
            "thought": "look",
            "action": "ls -F\n",
            "observation": "a.py",
            "state": "{}",
            "execution_time": 0.5,
            "query": [{"role": "system", "content": "s"}, {"role": "user", "content": "fix"}],
        },
        {"response": "done", "thought": "", "action": "submit", "observation": "", "query": []},
    ],
    "history": [],
    "info": {
        "exit_status": "submitted (exit_cost)",
        "submission": "diff --git a b",
        "model_stats": {"instance_cost": 0.2, "tokens_sent": 10, "tokens_received": 5},
    },
}
MINI = {
    "trajectory_format": "mini-swe-agent-1.1",
    "instance_id": "x__y-1",
    "info": {
        "exit_status": "LimitsExceeded",
        "submission": "",
        "model_stats": {"instance_cost": 0.0, "api_calls": 2},
        "mini_version": "2.0",
        "config": {"model": {"model_name": "m"}},
    },
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "fix"},
        {"role": "assistant", "content": "x", "extra": {"actions": [{"command": "ls"}]}},
        {"role": "user", "content": "a.py", "extra": {"returncode": 2}},
        {"role": "assistant", "content": "no action at all"},
        {"role": "exit", "content": "", "extra": {}},
    ],
}
VERIFIERS = {
    "example_id": 3,
    "task": "gsm8k",
    "prompt": [{"role": "user", "content": "2+2"}],
    "completion": [{"role": "assistant", "content": "4"}],
    "answer": "4",
    "reward": 1.0,
    "metrics": {"exact": 1.0, "length": 0.5},
    "stop_condition": "max_turns_reached",
    "is_truncated": False,
    "timing": {"generation_ms": 1500.0},
    "trajectory": [
        {"tokens": {"prompt_ids": [1], "completion_ids": [2], "completion_logprobs": [-0.5]}}
    ],
}
NEMO = {
    "hash_id": "h1",
    "responses_create_params": {"input": [{"role": "user", "content": "hi", "type": "message"}]},
    "response": {
        "model": "m",
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "c", "name": "get", "arguments": '{"k": 1}'},
            {"type": "function_call_output", "call_id": "c", "output": "v"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "the value is"}],
                "prompt_token_ids": [1, 2],
                "generation_token_ids": [3],
                "generation_log_probs": [-0.1],
            },
            {"type": "web_search_call"},
        ],
    },
    "reward": 0.5,
    "resolved": True,
}
INSPECT = {
    "version": 2,
    "status": "success",
    "eval": {"task": "gsm8k", "model": "openai/m", "dataset": {"samples": 1}},
    "samples": [
        {
            "id": 1,
            "epoch": 2,
            "input": "2+2",
            "target": "4",
            "messages": [
                {"role": "user", "content": "2+2", "source": "input"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "reasoning", "reasoning": "hm"},
                        {"type": "text", "text": "I run it"},
                    ],
                    "tool_calls": [{"id": "t", "function": "bash", "arguments": {"cmd": "bc"}}],
                },
                {
                    "role": "tool",
                    "content": "",
                    "tool_call_id": "t",
                    "function": "bash",
                    "error": {"type": "timeout", "message": "5 s"},
                },
                {"role": "assistant", "content": "4"},
            ],
            "output": {"model": "m", "choices": [{"stop_reason": "max_tokens"}]},
            "scores": {"match": {"value": "C", "answer": "4"}},
            "model_usage": {"openai/m": {"total_tokens": 15}},
            "events": [{"event": "sample_init"}],
            "total_time": 3.5,
        }
    ],
}
VERL = {
    "input": "user\n2+2",
    "output": "4",
    "gts": "4",
    "score": 0.5,
    "step": 3,
    "acc": True,
    "overlong_reward": -0.5,
}
OPENHANDS = {
    "instance_id": "x__y-1",
    "test_result": {"git_patch": "diff"},
    "instruction": "fix",
    "metadata": {"agent_class": "CodeActAgent", "llm_config": {"model": "m"}},
    "history": [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "s"}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "fix"}},
        {"id": 2, "source": "user", "action": "recall", "args": {"query": "fix"}},
        {
            "id": 3,
            "source": "agent",
            "action": "run",
            "args": {"command": "ls", "thought": "look"},
            "tool_call_metadata": {
                "function_name": "execute_bash",
                "tool_call_id": "t1",
                "model_response": {"id": "r1"},
            },
        },
        {
            "id": 4,
            "cause": 3,
            "observation": "run",
            "content": "no such file",
            "extras": {"metadata": {"exit_code": 2}},
            "tool_call_metadata": {"tool_call_id": "t1"},
        },
        {"id": 5, "source": "agent", "action": "finish", "args": {"final_thought": "done"}},
    ],
    "metrics": {"accumulated_cost": 0.5},
    "error": None,
    "instance": {"repo": "x/y"},
}
REPORT = {
    "total_instances": 500,
    "submitted_ids": ["a", "b", "c", "d"],
    "completed_ids": ["a", "b"],
    "resolved_ids": ["a"],
    "unresolved_ids": ["b"],
    "empty_patch_ids": ["c"],
    "error_ids": ["d"],
    "incomplete_ids": ["e"],
}
PREDICTION = {"instance_id": "x__y-1", "model_name_or_path": "m", "model_patch": "diff"}


def sample(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"no shared sample {name}")
    return path


def write_jsonl(path: Path, *rows: Any) -> Path:
    text = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


def ours(task: int = 0, number: int = 0, **changes: Any) -> Rollout:
    fields: dict[str, Any] = {
        "run": "r", "version": "v", "domain": "swe", "split": "search", "task_key": f"s/{task}",
        "task_hash": "h", "group_id": f"g{task}", "sample_idx": number, "seed": 7,
        "harness_commit": "c", "policy": "p", "evaluator_hash": "e", "messages": DIALOGUE,
        "rewards": {"reward": 0.25 * number}, "advantage": 0.5, "outcome": bool(number % 2),
        "stop_reason": "length", "turns": 2, "cost": {"usd": 0.1, "tokens": 12.0},
        "verifier_inputs": {"patch": "diff"}, "flags": ["leak:log"] if number == 3 else [],
        "tokens": TokenRecord([1], [2, 3], [1, 1], [-0.5, -0.25]),
    }  # fmt: skip
    return Rollout(**{**fields, **changes})


def shown(report: ForeignReport) -> str:
    """What a wide terminal shows of a report."""
    screen = StringIO()
    page = foreign_page(report, [], "--rollouts FILE")
    Console(file=screen, width=300).print(painted_page(page, unfold=[WARNINGS]))
    return screen.getvalue()
