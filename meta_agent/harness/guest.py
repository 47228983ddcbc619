"""The harness's side of the pipe: loads harness code in the worker and runs it. Stdlib only.

This file's source is streamed into the sandbox's worker; it never runs in the host process, and
nothing it returns is trusted there (`session.py` checks). It shares its process with harness code,
so it protects against accidents (an agent that loops, raises, prints or calls `sys.exit`), not
against malice: malice can only spoil its own harness's results.

Many rollouts run at once as coroutines. Agents await only `model.chat` and `tools.call`; there is no
event loop behind them, so `asyncio.sleep` and friends raise. Whenever every runnable coroutine is
blocked, one frame carries all new calls to the host. A call's `cid` is its rollout's index, for a
rollout has one call outstanding at a time:

    {"cid", "kind": "open"}                                -> [tool names] | None
    {"cid", "kind": "model", "base", "new", "max"[, "tools"]} -> [content, finish_reason, calls] | None
    {"cid", "kind": "tool", "tool", "args"}                -> [text, ok, done] | None
    {"cid", "kind": "end", "err": None | {...}}            -> (never answered)

`base` counts the messages the host already has from this rollout and that are unchanged; `new` are the
rest. An answer of None ends the rollout: the host already knows why.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import types

MAX_TRACEBACK_CHARS = 2000
_SCALARS = (str, int, bool, type(None))


class HarnessFault(Exception):
    """The harness broke its contract; the message says which part and how."""


class AgentHung(BaseException):
    """An agent computed for too long without calling model or tools."""


class Reply:
    """What the model said. `message` is the dict to append to the conversation."""

    __slots__ = ("content", "finish_reason", "tool_calls")

    def __init__(self, content, finish_reason, tool_calls):
        self.content = content
        self.finish_reason = finish_reason
        self.tool_calls = tool_calls

    @property
    def message(self):
        return _assistant(self.content, self.tool_calls)

    def __repr__(self):
        return f"Reply({self.content!r}, finish_reason={self.finish_reason!r})"


class Result:
    """What a tool returned. `done`: the task accepts no further calls."""

    __slots__ = ("done", "ok", "text")

    def __init__(self, text, ok, done):
        self.text = text
        self.ok = ok
        self.done = done

    def __repr__(self):
        return f"Result({self.text!r}, ok={self.ok!r}, done={self.done!r})"


class Task:
    """The problem as the agent may see it."""

    __slots__ = ("key", "view")

    def __init__(self, key, view):
        self.key = key
        self.view = view

    def __getitem__(self, name):
        return self.view[name]

    def get(self, name, default=None):
        return self.view.get(name, default)


class Model:
    """`await model.chat(messages, max_tokens=None)`; `tools` are OpenAI schemas, where a model takes them."""

    __slots__ = ("_seat",)

    def __init__(self, seat):
        self._seat = seat

    @types.coroutine
    def chat(self, messages, max_tokens=None, tools=None):
        return (yield self._seat.model_call(messages, max_tokens, tools))


class Tools:
    """`await tools.call(name, **arguments)`; `tools.names` lists what the task offers."""

    __slots__ = ("_seat", "names")

    def __init__(self, seat, names):
        self._seat = seat
        self.names = names

    @types.coroutine
    def call(self, name, /, **arguments):
        return (yield self._seat.tool_call(name, arguments))


class Seat:
    """One rollout in progress: its coroutine and the messages that the host has."""

    __slots__ = ("coroutine", "index", "item", "known", "kind", "started")

    def __init__(self, index, item):
        self.index = index
        self.item = item
        self.kind = "open"
        self.known = []
        self.coroutine = None
        self.started = False

    def begin(self, run, names):
        task = Task(self.item["key"], self.item["view"])
        self.coroutine = run(task, Model(self), Tools(self, tuple(names)))
        if not inspect.iscoroutine(self.coroutine):
            raise HarnessFault("run() did not return a coroutine: declare it `async def`")

    def model_call(self, messages, max_tokens, tools):
        known = self.known
        if type(messages) is not list:
            messages = list(messages)
        if not messages:
            raise ValueError("model.chat needs at least one message")
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise ValueError(f"max_tokens must be a positive integer or None, not {max_tokens!r}")
        base = _common_prefix(known, messages)
        new = [_own_copy(message) for message in messages[base:]]
        del known[base:]
        known += new
        self.kind = "model"
        call = {"cid": self.index, "kind": "model", "base": base, "new": new, "max": max_tokens}
        if tools is not None:
            call["tools"] = _as_json(tools, "tools")
        return call

    def tool_call(self, name, arguments):
        if type(name) is not str:
            raise TypeError(f"a tool's name is a string, not {name!r}")
        for value in arguments.values():
            if type(value) not in _SCALARS:
                arguments = _as_json(arguments, "tool arguments")
                break
        self.kind = "tool"
        return {"cid": self.index, "kind": "tool", "tool": name, "args": arguments}

    def decode(self, answer):
        if self.kind == "tool":
            return Result(*answer)
        if self.kind == "model":
            content, finish_reason, tool_calls = answer
            self.known.append(_assistant(content, tool_calls))
            return Reply(content, finish_reason, tool_calls)
        return None


def _assistant(content, tool_calls):
    message = {"role": "assistant", "content": content}
    if tool_calls:
        message["tool_calls"] = tool_calls
    return message


def _common_prefix(known, messages):
    count = len(known)
    if messages[:count] == known:
        return count
    for index, (ours, theirs) in enumerate(zip(known, messages)):
        if ours != theirs:
            return index
    return min(count, len(messages))


def _own_copy(message):
    """A copy that a later edit of the agent's dict cannot reach; refuses what JSON can't carry."""
    if type(message) is not dict or type(message.get("role")) is not str:
        raise TypeError(f"a message is a dict with a role, not {message!r:.200}")
    if type(message.get("content")) is str and len(message) == 2:
        return dict(message)
    return _as_json(message, "a message")


def _as_json(value, what):
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} must be plain JSON: {error}") from error


class Scheduler:
    """Drives all rollouts of one request; one frame per round."""

    def __init__(self, run, seats, channel, watchdog):
        self.run = run
        self.seats = seats
        self.channel = channel
        self.watchdog = watchdog
        self.live = len(seats)
        self.frame = []

    def drive(self, ask_open):
        for seat in self.seats:
            if ask_open:
                self.frame.append({"cid": seat.index, "kind": "open"})
            else:
                self.step(seat, seat.item["tools"])
        while self.live:
            frame, self.frame = self.frame, []
            if frame:
                self.channel.calls(frame)
            for answer in self.channel.wait():
                self.step(self.seats[answer["cid"]], answer.get("ok"))
        if self.frame:
            self.channel.calls(self.frame)

    def step(self, seat, answer):
        if answer is None:
            self.live -= 1
            _close(seat)
            return
        try:
            self.watchdog.since = time.monotonic()
            call = self._resume(seat, answer)
            while call is None:
                call = seat.coroutine.send(None)
            if type(call) is not dict or call.get("cid") != seat.index:
                raise HarnessFault("an agent may await only model.chat and tools.call")
            self.frame.append(call)
        except StopIteration:
            self._end(seat, None)
        except BaseException as error:
            self._end(seat, _describe(error))
        finally:
            self.watchdog.since = None

    def _resume(self, seat, answer):
        if seat.started:
            return seat.coroutine.send(seat.decode(answer))
        seat.started = True
        seat.begin(self.run, answer)
        return seat.coroutine.send(None)

    def _end(self, seat, err):
        self.live -= 1
        _close(seat)
        self.frame.append({"cid": seat.index, "kind": "end", "err": err})


def _close(seat):
    try:
        if inspect.iscoroutine(seat.coroutine):
            seat.coroutine.close()
    except BaseException:
        pass  # an agent that refuses to be closed is dropped; the host has already ended it
    seat.coroutine = None


def _describe(error):
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {
        "type": type(error).__name__,
        "message": str(error)[:500],
        "traceback": text[-MAX_TRACEBACK_CHARS:],
    }


class Watchdog:
    """Raises `AgentHung` in code that keeps the worker for itself: one alarm for all rollouts.

    Works only on the main thread of a worker whose platform has alarms; elsewhere the host's own
    deadline is the only limit, and it costs the whole batch instead of one rollout.
    """

    def __init__(self, limit_sec):
        self.limit_sec = limit_sec
        self.since = None
        self.armed = hasattr(signal, "setitimer") and (
            threading.current_thread() is threading.main_thread()
        )

    def __enter__(self):
        if self.armed:
            self.previous = signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, self.limit_sec / 4, self.limit_sec / 4)
        return self

    def __exit__(self, *_):
        if self.armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.previous)

    def _ring(self, *_):
        if self.since is not None and time.monotonic() - self.since > self.limit_sec:
            self.since = time.monotonic()  # rings again if the agent swallows this one
            raise AgentHung(f"computed for more than {self.limit_sec:g} s without a call")


class Loaded:
    """The harness as modules. One worker holds one at a time."""

    def __init__(self):
        self.count = 0
        self.home = None
        self.root = None
        self.prefix = ""
        self.files = {}
        self.roles = {}
        self.staged = []

    def replace(self, files, roles):
        self.clear()
        self.count += 1
        self.prefix = f"harness_{self.count}"
        self.home = tempfile.mkdtemp(prefix="harness-")
        self.root = os.path.join(self.home, self.prefix)
        _write_tree(self.root, files)
        # The unique package name lets a suite be called `math` or `code`. The root itself comes
        # last, so that absolute imports between harness files work without hiding the stdlib.
        sys.path.insert(0, self.home)
        sys.path.append(self.root)
        importlib.invalidate_caches()
        self.files = files
        self.roles = roles

    def clear(self):
        for name, module in list(sys.modules.items()):
            if self.root and (getattr(module, "__file__", None) or "").startswith(self.root):
                del sys.modules[name]
        sys.path[:] = [path for path in sys.path if path not in (self.home, self.root)]
        if self.home:
            shutil.rmtree(self.home, ignore_errors=True)
        self.home = self.root = None

    def module(self, path):
        dotted = path[: -len(".py")].replace("/", ".")
        return importlib.import_module(f"{self.prefix}.{dotted}")

    def role(self, name):
        path = self.roles.get(name)
        if path is None:
            raise HarnessFault(f"the harness has no {name} file")
        return self.module(path)

    def function(self, role, name):
        return _function(self.role(role), self.roles[role], name)

    def agent(self):
        path, name = self.roles["agent"]
        return _function(self.module(path), path, name)

    def diagnostics(self):
        return [(path, self.module(path)) for path in self.roles.get("diagnostics", ())]


def _write_tree(root, files):
    for path, text in files.items():
        target = os.path.join(root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8", newline="") as handle:
            handle.write(text)


def _function(module, path, name):
    found = getattr(module, name, None)
    if not callable(found):
        raise HarnessFault(f"{path} has no function {name}()")
    return found


HARNESS = Loaded()


def load(args, channel):
    sys.dont_write_bytecode = True
    HARNESS.replace(args["files"], args["roles"])
    HARNESS.agent()
    for role in ("reward", "filter", "data"):
        if role in HARNESS.roles:
            HARNESS.role(role)
    weights = getattr(HARNESS.role("reward"), "WEIGHTS", {}) if "reward" in HARNESS.roles else {}
    return {"weights": dict(weights), "diagnostics": [_facts(m) for _, m in HARNESS.diagnostics()]}


def _facts(module):
    return {
        "name": getattr(module, "NAME", None),
        "layer": getattr(module, "LAYER", None),
        "thresholds": getattr(module, "THRESHOLDS", None),
    }


def rollout(args, channel):
    seats = [Seat(index, item) for index, item in enumerate(args["items"])]
    with Watchdog(args["step_limit_sec"]) as watchdog:
        Scheduler(HARNESS.agent(), seats, channel, watchdog).drive(args["ask_open"])
    return len(seats)


def stage(args, channel):
    """Appends a chunk of JSON lines to what `measure` will see."""
    if args["first"]:
        HARNESS.staged = []
    HARNESS.staged.extend(_records(args))
    return len(HARNESS.staged)


def _records(args):
    # base64 rather than a JSON string: escaped quotes would cost as much as the records themselves
    text = base64.b64decode(args["jsonl"])
    return [json.loads(line) for line in text.splitlines()]


def reward(args, channel):
    function = HARNESS.function("reward", "reward")
    return [function(record) for record in _records(args)]


def keep(args, channel):
    return list(HARNESS.function("filter", "keep")(args["groups"]))


def order(args, channel):
    return list(HARNESS.function("data", "order")(args["tasks"], args["history"]))


def measure(args, channel):
    records, HARNESS.staged = HARNESS.staged, []
    found = []
    for path, module in HARNESS.diagnostics():
        try:
            found.append({"values": dict(_function(module, path, "measure")(records))})
        except Exception as error:  # one broken diagnostic must not blind the others
            found.append({"err": _describe(error)})
    return found


def check(args, channel):
    """Contract tests: one row per file, `[name, ok, detail]`. Values are judged by the host."""
    samples, tasks = _records(args), args["tasks"]
    rows = [_row(HARNESS.roles["agent"][0], _check_agent)]
    tests = {
        "reward": (_check_reward, samples),
        "filter": (_check_keep,),
        "data": (_check_order, tasks),
    }
    for role, test in tests.items():
        if role in HARNESS.roles:
            rows.append(_row(HARNESS.roles[role], *test))
    for path in HARNESS.roles.get("diagnostics", ()):
        rows.append(_row(path, _check_diagnostic, path, samples))
    return rows


def _row(name, test, *args):
    try:
        test(*args)
    except Exception as error:
        return [name, False, f"{type(error).__name__}: {error}"[:500]]
    return [name, True, ""]


def _check_agent():
    path, name = HARNESS.roles["agent"]
    function = HARNESS.agent()
    if not inspect.iscoroutinefunction(function):
        raise HarnessFault(f"{path}: {name} must be `async def`")
    _takes(function, 3, f"{path}: {name}(task, model, tools)")


def _takes(function, count, form):
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        raise HarnessFault(f"{form}: {error}") from error


def _check_reward(samples):
    function = HARNESS.function("reward", "reward")
    _takes(function, 1, "reward(rollout)")
    first = [_floats(function(_copy(record)), "reward()") for record in samples]
    again = [function(_copy(record)) for record in reversed(samples)][::-1]
    if first != again:
        raise HarnessFault("reward() gave other values when called again on the same rollouts")
    _floats(getattr(HARNESS.role("reward"), "WEIGHTS", None), "WEIGHTS")


def _check_keep():
    function = HARNESS.function("filter", "keep")
    _takes(function, 1, "keep(groups)")
    groups = [
        {"task_key": "a", "rewards": [0.0, 1.0], "outcomes": [False, True]},
        {"task_key": "b", "rewards": [0.0, 0.0], "outcomes": [False, False]},
        {"task_key": "c", "rewards": [1.0, 1.0], "outcomes": [True, True]},
    ]
    weights = list(function(groups))
    if len(weights) != len(groups):
        raise HarnessFault(f"keep() returned {len(weights)} weights for {len(groups)} groups")
    for weight in weights:
        if _number(weight, "keep()") < 0:
            raise HarnessFault(f"keep() returned the negative weight {weight!r}")


def _check_order(tasks):
    function = HARNESS.function("data", "order")
    _takes(function, 2, "order(tasks, history)")
    known = {task["key"] for task in tasks}
    tried = {task["key"]: {"tries": 8, "solved": 3} for task in tasks[:1]}
    for history in ({}, tried):
        keys = list(function(_copy(tasks), history))
        if not keys or len(set(keys)) != len(keys) or not set(keys) <= known:
            raise HarnessFault(f"order() returned {keys!r:.200} for tasks {sorted(known)!r:.200}")


def _check_diagnostic(path, samples):
    module = HARNESS.module(path)
    if not isinstance(getattr(module, "NAME", None), str):
        raise HarnessFault(f"{path}: NAME must be a string")
    for records in (samples, []):
        function = _function(module, path, "measure")
        _floats(function(_copy(records)), f"{path}: measure() of {len(records)} rollouts")


def _floats(values, what):
    if not isinstance(values, dict):
        raise HarnessFault(f"{what} must be a dict of floats, not {values!r:.200}")
    return {name: _number(value, f"{what}[{name!r}]") for name, value in values.items()}


def _number(value, what):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise HarnessFault(f"{what} is {value!r:.200}, not a finite number")
    return value


def _copy(value):
    return json.loads(json.dumps(value))


OPERATIONS = {
    "harness.load": load,
    "harness.rollout": rollout,
    "harness.stage": stage,
    "harness.reward": reward,
    "harness.keep": keep,
    "harness.order": order,
    "harness.measure": measure,
    "harness.check": check,
}
