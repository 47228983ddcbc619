"""The adapter that stands where a user's grader would: tasks, tools and rewards of one environment.

Runs in the grader's process, by the interpreter that has `verifiers`. A task's rewards are those of
the library's own scoring over the conversation and the tool calls of an attempt; a state that tools
keep is made again from the calls, so tools have to do the same twice.

Refused by name: environments with several agents or a simulated user, tasks that need a container
or a runtime to score, and rewards that ask a model.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import inspect
import json
import sys
from pathlib import Path
from typing import Any

ABOUT: dict[str, Any] = {}
THRESHOLD = 1.0
MAX_TASKS = 5000
_KEPT: list[Any] = []

# One for the process: what a module connects to or locks belongs to the loop that first used it.
_LOOP = asyncio.new_event_loop()


class Unsupported(Exception):  # noqa: N818 - said as a sentence
    """Raised if an environment needs what this adapter lacks, such as several agents."""


def setup(name: str) -> None:
    """Loads the environment for `tasks`, `tools` and `grade`. Raises Unsupported if that fails."""
    sys.path.insert(0, ".")
    if importlib.util.find_spec("verifiers") is None:
        raise Unsupported(
            "the package verifiers is not installed here: pip install verifiers, or name the "
            "interpreter that has it by --python"
        )
    world = Environments(name) if is_older(name) else Tasksets(name)
    ABOUT.update(world.about)
    _KEPT[:] = [world]


def is_older(name: str) -> bool:
    """Returns True if the package has the library's older form, a function `load_environment`."""
    if importlib.util.find_spec("verifiers.v1") is None:
        return True
    module = name.replace("-", "_")
    is_there = importlib.util.find_spec(module) is not None
    return is_there and callable(getattr(importlib.import_module(module), "load_environment", None))


def tasks() -> list[dict[str, Any]]:
    """Returns a row for every task of the environment."""
    rows: list[dict[str, Any]] = _KEPT[0].rows()
    return rows


def tools(task: dict[str, Any]) -> dict[str, Any]:
    """Returns new tools for one attempt, by name. Attempts do not share the state of tools."""
    tool_map: dict[str, Any] = _KEPT[0].tools(task["index"])
    return tool_map


def grade(task: dict[str, Any], answer: Any) -> dict[str, Any]:
    """Returns the library's reward as `score`, with the rewards and metrics it is made of."""
    graded: dict[str, Any] = _KEPT[0].grade(task["index"], answer)
    return graded


def said_by(answer: Any, prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the conversation, from the prompt to the submitted answer, as messages."""
    messages = [dict(message) for message in answer.messages] or list(prompt)
    last = messages[-1] if messages else {}
    spoken = last.get("role") == "assistant" and str(last.get("content") or "") == str(answer)
    if not spoken:
        messages.append({"role": "assistant", "content": str(answer)})
    return messages


def as_prompt(value: Any, system: str | None = None) -> list[dict[str, Any]]:
    """Returns a prompt (a text or messages of any form) as message dicts, `system` first."""
    messages = [{"role": "user", "content": value}] if isinstance(value, str) else list(value or [])
    plain = [
        message if isinstance(message, dict) else message.model_dump(mode="json", exclude_none=True)
        for message in messages
    ]
    return [{"role": "system", "content": system}, *plain] if system else plain


def code_of(environment: Any) -> dict[str, str]:
    """Returns the SHA-256 of each Python file of an environment's package, by its path there."""
    module = sys.modules[environment.__module__] if isinstance(environment, type) else environment
    home = Path(str(module.__file__)).resolve()
    top = importlib.import_module(module.__name__.partition(".")[0])
    package = getattr(top, "__path__", None)
    root = Path(next(iter(package))) if package else home.parent
    files = sorted(root.rglob("*.py")) if package else [home]
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


class Tasksets:
    """A taskset of the library's v1 form, whose tasks have rewards and tools of their own."""

    def __init__(self, name: str) -> None:
        import verifiers
        from verifiers.v1 import SingleAgentEnv
        from verifiers.v1.utils import loaders

        kind = loaders.taskset_class(name)
        if not issubclass(loaders.environment_class(name, ""), SingleAgentEnv):
            raise Unsupported(f"{name} has an environment of several agents")
        self.taskset = kind(loaders.taskset_config_type(name)(id=name))
        taskset = self.taskset if self.taskset.bounded else self.taskset.take(MAX_TASKS)
        self.tasks = list(taskset)
        self.about = {"verifiers": verifiers.__version__, "taskset": name, "code": code_of(kind)}
        for task in self.tasks[:1]:
            self._require_offline(task)

    def _require_offline(self, task: Any) -> None:
        from verifiers.v1 import Task

        if task.NEEDS_CONTAINER or task.data.image:
            raise Unsupported(f"{type(task).__name__} needs a container of its own")
        for hook in ("setup", "finalize"):
            if getattr(type(task), hook) is not getattr(Task, hook):
                raise Unsupported(f"{type(task).__name__}.{hook} needs the library's own runtime")
        if task.plugged_judges():
            raise Unsupported(f"{type(task).__name__} is graded by a model")
        for scored in (*task.hooks("reward"), *task.hooks("metric")):
            parameter = inspect.signature(scored).parameters.get("runtime")
            if parameter is not None and parameter.default is inspect.Parameter.empty:
                raise Unsupported(f"{scored.__name__} scores in the library's own runtime")

    def rows(self) -> list[dict[str, Any]]:
        task_rows = []
        for index, task in enumerate(self.tasks):
            data = task.data
            task_rows.append(
                {
                    "key": str(data.id or data.name or f"{index}-{task.key[:12]}"),
                    "index": index,
                    "messages": as_prompt(data.prompt, data.system_prompt),
                    "data": data.model_dump(mode="json", exclude_none=True),
                }
            )
        return task_rows

    def tools(self, index: int) -> dict[str, Any]:
        return self._tools(self.tasks[index], self._state(self.tasks[index]))

    def _state(self, task: Any) -> Any:
        from verifiers.v1.state import state_cls

        return state_cls(type(task))()

    def _tools(self, task: Any, state: Any) -> dict[str, Any]:
        from verifiers.v1.utils.decorators import discover_decorated

        toolsets = {}
        shared = type(self.taskset).toolsets(self.taskset.config)
        for toolset in (*type(task).toolsets(task.config), *shared):
            _LOOP.run_until_complete(_prepared(toolset, task, toolset in shared))
            for function in discover_decorated(toolset, "tool"):
                plain = getattr(function, "tool_name", None) or function.__name__
                prefix = toolset.server_name
                toolsets[f"{prefix}_{plain}" if prefix else plain] = _with_state(function, state)
        return toolsets

    def grade(self, index: int, answer: Any) -> dict[str, Any]:
        task = self.tasks[index]
        trace = self._trace(task, answer)
        _LOOP.run_until_complete(task.score(trace))
        rewards = {
            name: None if reward is None else reward.value for name, reward in trace.rewards.items()
        }
        return {"score": trace.reward, "rewards": rewards, "metrics": dict(trace.metrics)}

    def _trace(self, task: Any, answer: Any) -> Any:
        from pydantic import TypeAdapter
        from verifiers.v1 import AgentConfig, AgentInfo, Trace, TraceTask
        from verifiers.v1.graph import MessageNode
        from verifiers.v1.types import Message

        state = self._state(task)
        if type(state).model_fields.keys() - {"artifacts"}:
            again = self._tools(task, state)
            for call in answer.calls:
                if call["tool"] in again:
                    _quietly(again[call["tool"]], call["arguments"])
        trace = Trace.model_construct(
            task=TraceTask.model_construct(
                type=type(task).__name__, data=task.data, key=task.key, hash=task.hash
            ),
            agent=AgentInfo.model_construct(config=AgentConfig.model_construct()),
            state=state,
        )
        reader: Any = TypeAdapter(Message)
        for spoken in said_by(answer, as_prompt(task.data.prompt, task.data.system_prompt)):
            parent = len(trace.nodes) - 1 if trace.nodes else None
            message = reader.validate_python(as_message(spoken))
            sampled = spoken["role"] == "assistant"
            trace.nodes.append(MessageNode(parent=parent, message=message, sampled=sampled))
        trace.stop_condition, trace.is_completed, trace.ok = "agent_completed", True, True
        return trace


async def _prepared(toolset: Any, task: Any, shared: bool) -> None:
    await toolset.setup()
    if not shared:
        await toolset.setup_task(task.data)


def _with_state(function: Any, state: Any) -> Any:
    """Returns the tool with the attempt's own state, as the library's server gives it."""
    import functools

    from verifiers.v1.mcp.server import _call_state

    @functools.wraps(function)
    async def tool(**arguments: Any) -> Any:
        token = _call_state.set(state)
        try:
            result = function(**arguments)
            return await result if inspect.isawaitable(result) else result
        finally:
            _call_state.reset(token)

    return tool


def _quietly(tool: Any, arguments: dict[str, Any]) -> None:
    try:
        result = tool(**arguments)
        if inspect.isawaitable(result):
            _LOOP.run_until_complete(_awaited(result))
    except Exception:  # it raised in the attempt as well, and the model read that
        return


async def _awaited(value: Any) -> Any:
    return await value


def as_message(raw: dict[str, Any]) -> dict[str, Any]:
    """Returns an OpenAI message in the library's form, whose tool calls are not nested."""
    fields = ("role", "content", "tool_call_id", "name", "reasoning_content")
    message = {name: raw[name] for name in fields if raw.get(name) is not None}
    if raw.get("tool_calls"):
        message["tool_calls"] = [_flat(call) for call in raw["tool_calls"]]
    if raw["role"] != "assistant":
        message.setdefault("content", "")
    return message


def _flat(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function") or call
    arguments = function.get("arguments", "{}")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": str(call.get("id") or "call"), "name": function.get("name"), "arguments": text}


class Environments:
    """An environment of the library's older form: a dataset and a rubric, with or without tools."""

    def __init__(self, name: str) -> None:
        import verifiers as vf

        self.env = vf.load_environment(name)
        kinds = [kind.__name__ for kind in type(self.env).__mro__]
        if not {"SingleTurnEnv", "ToolEnv"} & set(kinds):
            raise Unsupported(f"{name} is a {kinds[0]}: only SingleTurnEnv and ToolEnv are known")
        source = getattr(self.env, "dataset", None)
        source = source if source is not None else self.env.eval_dataset
        self.data = [dict(row) for row in source.select(range(min(len(source), MAX_TASKS)))]
        version = getattr(vf, "__version__", "")
        module = importlib.import_module(name.replace("-", "_"))
        self.about = {"verifiers": version, "environment": name, "code": code_of(module)}

    def rows(self) -> list[dict[str, Any]]:
        task_rows = []
        for index, row in enumerate(self.data):
            plain = json.loads(json.dumps(row, default=str))
            messages = as_prompt(plain.pop("prompt"))
            task_rows.append(
                {"key": f"{index}", "index": index, "messages": messages, "data": plain}
            )
        return task_rows

    def tools(self, index: int) -> dict[str, Any]:
        del index
        return dict(getattr(self.env, "tool_map", {}))

    def grade(self, index: int, answer: Any) -> dict[str, Any]:
        state = _LOOP.run_until_complete(self._scored(self.data[index], answer))
        return {"score": float(state["reward"]), "metrics": dict(state.get("metrics") or {})}

    async def _scored(self, row: dict[str, Any], answer: Any) -> Any:
        prompt = as_prompt(row["prompt"])
        completion = said_by(answer, prompt)[len(prompt) :]
        row_info = row.get("info") or {}
        state = {
            "input": row,
            "prompt": row["prompt"],
            "completion": completion,
            "answer": row.get("answer", ""),
            "task": row.get("task", "default"),
            "info": json.loads(row_info) if isinstance(row_info, str) else row_info,
            "timing": {"total_ms": 0.0, "scoring_ms": 0.0, "generation_ms": 0.0},
            "trajectory": [],
            "turn": sum(message["role"] == "assistant" for message in completion),
            "responses": [],
        }
        score = self.env.rubric.score_rollout
        parameters = inspect.signature(score).parameters
        if "state" in parameters and "prompt" not in parameters:
            extra = {"score_sem": _Open()} if "score_sem" in parameters else {}
            await score(state, **extra)
            return state
        arguments = {name: state[name] for name in parameters if name in state}
        done = await score(**{**arguments, **({"state": state} if "state" in parameters else {})})
        return {"reward": done.reward, "metrics": done.metrics}


class _Open:
    """A semaphore that never blocks."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None
