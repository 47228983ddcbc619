"""Guest module `harness_code`: loads harness files as modules in the worker. Stdlib only.

This source runs in the sandbox, in one process with harness code, so it guards against accidents,
not malice. Its operations run the training side: reward, filter, curriculum and diagnostics. The
host checks what they return.
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from meta_agent.core.sandbox.inside.frames import traceback_of

MAX_TRACEBACK_CHARS = 2000
MAX_STATE_CHARS = 65536
PACKAGE_PREFIX = "loaded_harness_"

Json = Any
Args = dict[str, Any]
Operation = Callable[[Args, object], Json]


class HarnessFault(Exception):  # noqa: N818 - the harness's fault, as its owner will read it
    """Raised when harness code lacks a function or returns a wrong value; the text says which."""


class Loaded:
    """The harness that this process has loaded, as Python modules; only one at a time."""

    def __init__(self) -> None:
        self.package = ""
        self.loads = 0
        self.roles: dict[str, Any] = {}
        self.staged: list[Json] = []
        self.filter_state: Json = None

    def replace(self, files: Mapping[str, str], roles: dict[str, Any]) -> None:
        """Unloads the current harness and loads another, given its file texts by path.

        `roles` names the file of each role, such as `reward`, and the agent's entry function.
        """
        forget_loaded()
        home = self._home()
        self.package = os.path.basename(home)  # noqa: PTH119
        root = os.path.join(home, self.package)  # noqa: PTH118
        write_tree(root, files)
        # The package of its own lets a suite be called `math` or `code`. The root itself comes
        # last, so that absolute imports between harness files work without hiding the stdlib.
        sys.path.insert(0, home)
        sys.path.append(root)
        importlib.invalidate_caches()
        self.roles = roles
        self.staged = []

    def _home(self) -> str:
        """Creates a folder whose name repeats between runs, as models read it in tracebacks."""
        while True:
            self.loads += 1
            name = f"{PACKAGE_PREFIX}{self.loads}"
            home = os.path.join(tempfile.gettempdir(), name)  # noqa: PTH118
            try:
                os.mkdir(home, 0o700)  # noqa: PTH102
            except FileExistsError:
                continue
            return home

    def module(self, path: str) -> ModuleType:
        """Returns the Python module of the harness file `path`, such as `swe/reward.py`."""
        dotted = path.removesuffix(".py").replace("/", ".")
        return importlib.import_module(f"{self.package}.{dotted}")

    def role(self, name: str) -> ModuleType:
        """Returns the module of a role, such as `reward`. Raises HarnessFault if no file has it."""
        if name not in self.roles:
            raise HarnessFault(f"harness.toml lists no file under {name} in [factors]; add one")
        return self.module(self.roles[name])

    def function(self, role: str, name: str) -> Callable[..., Any]:
        """Returns function `name` of the file with `role`. Raises HarnessFault if it is missing."""
        return find_function(self.role(role), self.roles[role], name)

    def agent(self) -> Callable[..., Any]:
        """Returns the agent's entry function. Raises HarnessFault if it is missing."""
        path, name = self.roles["agent"]
        return find_function(self.module(path), path, name)

    def diagnostics(self) -> list[tuple[str, ModuleType]]:
        """Returns path and module of each diagnostic (metric) of the harness, in path order."""
        return [(path, self.module(path)) for path in self.roles["diagnostics"]]


def forget_loaded() -> None:
    """Removes all earlier harnesses from `sys.modules`, `sys.path` and the disk."""
    stale = [path for path in sys.path if PACKAGE_PREFIX in path]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if name.startswith(PACKAGE_PREFIX) or file.startswith(tuple(stale)):
            del sys.modules[name]
    sys.path[:] = [path for path in sys.path if path not in stale]
    for path in stale:
        shutil.rmtree(path, ignore_errors=True)


def write_tree(root: str, files: Mapping[str, str]) -> None:
    """Writes the harness files, texts by path, below the folder `root`. Paths are not checked."""
    for path, text in files.items():
        target = os.path.join(root, path)  # noqa: PTH118
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
        with open(target, "w", encoding="utf-8", newline="") as handle:  # noqa: PTH123
            handle.write(text)


def find_function(module: ModuleType, path: str, name: str) -> Callable[..., Any]:
    """Returns function `name` of a module. Raises HarnessFault, naming `path`, if it is missing."""
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        raise HarnessFault(f"{path} has no function {name}(), which a harness needs; add it")
    return function


def describe(error: BaseException) -> dict[str, str]:
    """Returns an exception's type, message and traceback, in the form that the host records."""
    return {
        "type": type(error).__name__,
        "message": str(error)[:500],
        "traceback": traceback_of(error)[-MAX_TRACEBACK_CHARS:],
    }


def records(args: Args) -> Iterator[Json]:
    """Yields the rollouts of a request as dicts, from the JSON lines in `args["attached"]`."""
    return map(json.loads, io.BytesIO(args.get("attached", b"")))


HARNESS = Loaded()


def load(args: Args, channel: object) -> Json:
    """Loads the harness in `args`; returns its reward weights, diagnostics, optional functions."""
    sys.dont_write_bytecode = True
    HARNESS.replace(args["files"], args["roles"])
    if HARNESS.roles["agent"]:  # else the acting side is a command, which runs elsewhere
        HARNESS.agent()
    for role in ("filter", "data"):
        if role in HARNESS.roles:
            HARNESS.role(role)
    weights = getattr(HARNESS.role("reward"), "WEIGHTS", {}) if "reward" in HARNESS.roles else {}
    declared = [declaration(module) for _, module in HARNESS.diagnostics()]
    HARNESS.filter_state = first_state()
    groups = {name: optional(name) is not None for name in ("reward_group", "judge")}
    groups["filter_state"] = HARNESS.filter_state is not None
    return {"weights": dict(weights), "diagnostics": declared, **groups}


def optional(name: str) -> Callable[..., Any] | None:
    """Returns function `name` of the harness's reward file, or None if either is missing."""
    return getattr(HARNESS.role("reward"), name, None) if "reward" in HARNESS.roles else None


def declaration(module: ModuleType) -> Json:
    """Returns a diagnostic's (metric's) NAME, LAYER and THRESHOLDS; None for what is missing."""
    names = {"name": "NAME", "layer": "LAYER", "thresholds": "THRESHOLDS"}
    return {key: getattr(module, name, None) for key, name in names.items()}


def stage(args: Args, channel: object) -> int:
    """Stores a request's rollouts for a later `measure`; returns how many are stored in all."""
    if args["first"]:
        HARNESS.staged = []
    HARNESS.staged += records(args)
    return len(HARNESS.staged)


def measure(args: Args, channel: object) -> Json:
    """Returns what each diagnostic (metric) measured on the stored rollouts, and removes these.

    A diagnostic that raised has the entry `{"err": ...}` instead of `{"values": ...}`.
    """
    rollouts, HARNESS.staged = HARNESS.staged, []
    rows: list[Json] = []
    for path, module in HARNESS.diagnostics():
        try:
            rows.append({"values": dict(find_function(module, path, "measure")(rollouts))})
        except Exception as error:
            rows.append({"err": describe(error)})
    return rows


def reward(args: Args, channel: object) -> Json:
    """Returns the reward components of each rollout in the request.

    If the harness has reward_group(), each entry is a pair: reward()'s and reward_group()'s.
    """
    function, together = HARNESS.function("reward", "reward"), optional("reward_group")
    if together is None:
        return [function(record) for record in records(args)]
    rows = [{"judged": None, **record} for record in records(args)]
    parts = by_group(rows, "reward_group")
    for index, part in enumerate(parts):
        for name, value in part.items() if isinstance(part, dict) else ():
            if value != value or value in (math.inf, -math.inf):
                raise HarnessFault(f"reward_group() returned {name} = {value} for rollout {index}")
    return [list(pair) for pair in zip(map(function, rows), parts, strict=True)]


def judge(args: Args, channel: object) -> Json:
    """Returns, for each rollout in the request, the question to a judging model, or None."""
    return by_group(list(records(args)), "judge")


def by_group(rows: list[Json], name: str) -> list[Json]:
    """Calls the reward file's function `name` on the rollout records of each group.

    Returns its values in the order of the records. Raises HarnessFault if their number is wrong.
    """
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(row["group_id"], []).append(index)
    function, values = HARNESS.function("reward", name), [None] * len(rows)
    for members in groups.values():
        answers = list(function([rows[index] for index in members]))
        if len(answers) != len(members):
            raise HarnessFault(
                f"{name}() returned {len(answers)} values for {len(members)} rollouts; it needs "
                "one each"
            )
        for index, answer in zip(members, answers, strict=True):
            values[index] = answer
    return values


def keep(args: Args, channel: object) -> Json:
    """Returns the filter's weight of each group of rollouts (0 drops it); stores its new state."""
    function = HARNESS.function("filter", "keep")
    if HARNESS.filter_state is None:
        return list(function(args["groups"]))
    weights, HARNESS.filter_state = stateful(function, args["groups"], HARNESS.filter_state)
    return weights


def stateful(function: Callable[..., Any], groups: Json, state: Json) -> tuple[list[Json], Json]:
    """Calls the filter's `function` with groups and state. Returns the weights and the new state.

    Raises HarnessFault if the function returns another form, or a state that is not plain JSON.
    """
    answer = function(groups, json.loads(json.dumps(state)))
    if not isinstance(answer, tuple) or len(answer) != 2 or answer[1] is None:
        path = HARNESS.roles["filter"]
        raise HarnessFault(f"{path}: keep() must return (weights, state), not {answer!r:.80}")
    return list(answer[0]), plain_state(answer[1])


def plain_state(state: Json) -> Json:
    """Returns a JSON copy of a filter's state. Raises HarnessFault if it is no JSON or too long."""
    path = HARNESS.roles["filter"]
    try:
        text = json.dumps(state, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise HarnessFault(
            f"{path}: the filter's state must be plain JSON, not {state!r:.80}: {error}"
        ) from error
    if len(text) > MAX_STATE_CHARS:
        raise HarnessFault(
            f"{path}: the filter's state {text:.80} has {len(text)} characters as JSON, of at most "
            f"{MAX_STATE_CHARS}"
        )
    return json.loads(text)


def first_state() -> Json:
    """Returns the STATE of the filter's file, or None. Raises HarnessFault if STATE is no JSON."""
    state = getattr(HARNESS.role("filter"), "STATE", None) if "filter" in HARNESS.roles else None
    return None if state is None else plain_state(state)


def filter_state(args: Args, channel: object) -> Json:
    """Returns the filter's state; first sets it to `args["state"]`, if given, or STATE if None."""
    if "state" in args:
        HARNESS.filter_state = first_state() if args["state"] is None else args["state"]
    return HARNESS.filter_state


def order(args: Args, channel: object) -> Json:
    """Returns the keys of the request's tasks in the training order of the harness's curriculum."""
    return list(HARNESS.function("data", "order")(args["tasks"], args["history"]))


FORMS = {
    "agent": (3, "run(task, model, tools)"),
    "reward": (1, "reward(rollout)"),
    "filter": (1, "keep(groups)"),
    "data": (2, "order(tasks, history)"),
}
"""How many arguments the function of a role takes. A filter with STATE takes one more."""


def forms(args: Args, channel: object) -> Json:
    """Returns, by role, what is wrong with the form of its function; calls none of them."""
    problems = {role: form_problem(role) for role in FORMS if HARNESS.roles.get(role)}
    return {role: problem for role, problem in problems.items() if problem}


def form_problem(role: str) -> str:
    """Returns what is wrong with the form of the function of a role, or ""."""
    count, form = FORMS[role]
    if role == "filter" and HARNESS.filter_state is not None:
        count, form = 2, "keep(groups, state)"
    name, _, arguments = form.partition("(")
    is_agent = role == "agent"
    if is_agent:
        form = f"{HARNESS.roles[role][1]}({arguments}"
    try:
        function = HARNESS.agent() if is_agent else HARNESS.function(role, name)
        inspect.signature(function).bind(*range(count))
    except HarnessFault as fault:
        return str(fault)
    except (TypeError, ValueError) as error:
        return f"{form}: {error}"
    if role == "reward" and not isinstance(getattr(HARNESS.role(role), "WEIGHTS", None), dict):
        return "WEIGHTS must be a dict of floats, one a component"
    if is_agent and not inspect.iscoroutinefunction(function):
        return f"declare {HARNESS.roles[role][1]} with `async def`"
    return ""


def guarded(operation: Operation) -> Operation:
    """Returns `operation`, but with an EOFError of harness code raised as a HarnessFault."""

    def run(args: Args, channel: object) -> Json:
        try:
            return operation(args, channel)
        except EOFError as error:
            raise HarnessFault(f"EOFError: {error}") from error

    return run


OPERATIONS = {
    "harness.load": guarded(load),
    "harness.stage": stage,
    "harness.measure": guarded(measure),
    "harness.reward": guarded(reward),
    "harness.judge": guarded(judge),
    "harness.keep": guarded(keep),
    "harness.filter_state": filter_state,
    "harness.order": guarded(order),
    "harness.forms": guarded(forms),
}
