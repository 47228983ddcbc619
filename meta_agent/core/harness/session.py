"""`HarnessSession`: the host's handle on a harness that is loaded in a sandbox's worker.

Promises: every value that comes back has been checked (names, lengths, finite numbers, requested
keys), so callers need not distrust it. A mistake of the harness is a `CandidateError` with a
stable `reason`; a failure of the sandbox is a `SandboxError`. Nothing is retried.
Does not cover: serving the model and tool calls of a rollout (`rollouts.Runner` does, through the
`serve` callback of `rollout`), and the recipe, which the host parses (`recipe.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from meta_agent.core.errors import CandidateError, ConfigError, GuestError, SandboxError
from meta_agent.core.harness.contract import HarnessContract, parse_contract
from meta_agent.core.harness.recipe import RECIPE_FILE, Recipe, no_recipe, recipe_of
from meta_agent.core.protocols import (
    JSON,
    CallServer,
    HarnessTree,
    Rollout,
    RolloutFailure,
    Sandbox,
)
from meta_agent.core.rollouts.record import to_line

# Installed in this order: the later modules import the first by its name in the worker.
GUEST_MODULES: Final = (
    ("harness_code", "_guest_code.py"),
    ("harness_agent", "guest.py"),
    ("harness_checks", "_guest_checks.py"),
)
MAX_GROUP_WEIGHT: Final = 1000.0
MAX_REWARD_NAMES: Final = 32
LAYERS: Final = ("score", "signal", "behaviour", "version")
MAX_QUESTION_CHARS: Final = 64_000
_TIMEOUT_SEC: Final = 60.0
_CHUNK_BYTES: Final = 4 << 20

Rewards = list[dict[str, float]]
AskJudge = Callable[[Sequence[str]], Sequence[str | RolloutFailure]]
"""Asks the model of the reward. Returns a reply to each question, or why there is none."""
_ROLE_FILES: Final = (("reward", "reward.py"), ("filter", "filter.py"), ("data", "curriculum.py"))


class Teaches(Protocol):
    """The parts of a harness that a training calls: its reward, filter and curriculum."""

    weights: dict[str, float]

    def reward(self, rollouts: Sequence[Rollout]) -> Rewards: ...

    def keep(self, groups: Sequence[Mapping[str, JSON]]) -> list[float]: ...

    def filter_state(self) -> JSON: ...

    def start_filter(self, state: JSON = None) -> None: ...

    def order(
        self, tasks: Sequence[Mapping[str, JSON]], history: Mapping[str, Mapping[str, int]]
    ) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one test of a harness: what was tested, whether it passed, else the fault."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The metrics that one diagnostic of a harness measured, or the `failure` that it raised."""

    name: str
    layer: str
    thresholds: Mapping[str, JSON]
    values: Mapping[str, float]
    failure: str | None = None


class HarnessSession:
    """A harness loaded in a sandbox. Raises `CandidateError` if it cannot be loaded.

    Its methods call the harness's code, and raise CandidateError if that fails or returns a wrong
    value.
    """

    ask_judge: AskJudge | None = None
    """Answers the questions of the reward's `judge`. None: they are not asked."""

    def __init__(self, sandbox: Sandbox, tree: HarnessTree) -> None:
        self.sandbox = sandbox
        self.tree = tree
        self.contract: HarnessContract = parse_contract(tree)
        self._require_kind()
        self._roles = _roles(self.contract, tree)
        for name, file in GUEST_MODULES:
            source = Path(__file__).with_name(file).read_text(encoding="utf-8")
            sandbox.install(name, source)
        loaded = {"files": _texts(self._sources()), "roles": self._roles}
        self._adopt(self._ask("harness.load", loaded))

    def _require_kind(self) -> None:
        if self.contract.entry is None:
            raise ConfigError(
                f"the harness {self.contract.name} has a `command` in harness.toml, not an "
                "`entry`; load it with `open_session`"
            )

    def _sources(self) -> Mapping[str, bytes]:
        return self.tree.files

    def _adopt(self, facts: JSON) -> None:
        self.weights: dict[str, float] = named_floats(_get(facts, "weights"), "WEIGHTS")
        self._has_state = bool(facts.get("filter_state"))
        self.in_groups, self.has_judge = (bool(facts.get(n)) for n in ("reward_group", "judge"))
        declared = _get(facts, "diagnostics")
        self._diagnostics = [_declared(fact) for fact in _listing(declared, None, "diagnostics")]

    @property
    def recipe(self) -> Recipe:
        """Returns the parsed `recipe.toml`. Raises `ConfigError` if it is missing or invalid."""
        paths = self._recipe_files
        if len(paths) != 1:
            raise no_recipe(self.contract.name, len(paths))
        return recipe_of(self.tree)

    @property
    def _recipe_files(self) -> list[str]:
        paths = self.contract.files_of("recipe", self.tree)
        return [path for path in paths if path.rsplit("/", 1)[-1] == RECIPE_FILE]

    def has(self, role: str) -> bool:
        """Returns True if the harness has a file for `reward`, `filter` or `data` (curriculum)."""
        return role in self._roles

    def rollout(
        self,
        items: Sequence[Mapping[str, JSON]],
        serve: CallServer,
        *,
        timeout_sec: float,
        ask_open: bool = False,
        step_limit_sec: float = 20.0,
    ) -> None:
        """Runs the agent on tasks (`{"key", "view", "tools"}`); `serve` answers its calls.

        `step_limit_sec` limits an agent's time between two calls. With `ask_open` each attempt asks
        the host before it starts. Raises GuestError if code in the sandbox raised outside an agent.
        """
        args = {"items": items, "ask_open": ask_open, "step_limit_sec": step_limit_sec}
        self.sandbox.request("harness.rollout", args, timeout_sec=timeout_sec, serve=serve)

    def reward(self, rollouts: Iterable[Rollout]) -> Rewards:
        """Returns the reward components of each rollout by name, in the order of the rollouts.

        If the reward asks a model, each reply is stored in its rollout. A rollout without a reply
        gets a failure instead, and no components. Raises CandidateError if reward() fails.
        """
        if not (self.in_groups or self.has_judge):
            chunks = _chunks(to_line(rollout) for rollout in rollouts)
            return [row for lines in chunks for row in self.begin_reward(lines)()]
        every, rows = list(rollouts), dict[int, dict[str, float]]()
        groups = _groups(every)
        self._judge(every, groups)
        for group in groups:
            scored = [index for index in group if not _lost_by_judge(every[index])]
            rewards = self.begin_reward([to_line(every[index]) for index in scored])()
            rows |= dict(zip(scored, rewards, strict=True))
        return [rows.get(index, {}) for index in range(len(every))]

    def _judge(self, rollouts: Sequence[Rollout], groups: Iterable[Sequence[int]]) -> None:
        """Asks the model what the harness wants to know about each rollout of each group."""
        if not self.has_judge or self.ask_judge is None:
            return
        questions: dict[int, str] = {}
        for group in groups:
            reply = self._ask("harness.judge", {}, [to_line(rollouts[index]) for index in group])
            texts = map(_question, _listing(reply, len(group), "judge()"))
            questions |= {at: text for at, text in zip(group, texts, strict=True) if text}
        answers = self.ask_judge(list(questions.values()))
        for index, answer in zip(questions, answers, strict=True):
            if isinstance(answer, str):
                rollouts[index].judged = answer
            else:
                rollouts[index].error = answer

    def begin_reward(self, lines: Sequence[bytes]) -> Callable[[], Rewards]:
        """Starts to compute the reward components of rollouts, given as JSON lines.

        The returned function waits for them, in order. It raises CandidateError if reward() fails.
        """
        reply, count = self._begin("harness.reward", {}, lines), len(lines)
        return lambda: _rewards(reply(), count, in_groups=self.in_groups)

    def keep(self, groups: Sequence[Mapping[str, JSON]]) -> list[float]:
        """Returns the training weight of each group of rollouts: 0 drops it; 1 without a filter."""
        return self.begin_keep(groups)()

    def filter_state(self) -> JSON:
        """Returns the filter's state, or None without `STATE`. Raises CandidateError on failure."""
        return self._ask("harness.filter_state", {}) if self._has_state else None

    def start_filter(self, state: JSON = None) -> None:
        """Sets the filter's state (None: to the file's `STATE`); does nothing without a `STATE`."""
        if self._has_state:
            self._ask("harness.filter_state", {"state": state})

    def begin_keep(self, groups: Sequence[Mapping[str, JSON]]) -> Callable[[], list[float]]:
        """Starts the filter on rollout groups. Returns a function that waits for their weights."""
        count = len(groups)
        if not self.has("filter"):
            return lambda: [1.0] * count
        reply = self._begin("harness.keep", {"groups": groups})
        return lambda: _group_weights(reply(), count)

    def order(
        self, tasks: Sequence[Mapping[str, JSON]], history: Mapping[str, Mapping[str, int]]
    ) -> list[str]:
        """Returns task keys in training order; the given order if the harness has no curriculum.

        `history` holds the counts `tries` and `solved` by task key. Raises CandidateError if the
        harness returns other keys.
        """
        task_keys = [str(task["key"]) for task in tasks]
        if not self.has("data"):
            return task_keys
        keys = _listing(
            self._ask("harness.order", {"tasks": tasks, "history": history}), None, "order()"
        )
        return _checked_order(keys, set(task_keys))

    def measure(self, rollouts: Iterable[Rollout]) -> list[Measurement]:
        """Returns what each diagnostic (metric) of the harness measured, in order of paths."""
        return self.measure_lines(to_line(rollout, tokens=True) for rollout in rollouts)

    def measure_lines(self, lines: Iterable[bytes]) -> list[Measurement]:
        """Returns what each diagnostic (metric) measured on rollouts, given as JSON lines."""
        first = True
        for chunk in _chunks(lines):
            self._ask("harness.stage", {"first": first}, chunk)
            first = False
        if first:
            self._ask("harness.stage", {"first": True})
        rows = _listing(self._ask("harness.measure", {}), len(self._diagnostics), "measure()")
        return [_measured(fact, row) for fact, row in zip(self._diagnostics, rows, strict=True)]

    def check(
        self, samples: Sequence[Rollout], tasks: Sequence[Mapping[str, JSON]]
    ) -> list[CheckResult]:
        """Returns the results of tests of the harness on rollouts and tasks (`{"key", "view"}`)."""
        lines = [to_line(sample) for sample in samples]
        rows = _listing(self._ask("harness.check", {"tasks": tasks}, lines), None, "check()")
        results = [_check_row(row) for row in rows]
        results += [self._check_layer(fact) for fact in self._diagnostics]
        if self.contract.files_of("recipe", self.tree):
            results.append(self._check_recipe())
        return results

    def _check_recipe(self) -> CheckResult:
        name = ", ".join(self._recipe_files) or RECIPE_FILE  # one elsewhere is read by nobody
        try:
            _ = self.recipe
        except ConfigError as error:
            return CheckResult(name, False, str(error))
        return CheckResult(name, True)

    def _check_layer(self, fact: Measurement) -> CheckResult:
        is_layer = fact.layer in LAYERS
        detail = "" if is_layer else f"LAYER is {fact.layer!r}, not one of {', '.join(LAYERS)}"
        return CheckResult(f"diagnostic {fact.name}", is_layer, detail)

    def _ask(self, op: str, args: Mapping[str, JSON], lines: Sequence[bytes] = ()) -> JSON:
        return self._begin(op, args, lines)()

    def _begin(
        self, op: str, args: Mapping[str, JSON], lines: Sequence[bytes] = ()
    ) -> Callable[[], JSON]:
        reply = self.sandbox.begin(op, args, timeout_sec=_TIMEOUT_SEC, attached=lines)

        def wait() -> JSON:
            try:
                return reply()
            except GuestError as error:
                raise _failed(op, error) from error
            except SandboxError as error:
                if error.kind != "protocol":
                    raise
                # Only code of the harness can have left the guest that it shares a process with.
                raise CandidateError(f"{op}: {error}", reason="broke_protocol") from error

        return wait


def _failed(op: str, error: GuestError) -> CandidateError:
    trace = error.guest_traceback.strip()
    return CandidateError(
        f"{op} failed: {error}" + (f"\n{trace}" if trace else ""),
        reason=op.replace("harness.", "harness_") + "_failed",
    )


def _roles(contract: HarnessContract, tree: HarnessTree) -> dict[str, JSON]:
    roles: dict[str, JSON] = {"agent": list(contract.entry or ())}
    for role, basename in _ROLE_FILES:
        paths = contract.files_of(role, tree)  # type: ignore[arg-type]
        files_of_role = [path for path in paths if path.rsplit("/", 1)[-1] == basename]
        if len(files_of_role) > 1:
            raise ConfigError(
                f"the factor {role} has several {basename}; keep one: {', '.join(files_of_role)}"
            )
        if files_of_role:
            roles[role] = files_of_role[0]
    files = contract.files_of("diagnostics", tree)
    roles["diagnostics"] = [p for p in files if p.endswith(".py") and not _private(p)]
    return roles


def _private(path: str) -> bool:
    return path.rsplit("/", 1)[-1].startswith("_")


def _texts(files: Mapping[str, bytes]) -> dict[str, str]:
    texts = {}
    for path, data in files.items():
        try:
            texts[path] = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CandidateError(
                f"{path} is not UTF-8 text ({error}); save it as UTF-8", reason="not_text"
            ) from error
    return texts


def _chunks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _must_return(what: str, value: Any, expected: str) -> CandidateError:
    return CandidateError(
        f"{what} returned {value!r:.200}, but it must return {expected}", reason="bad_value"
    )


def _get(facts: JSON, name: str) -> JSON:
    if not isinstance(facts, dict) or name not in facts:
        raise _must_return("the harness", facts, f"an object with {name}")
    return facts[name]


def _listing(value: JSON, count: int | None, what: str) -> list[JSON]:
    if not isinstance(value, list):
        raise _must_return(what, value, "a list")
    if count is not None and len(value) != count:
        raise CandidateError(
            f"{what} returned {len(value)} values, but it must return {count}", reason="bad_length"
        )
    return value


def _rewards(answer: JSON, count: int, *, in_groups: bool) -> Rewards:
    rows = _listing(answer, count, "reward()")
    if not in_groups:
        return [named_floats(row, f"reward() of rollout {i}") for i, row in enumerate(rows)]
    pairs = [_listing(row, 2, "reward_group()") for row in rows]
    single = [named_floats(row, f"reward() of rollout {i}") for i, (row, _) in enumerate(pairs)]
    grouped = [named_floats(r, f"reward_group() of rollout {i}") for i, (_, r) in enumerate(pairs)]
    for index, (row, shared) in enumerate(zip(single, grouped, strict=True)):
        if shared.keys() != grouped[0].keys() or shared.keys() & row.keys():
            names = ", ".join(shared) or "none"
            raise CandidateError(
                f"reward_group() returned the components {names} for rollout {index}; it must "
                "return the same names for every rollout, and none that reward() returns",
                reason="bad_keys",
            )
    return [{**row, **shared} for row, shared in zip(single, grouped, strict=True)]


def _question(value: JSON) -> str | None:
    if value is None or (isinstance(value, str) and 0 < len(value) <= MAX_QUESTION_CHARS):
        return value
    raise _must_return(
        "judge()", value, f"None, or a text of at most {MAX_QUESTION_CHARS} characters"
    )


def _groups(rollouts: Sequence[Rollout]) -> list[list[int]]:
    """Returns the positions of the rollouts of each group, in the order of their first one."""
    groups: dict[str, list[int]] = {}
    for index, rollout in enumerate(rollouts):
        groups.setdefault(rollout.group_id, []).append(index)
    return list(groups.values())


def _lost_by_judge(rollout: Rollout) -> bool:
    return rollout.error is not None and rollout.error.kind == "verifier"


def _group_weights(answer: JSON, count: int) -> list[float]:
    weights = _listing(answer, count, "keep()")
    return [_in_range(value, 0.0, MAX_GROUP_WEIGHT, "keep()") for value in weights]


def named_floats(value: JSON, what: str) -> dict[str, float]:
    """Returns `value`, a dict of finite floats. Raises CandidateError naming `what` for others."""
    if not isinstance(value, dict):
        raise _must_return(what, value, "a dict of floats")
    if len(value) > MAX_REWARD_NAMES:
        raise CandidateError(
            f"{what} returned {len(value)} names; return at most {MAX_REWARD_NAMES}",
            reason="bad_length",
        )
    for name in value:
        if not (0 < len(name) <= 64 and name.isprintable()):
            raise _must_return(what, name, "a printable name of at most 64 characters")
    return {
        # Tried first because the text for a refusal costs more than the check.
        name: number
        if type(number) is float and -1e9 <= number <= 1e9
        else _in_range(number, -1e9, 1e9, f"{what}[{name!r}]")
        for name, number in value.items()
    }


def _in_range(value: JSON, low: float, high: float, what: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise CandidateError(
            f"{what} must return a finite number, not {value!r:.80}", reason="not_finite"
        )
    if not low <= value <= high:
        raise _must_return(what, value, f"a number from {low:g} to {high:g}")
    return float(value)


def _checked_order(keys: list[JSON], task_keys: set[str]) -> list[str]:
    for key in keys:
        if not isinstance(key, str) or key not in task_keys:
            raise _must_return("order()", key, "the key of a task it was given")
    if len(set(keys)) != len(keys):
        raise _must_return("order()", keys, "a list without repeats")
    if not keys:
        raise _must_return("order()", keys, "at least one task")
    return keys


def _declared(fact: JSON) -> Measurement:
    name, layer = _get(fact, "name"), _get(fact, "layer")
    thresholds = _get(fact, "thresholds")
    if not isinstance(name, str) or not 0 < len(name) <= 64 or not name.isprintable():
        raise _must_return("NAME of a diagnostic", name, "a short printable string")
    if not isinstance(thresholds, dict):
        raise _must_return(f"THRESHOLDS of {name}", thresholds, "a dict")
    return Measurement(name, str(layer)[:64], thresholds, {})


def _measured(fact: Measurement, row: JSON) -> Measurement:
    if isinstance(row, dict) and "err" in row:
        failure = _failure_text(row["err"])
        return Measurement(fact.name, fact.layer, fact.thresholds, {}, failure)
    values = named_floats(_get(row, "values"), f"measure() of {fact.name}")
    return Measurement(fact.name, fact.layer, fact.thresholds, values)


def _failure_text(err: JSON) -> str:
    if not isinstance(err, dict):
        return "failed"
    return f"{err.get('type')}: {err.get('message')}"[:500]


def _check_row(row: JSON) -> CheckResult:
    if not (isinstance(row, list) and len(row) == 3 and type(row[1]) is bool):
        raise _must_return("check()", row, "a [name, ok, detail] row")
    return CheckResult(str(row[0])[:240], row[1], str(row[2])[:500])
