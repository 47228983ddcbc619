"""`HarnessSession`: the host's handle on a harness that is loaded in a sandbox's worker.

Promises: every value that comes back has been checked (names, lengths, finite numbers, requested
keys), so callers need not distrust it. A mistake of the harness is a `CandidateError` with a
stable `reason`; a failure of the sandbox is a `SandboxError`. Nothing is retried.
Does not cover: serving the model and tool calls of a rollout (`rollouts.Runner` does, through the
`serve` callback of `rollout`), and the recipe, which the host parses (`recipe.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from meta_agent.core.errors import CandidateError, ConfigError, GuestError, SandboxError
from meta_agent.core.harness._values import (
    CheckResult,
    Measurement,
    Rewards,
    checked_order,
    declared,
    field_of,
    group_weights,
    listing,
    measured,
    named_floats,
    question,
    rewards_of,
)
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

# Installed in this order: the second imports the first by its name in the worker.
GUEST_MODULES: Final = (("harness_code", "_guest_code.py"), ("harness_agent", "guest.py"))
_TIMEOUT_SEC: Final = 60.0
_CHUNK_BYTES: Final = 4 << 20

AskJudge = Callable[[Sequence[str]], Sequence[str | RolloutFailure]]
"""Asks the model of the reward. Returns a reply to each question, or why there is none."""
LAYERS: Final = ("score", "signal", "behaviour", "version")
_SAMPLE_GROUPS: Final = (
    {"task_key": "a", "rewards": [0.0, 1.0], "outcomes": [False, True]},
    {"task_key": "b", "rewards": [0.0, 0.0], "outcomes": [False, False]},
    {"task_key": "c", "rewards": [1.0, 1.0], "outcomes": [True, True]},
)
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
        self.weights: dict[str, float] = named_floats(field_of(facts, "weights"), "WEIGHTS")
        self._has_state = bool(facts.get("filter_state"))
        self.in_groups, self.has_judge = (bool(facts.get(n)) for n in ("reward_group", "judge"))
        paths = self._roles["diagnostics"]
        facts_of_each = listing(field_of(facts, "diagnostics"), len(paths), "diagnostics")
        self._diagnostics = [declared(fact) for fact in facts_of_each]

    @property
    def recipe(self) -> Recipe:
        """Returns the parsed `recipe.toml`. Raises `ConfigError` if it is missing or invalid."""
        paths = self.recipe_files
        if len(paths) != 1:
            raise no_recipe(self.contract.name, len(paths))
        return recipe_of(self.tree)

    @property
    def recipe_files(self) -> list[str]:
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
            texts = map(question, listing(reply, len(group), "judge()"))
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
        return lambda: rewards_of(reply(), count, in_groups=self.in_groups)

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
        return lambda: group_weights(reply(), count)

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
        keys = listing(
            self._ask("harness.order", {"tasks": tasks, "history": history}), None, "order()"
        )
        return checked_order(keys, set(task_keys))

    def measure(self, rollouts: Iterable[Rollout]) -> list[Measurement]:
        """Returns what each diagnostic (metric) of the harness measured, in order of paths."""
        return self.measure_lines(to_line(rollout, tokens=True) for rollout in rollouts)

    def measure_lines(self, lines: Iterable[bytes]) -> list[Measurement]:
        """Returns what each diagnostic (metric) measured on rollouts, given as JSON lines."""
        rows = zip(self._diagnostics, self._measured_rows(lines), strict=True)
        return [measured(fact, row) for fact, row in rows]

    def _measured_rows(self, lines: Iterable[bytes]) -> list[JSON]:
        first = True
        for chunk in _chunks(lines):
            self._ask("harness.stage", {"first": first}, chunk)
            first = False
        if first:
            self._ask("harness.stage", {"first": True})
        return listing(self._ask("harness.measure", {}), len(self._diagnostics), "measure()")

    def check(
        self, samples: Sequence[Rollout], tasks: Sequence[Mapping[str, JSON]]
    ) -> list[CheckResult]:
        """Returns the results of tests of the harness on rollouts and tasks (`{"key", "view"}`)."""
        lines = [to_line(sample) for sample in samples]
        results = [*self._checks_of_roles(samples, tasks), *self._checks_of_diagnostics(lines)]
        if self.contract.files_of("recipe", self.tree):
            name = ", ".join(self.recipe_files) or RECIPE_FILE  # one elsewhere is read by nobody
            results.append(_tested(name, lambda: self.recipe))
        return results

    def _checks_of_roles(
        self, samples: Sequence[Rollout], tasks: Sequence[Mapping[str, JSON]]
    ) -> Iterator[CheckResult]:
        problems = self._ask("harness.forms", {})
        tests: dict[str, Callable[[], object]] = {
            "agent": lambda: None,
            "reward": lambda: self._check_reward(*_both_ways(samples)),
            "filter": self._check_filter,
            "data": lambda: self._check_order(tasks),
        }
        for role, test in tests.items():
            if not self._roles.get(role):
                continue
            path = self._roles[role][0] if role == "agent" else self._roles[role]
            problem = problems.get(role) if isinstance(problems, dict) else "no answer"
            yield CheckResult(path, False, str(problem)[:500]) if problem else _tested(path, test)

    def _check_reward(self, lines: Sequence[bytes], answered: Sequence[bytes]) -> None:
        if not lines:
            return
        backwards = self.begin_reward(lines[::-1])()
        if self.begin_reward(lines)() != backwards[::-1]:
            raise CandidateError(
                "reward() returned different values when it was called twice with the same "
                "rollouts",
                reason="bad_value",
            )
        if self.has_judge:
            questions = listing(self._ask("harness.judge", {}, lines), len(lines), "judge()")
            _ = [question(text) for text in questions]
            self.begin_reward(answered)()

    def _check_filter(self) -> None:
        try:
            for _ in range(2):
                self.keep(_SAMPLE_GROUPS)
        finally:
            self.start_filter()

    def _check_order(self, tasks: Sequence[Mapping[str, JSON]]) -> None:
        tried = {str(task["key"]): {"tries": 8, "solved": 3} for task in tasks[:1]}
        for history in ({}, tried) if tasks else ():
            self.order(tasks, history)

    def _checks_of_diagnostics(self, lines: Sequence[bytes]) -> Iterator[CheckResult]:
        both = zip(self._measured_rows(lines), self._measured_rows(()), strict=True)
        for path, fact, rows in zip(
            self._roles["diagnostics"], self._diagnostics, both, strict=True
        ):
            yield _tested(path, partial(_must_measure, fact, rows))
            is_layer = fact.layer in LAYERS
            detail = "" if is_layer else f"LAYER is {fact.layer!r}, not one of {', '.join(LAYERS)}"
            yield CheckResult(f"diagnostic {fact.name}", is_layer, detail)

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


def _tested(name: str, test: Callable[[], object]) -> CheckResult:
    """Runs a test; an error of the harness is the result's detail."""
    try:
        test()
    except (CandidateError, ConfigError) as error:
        return CheckResult(name, False, str(error)[:500])
    return CheckResult(name, True)


def _both_ways(samples: Sequence[Rollout]) -> tuple[list[bytes], list[bytes]]:
    """Returns the rollouts as one group: without a judge's reply, and with one."""
    group = [replace(sample, group_id="g", judged=None) for sample in samples]
    return list(map(to_line, group)), [to_line(replace(row, judged="7")) for row in group]


def _must_measure(fact: Measurement, rows: Iterable[JSON]) -> None:
    for row in rows:
        if failure := measured(fact, row).failure:
            raise CandidateError(f"measure() of {fact.name}: {failure}", reason="bad_value")


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


def _groups(rollouts: Sequence[Rollout]) -> list[list[int]]:
    """Returns the positions of the rollouts of each group, in the order of their first one."""
    groups: dict[str, list[int]] = {}
    for index, rollout in enumerate(rollouts):
        groups.setdefault(rollout.group_id, []).append(index)
    return list(groups.values())


def _lost_by_judge(rollout: Rollout) -> bool:
    return rollout.error is not None and rollout.error.kind == "verifier"
