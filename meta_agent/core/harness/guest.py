"""Guest module `harness_agent`: runs a harness's agent on many tasks at once. Stdlib only.

This source is streamed into the sandbox's worker and never runs in the host process. It shares its
process with harness code, so it guards against accidents (an agent that loops, raises, prints or
calls `sys.exit`), not against malice: malice can only spoil its own harness's results, and the
host checks all that comes back.

Rollouts are coroutines. Agents await only `model.chat` and `tools.call`; there is no event loop
behind them, so `asyncio.sleep` and friends raise. Whenever every coroutine is blocked, one frame
carries all new calls to the host. A call's `cid` is its rollout's index, for a rollout has one
call outstanding at a time (`?`: may be absent):

    {cid, kind: "open"}                            answered by [tool names] or None
    {cid, kind: "model", base, new, max, tools?}   [content, finish_reason, tool_calls, ...] or None
    {cid, kind: "tool", tool, args}                [text, ok, done] or None
    {cid, kind: "end", err}                        never; err is None where run() returned

`base` counts the messages that the host has from this rollout's last call and that still stand at
the front of the list; `new` are the rest. An answer of None ends the rollout: the host knows why.
"""

from __future__ import annotations

import inspect
import json
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Protocol

# Its source is installed first, under this name; there is no package of ours inside a sandbox.
code: Any = sys.modules["harness_code"]
Json = Any
Message = dict[str, Any]
Call = dict[str, Any]
Agent = Callable[["Task", "Model", "Tools"], Coroutine[Any, Any, None]]
SCALARS = (str, int, bool, type(None))
MAX_DIGITS = 300


class Channel(Protocol):
    """The channel from a sandbox to the host: sends calls and waits for their answers."""

    def calls(self, calls: Sequence[Call]) -> object: ...

    def wait(self) -> list[dict[str, Json]]: ...


class AgentHung(BaseException):
    """Raised in an agent that computed for too long without calling its model or a tool."""


class Reply:
    """The policy's reply to an agent. `message` is the dict to append to the conversation."""

    __slots__ = ("content", "finish_reason", "tool_calls")

    def __init__(self, content: str, finish_reason: str, tool_calls: list[Json]) -> None:
        self.content = content
        self.finish_reason = finish_reason
        self.tool_calls = tool_calls

    @property
    def message(self) -> Message:
        """Returns the assistant message to append to the conversation, with its tool calls."""
        return assistant(self.content, self.tool_calls)

    def __repr__(self) -> str:
        return f"Reply({self.content!r}, finish_reason={self.finish_reason!r})"


class Result:
    """What a tool call returned: `text`, `ok`, and `done` (the task accepts no further calls)."""

    __slots__ = ("done", "ok", "text")

    def __init__(self, text: str, ok: bool, done: bool) -> None:
        self.text = text
        self.ok = ok
        self.done = done

    def __repr__(self) -> str:
        return f"Result({self.text!r}, ok={self.ok!r}, done={self.done!r})"


class Task:
    """A task as its agent sees it: `key`, and fields as `task.view["issue"]` or `task["issue"]`."""

    __slots__ = ("key", "view")

    def __init__(self, key: str, view: dict[str, Json]) -> None:
        self.key = key
        self.view = view

    def __getitem__(self, name: str) -> Json:
        return self.view[name]

    def get(self, name: str, default: Json = None) -> Json:
        """Returns field `name` of what the agent sees of the task; `default` if there is none."""
        return self.view.get(name, default)


class Model:
    """The policy (a language model) as an agent sees it: `await model.chat(messages)`."""

    __slots__ = ("_seat",)

    def __init__(self, seat: Seat) -> None:
        self._seat = seat

    @types.coroutine
    def chat(
        self, messages: list[Message], max_tokens: int | None = None, tools: Json = None
    ) -> Generator[Call, Reply, Reply]:
        """Asks the policy and returns its reply.

        `max_tokens` can only lower the evaluator's limit; `tools` are OpenAI schemas, for models
        that take them.
        """
        return (yield self._seat.model_call(messages, max_tokens, tools))


class Tools:
    """The task's tools as an agent sees them: `await tools.call(name, ...)`; `names` lists them."""

    __slots__ = ("_seat", "names")

    def __init__(self, seat: Seat, names: tuple[str, ...]) -> None:
        self._seat = seat
        self.names = names

    @types.coroutine
    def call(self, name: str, /, **arguments: Json) -> Generator[Call, Result, Result]:
        """Runs the tool `name` in the task's environment and returns its result."""
        return (yield self._seat.tool_call(name, arguments))


class Seat:
    """One rollout in progress in the sandbox: the agent's coroutine and its conversation."""

    __slots__ = ("coroutine", "index", "item", "kind", "known")

    def __init__(self, index: int, item: dict[str, Json]) -> None:
        self.index = index
        self.item = item
        self.kind = "open"
        self.known: list[Message] = []
        self.coroutine: Coroutine[Any, Any, None] | None = None

    def begin(self, run: Agent, names: list[str]) -> Call | None:
        """Starts the agent with tools of these names. Returns and raises as `send` does."""
        task = Task(self.item["key"], self.item["view"])
        coroutine = run(task, Model(self), Tools(self, tuple(names)))
        if not inspect.iscoroutine(coroutine):
            raise code.HarnessFault("run() did not return a coroutine; declare it with `async def`")
        self.coroutine = coroutine
        return self.send(None)

    def send(self, value: Json) -> Call | None:
        """Resumes the agent with the host's answer; returns its next call.

        Raises StopIteration once the agent has returned, and whatever the agent raises.
        """
        assert self.coroutine is not None
        call = self.coroutine.send(value)
        while call is None:
            call = self.coroutine.send(None)
        if type(call) is not dict or call.get("cid") != self.index:
            raise code.HarnessFault("the agent may await only model.chat() and tools.call()")
        return call

    def model_call(self, messages: list[Message], max_tokens: int | None, tools: Json) -> Call:
        """Returns a model call that holds those of `messages` that the host does not have yet.

        Raises ValueError or TypeError for arguments that are not valid.
        """
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise ValueError(f"max_tokens must be a positive integer or None, not {max_tokens!r}")
        conversation = self.known
        messages = messages if type(messages) is list else list(messages)
        if not messages:
            raise ValueError("model.chat needs at least one message")
        base = common_prefix(conversation, messages)
        new = [own_copy(message) for message in messages[base:]]
        del conversation[base:]
        conversation += new
        self.kind = "model"
        call = {"cid": self.index, "kind": "model", "base": base, "new": new, "max": max_tokens}
        if tools is not None:
            call["tools"] = as_json(tools, "tools")
        return call

    def tool_call(self, name: str, arguments: dict[str, Json]) -> Call:
        """Returns a call of the task's tool `name`. Raises TypeError unless all is plain JSON."""
        if type(name) is not str:
            raise TypeError(f"a tool's name must be a string, not {name!r}")
        for value in arguments.values():
            if type(value) not in SCALARS or (type(value) is int and abs(value) >= 1 << 53):
                arguments = as_json(arguments, "tool arguments")
                break
        self.kind = "tool"
        return {"cid": self.index, "kind": "tool", "tool": name, "args": arguments}

    def decode(self, answer: list[Json]) -> Reply | Result:
        """Returns the host's answer to a call as the agent gets it: a reply or a tool's result."""
        if self.kind == "tool":
            return Result(*answer)
        content, finish_reason, tool_calls, *_ = answer
        self.known.append(assistant(content, tool_calls))
        return Reply(content, finish_reason, tool_calls)

    def close(self) -> None:
        """Ends the agent's coroutine and ignores what the agent raises meanwhile."""
        coroutine, self.coroutine = self.coroutine, None
        try:
            if coroutine is not None:
                coroutine.close()
        except BaseException:
            pass


def assistant(content: str, tool_calls: list[Json]) -> Message:
    """Returns a policy's reply as an assistant message in OpenAI's chat form."""
    message: Message = {"role": "assistant", "content": content}
    if tool_calls:
        message["tool_calls"] = tool_calls
    return message


def common_prefix(conversation: list[Message], messages: list[Message]) -> int:
    """Returns the number of messages at the front that are equal in both lists."""
    if messages[: len(conversation)] == conversation:
        return len(conversation)
    pairs = enumerate(zip(conversation, messages, strict=False))
    shorter = min(len(conversation), len(messages))
    return next((index for index, (ours, theirs) in pairs if ours != theirs), shorter)


def own_copy(message: Message) -> Message:
    """Returns a deep copy of a message. Raises TypeError for another form than OpenAI's.

    Its role has to be a string, and its `tool_calls` objects with an object `function`.
    """
    if type(message) is not dict or type(message.get("role")) is not str:
        raise TypeError(f"a message must be a dict with a role, not {message!r:.200}")
    if type(message.get("content")) is str and len(message) == 2:
        return dict(message)
    copied: Message = as_json(message, "a message")
    if not has_tool_calls_in_form(copied):
        raise TypeError(
            f"give each tool call a string id and an object function, not {message!r:.200}"
        )
    return copied


def has_tool_calls_in_form(message: Message) -> bool:
    """Returns True if a message's tool calls, if any, have string ids and objects as `function`."""
    calls = message.get("tool_calls") or []
    if type(calls) is not list or any(type(call) is not dict for call in calls):
        return False
    ids = [message.get("tool_call_id"), *(call.get("id") for call in calls)]
    functions = [call.get("function") for call in calls]
    return {*map(type, ids)} <= {str, type(None)} and {*map(type, functions)} <= {dict}


def as_json(value: Json, what: str) -> Json:
    """Returns a deep copy of a plain JSON value, else raises TypeError; `what` names the value."""
    try:
        return json.loads(json.dumps(value, allow_nan=False), parse_int=number)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} must be plain JSON: {error}") from error


def number(text: str) -> int:
    """Returns the integer that JSON text holds. Raises ValueError if it has too many digits."""
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number has {len(text)} digits; send it as text if over {MAX_DIGITS}")
    return int(text)


class Scheduler:
    """Runs the rollouts of one request together; each message to the host holds all new calls."""

    def __init__(self, run: Agent, seats: list[Seat], channel: Channel, watchdog: Watchdog) -> None:
        self.run = run
        self.seats = seats
        self.channel = channel
        self.watchdog = watchdog
        self.live = len(seats)
        self.frame: list[Call] = []

    def drive(self, ask_open: bool) -> None:
        """Runs every rollout to its end. With `ask_open` each asks the host before it starts."""
        for seat in self.seats:
            if ask_open:
                self.frame.append({"cid": seat.index, "kind": "open"})
            else:
                self.step(seat, seat.item["tools"])
        while self.live:
            self._flush()
            for answer in self.channel.wait():
                self.step(self.seats[answer["cid"]], answer.get("ok"))
        self._flush()

    def _flush(self) -> None:
        frame, self.frame = self.frame, []
        if frame:
            self.channel.calls(frame)

    def step(self, seat: Seat, answer: Json) -> None:
        """Resumes a rollout with the host's answer (None ends it) and queues its next call."""
        if answer is None:
            self.live -= 1
            seat.close()
            return
        try:
            self.watchdog.since = time.monotonic()
            call = self._resume(seat, answer)
            self.watchdog.since = None
            self.frame.append(call)
        except StopIteration:
            self._end(seat, None)
        except BaseException as error:
            self._end(seat, code.describe(error))

    def _resume(self, seat: Seat, answer: Json) -> Any:
        if seat.kind == "open":
            return seat.begin(self.run, answer)
        return seat.send(seat.decode(answer))

    def _end(self, seat: Seat, err: dict[str, str] | None) -> None:
        self.watchdog.since = None
        self.live -= 1
        seat.close()
        self.frame.append({"cid": seat.index, "kind": "end", "err": err})


class Watchdog:
    """Raises AgentHung in an agent that computes for over `limit_sec` without a call.

    It does nothing outside the main thread, or on a platform without alarm signals.
    """

    def __init__(self, limit_sec: float) -> None:
        self.limit_sec = limit_sec
        self.since: float | None = None
        main = threading.current_thread() is threading.main_thread()
        self.armed = main and hasattr(signal, "setitimer")

    def __enter__(self) -> Watchdog:
        if self.armed:
            self.previous = signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, self.limit_sec / 4, self.limit_sec / 4)
        return self

    def __exit__(self, *_: object) -> None:
        if self.armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.previous)

    def _ring(self, *_: object) -> None:
        if self.since is not None and time.monotonic() - self.since > self.limit_sec:
            self.since = time.monotonic()  # rings again if the agent swallows this one
            raise AgentHung(f"the agent computed for over {self.limit_sec:g} s without a call")


def rollout(args: dict[str, Json], channel: Channel) -> int:
    """Runs the loaded agent on every task in `args["items"]` and returns the number of tasks."""
    seats = [Seat(index, item) for index, item in enumerate(args["items"])]
    with Watchdog(args["step_limit_sec"]) as watchdog:
        Scheduler(code.HARNESS.agent(), seats, channel, watchdog).drive(args["ask_open"])
    return len(seats)


OPERATIONS = {"harness.rollout": rollout}
