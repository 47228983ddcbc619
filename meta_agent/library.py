"""`meta_agent.optimize(...)`: the loop as a function, for scripts and notebooks.

    import meta_agent
    result = meta_agent.optimize(
        tasks=rows, grade=grade, policy="openai/NAME", meta_model="openai/NAME"
    )

What is given as Python is written down first, as files in `<workspace>/given/`: a run has to be
resumed, verified and killed like any other, and a function in memory cannot be. So a function has
to be self-contained: what it uses is imported inside of it, or stands beside it as functions,
modules and plain values. The loop runs in a thread of its own, which makes it safe in a notebook,
where another loop is running already; Ctrl-C drains it, and the same call resumes it.

Does not cover: functions that close over what cannot be written down (sockets, data frames).
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import html
import inspect
import json
import textwrap
import threading
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from meta_agent.config import RunConfig
from meta_agent.errors import ConfigError
from meta_agent.protocols import JSON, Verdict
from meta_agent.settings import resolve
from meta_agent.view import Display, RunState, open_display
from meta_agent.workspace import GIVEN, find_workspace

Grade = Callable[..., Any]
Agent = str | Path | Sequence[str] | Callable[..., Any]
_AGENT: Final = "agent"
_MAIN: Final = """

if __name__ == "__main__":
    import os, pathlib

    prompt = pathlib.Path(os.environ["META_AGENT_PROMPT_FILE"]).read_text(encoding="utf-8")
    said = {name}(prompt, os.environ["OPENAI_BASE_URL"])
    if said is not None:
        pathlib.Path("answer.txt").write_text(str(said), encoding="utf-8")
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the display would show: `kind` is the verb, `text` the line."""

    kind: str
    text: str = ""
    data: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """What a run came to. Shares, not points; None where nothing was measured."""

    run: str
    workspace: Path
    exit_reason: str | None
    before: float | None
    after: float | None
    promoted: tuple[str, ...]
    harness_commit: str
    weights: Path | None
    """Of a policy that was trained; None for one behind a server."""
    usd: float | None
    claim: str
    """What may be said of the difference, and what not."""
    state: RunState = field(repr=False)

    def to_json(self) -> dict[str, JSON]:
        """The document of `evolve --json`."""
        return self.state.to_json()

    def adopt(self, into: Path | str, branch: str = "meta-agent") -> None:
        """The promoted history as a branch of a clone of yours."""
        from meta_agent.history import HarnessRepo, adopt_branch
        from meta_agent.workspace import open_workspace

        repo = HarnessRepo.open(open_workspace(self.workspace).harness_repo)
        adopt_branch(repo, Path(into), branch)

    def __str__(self) -> str:
        return (
            f"{self.run}: {_share(self.before)} -> {_share(self.after)} clean success, "
            f"{len(self.promoted)} promoted; {self.claim}"
        )

    def _repr_html_(self) -> str:
        rows = {
            "run": f"{self.run} ({self.exit_reason})",
            "before": _share(self.before),
            "after": _share(self.after),
            "promoted": ", ".join(self.promoted) or "nothing",
            "harness": f"{self.workspace}/harness_repo at {self.harness_commit[:10]}",
            "weights": str(self.weights or "the policy was not trained"),
            "claim": self.claim,
        }
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in rows.items()
        )
        return f"<table>{cells}</table>"

    @classmethod
    def of(cls, state: RunState) -> Result:
        """From what the ledger says."""
        product = state.product
        visible = dict(state.visible or {})
        return cls(
            run=state.run,
            workspace=Path(state.workspace),
            exit_reason=state.exit_reason,
            before=state.baseline.clean_success if state.baseline else None,
            after=state.final.clean_success if state.final else None,
            promoted=tuple(
                str(one.candidate) for one in state.versions if one.candidate and not one.undone
            ),
            harness_commit=str(product["harness_commit"] or ""),
            weights=Path(str(product["weights"])) if product["weights"] else None,
            usd=state.usd,
            claim=str(visible.get("words", "")),
            state=state,
        )


def optimize(
    *,
    tasks: Path | str | Iterable[Mapping[str, JSON]] | None = None,
    grade: Path | str | Grade | None = None,
    tools: Callable[..., Any] | None = None,
    agent: Agent | None = None,
    policy: str = "nano",
    meta_model: str = "rules",
    budget: int | None = None,
    threshold: float | None = None,
    workspace: Path | str | None = None,
    on_event: Callable[[Event], None] | None = None,
    **settings: Any,
) -> Result:
    """Runs the loop, or resumes it, and says what came of it.

    Args:
        tasks: rows (objects with a `prompt`), or a file or folder of them.
        grade: `grade(task, answer) -> bool | float | Outcome`, or a Python file with it.
        tools: `tools(task) -> [function, ...]`, what the agent may call.
        agent: a folder, a command, a prompt, or `agent(prompt, base_url) -> answer`.
        policy: the model that acts; see `meta-agent evolve --help`.
        meta_model: the model that improves the agent; `rules` asks none.
        budget: cap on attempts.
        threshold: from which number of `grade` a task counts as solved.
        workspace: where everything goes.
        on_event: hears of everything that the display would show.
        settings: any other setting of `meta-agent evolve`, by its field's name.
    """
    given: dict[str, Any] = {
        "tasks": tasks,
        "grade": grade,
        "tools": tools,
        "agent": agent,
        "policy": policy,
    }
    given |= {"meta_model": meta_model, "budget": budget, "threshold": threshold}
    given |= {"workspace": workspace, **settings}
    stop = threading.Event()
    return _Work(lambda: _run(stop, on_event, _config(**given))).result(stop)


async def optimize_async(**arguments: Any) -> Result:
    """The same for code that is async already; cancelling it drains the run."""
    stop, on_event = threading.Event(), arguments.pop("on_event", None)
    work = _Work(lambda: _run(stop, on_event, _config(**arguments)))
    try:
        while work.thread.is_alive():
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        stop.set()
        raise
    return work.result(stop)


def _run(
    stop: threading.Event, on_event: Callable[[Event], None] | None, config: RunConfig
) -> Result:
    from meta_agent.evolve import evolve

    display: Display = open_display(live=False)
    if on_event is not None:
        display = _Told(display, on_event)
    try:
        return Result.of(evolve(config, display, stop))
    finally:
        display.close()


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


class _Work:
    """A run in a thread of its own, with its result or its error."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._found: Result | None = None
        self._error: BaseException | None = None

        def run() -> None:
            try:
                self._found = work()
            except BaseException as error:
                self._error = error

        self.thread = threading.Thread(target=run, name="meta-agent", daemon=True)
        self.thread.start()

    def result(self, stop: threading.Event) -> Result:
        """Waits; Ctrl-C stops the run after the step in flight, and raises what that raises."""
        while self.thread.is_alive():
            try:
                self.thread.join(0.2)
            except KeyboardInterrupt:
                stop.set()
        if self._error is not None:
            raise self._error
        assert self._found is not None
        return self._found


class _Told:
    """A display that also tells a callback. What the callback raises ends the run."""

    def __init__(self, inner: Display, tell: Callable[[Event], None]) -> None:
        self._inner, self._tell = inner, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def begin(self, headline: Sequence[str]) -> None:
        self._tell(Event("begin", "\n".join(headline)))
        self._inner.begin(headline)

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        self._tell(Event("phase", detail, {"name": name, "done": done, "total": total}))
        self._inner.phase(name, detail, done=done, total=total)

    def note(self, text: str) -> None:
        self._tell(Event("note", text))
        self._inner.note(text)

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        self._tell(Event("metric", series, {"step": step, **values}))
        self._inner.metric(series, step, values)

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        told = {"candidate": candidate, "factor": factor, "kind": str(verdict.kind)}
        self._tell(Event("verdict", statement, told))
        self._inner.verdict(candidate, factor, verdict, statement)

    def done(self, state: RunState) -> None:
        self._tell(Event("done", str(state.exit_reason)))
        self._inner.done(state)


# --- what was given, as settings and files -------------------------------------------------------


def _config(
    *,
    tasks: Any = None,
    grade: Any = None,
    tools: Any = None,
    agent: Any = None,
    workspace: Path | str | None = None,
    **settings: Any,
) -> RunConfig:
    root = find_workspace(Path(workspace) if workspace else None, Path.cwd())
    flags: dict[str, Any] = {**settings, "workspace": root}
    files: dict[str, str] = {}
    if isinstance(tasks, str | Path):
        flags["tasks"] = Path(tasks)
    elif tasks is not None:
        files["tasks.jsonl"] = "".join(_line(row) for row in tasks)
        flags["tasks"] = root / GIVEN / "tasks.jsonl"
    if isinstance(grade, str | Path):
        flags["grade"] = Path(grade)
    elif grade is not None:
        parts = {"grade": grade, **({"tools": tools} if tools is not None else {})}
        files["grader.py"] = source_of(parts)
        flags["grade"] = root / GIVEN / "grader.py"
    harness, more = _harness(agent, root)
    if harness is not None:
        flags["harness"] = harness
    _write(root / GIVEN, {**files, **more})
    return resolve(flags)


def _line(row: Mapping[str, JSON]) -> str:
    try:
        return json.dumps(dict(row), ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ConfigError(f"a task cannot be written as JSON ({error}): {row!r:.120}") from error


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _harness(agent: Agent | None, root: Path) -> tuple[str | None, dict[str, str]]:
    """The harness that an agent stands for, and the files to write for it."""
    if agent is None:
        return None, {}
    folder = str(root / GIVEN / _AGENT)
    if callable(agent):
        text = source_of({"act": agent}) + _MAIN.format(name="act")
        command = ["python3", "{harness}/agent.py"]
        return folder, {**_contract(command), f"{_AGENT}/agent.py": text}
    if isinstance(agent, Path) or (isinstance(agent, str) and Path(agent).is_dir()):
        return str(agent), {}
    if not isinstance(agent, str):
        return folder, _contract([str(word) for word in agent])
    if "{prompt}" in agent or "{prompt_file}" in agent:
        import shlex

        return folder, _contract(shlex.split(agent))
    return folder, _prompted(agent)


def _contract(command: Sequence[str]) -> dict[str, str]:
    told = json.dumps(list(command))
    text = f'[harness]\nname = "agent"\ncommand = {told}\nimage = "base"\neditable = ["**"]\n'
    text += 'protected = ["harness.toml"]\n[factors]\nscaffold = ["**"]\n'
    about = "An agent that was given as a command; it finds its model at OPENAI_BASE_URL.\n"
    return {f"{_AGENT}/harness.toml": text, f"{_AGENT}/README.md": about}


def _prompted(prompt: str) -> dict[str, str]:
    """The harness `open` with this system prompt."""
    from meta_agent.resources import shipped_harness

    shipped = shipped_harness("open")
    files = {f"{_AGENT}/{path}": content.decode() for path, content in shipped.items()}
    prompts = f"{_AGENT}/agent/prompts.py"
    tree = ast.parse(files[prompts])
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "SYSTEM":
            lines = files[prompts].splitlines(keepends=True)
            told = f"SYSTEM = {prompt!r}\n"
            assert node.end_lineno is not None
            files[prompts] = "".join([*lines[: node.lineno - 1], told, *lines[node.end_lineno :]])
    return files


def source_of(functions: Mapping[str, Callable[..., Any]]) -> str:
    """A module that holds these functions under these names, with all that they use."""
    written: dict[str, str] = {}
    for name, function in functions.items():
        _collect(function, written)
        if function.__name__ != name:
            written[name] = f"{name} = {function.__name__}\n"
    return "\n\n".join(written.values()) + "\n"


def _collect(function: Any, written: dict[str, str]) -> None:
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"the source of {function!r} cannot be read",
            hint="give a function that is defined in a file or a notebook cell, or a file",
        ) from error
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise ConfigError(f"{function!r} has no name", hint="def, not lambda")
    if name in written:
        return
    written[name] = ""  # its place, should it call itself
    known = inspect.getclosurevars(function) if inspect.isfunction(function) else None
    used = {**known.globals, **known.nonlocals} if known else {}
    for inner in _inner_names(text) - set(used):
        if inner in getattr(function, "__globals__", {}) and not hasattr(builtins, inner):
            used[inner] = function.__globals__[inner]
    before = {name: written.pop(name)}
    for word, value in used.items():
        _bring(word, value, written, function)
    written.update(before)
    written[name] = text


def _inner_names(text: str) -> set[str]:
    """All names that are read, also in functions and classes inside."""
    return {
        node.id
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _bring(word: str, value: Any, written: dict[str, str], user: Any) -> None:
    if word in written or value is user:
        return
    if isinstance(value, types.ModuleType):
        written[word] = f"import {value.__name__} as {word}\n"
    elif inspect.isfunction(value) or inspect.isclass(value):
        home = getattr(value, "__module__", "__main__")
        if home in ("__main__", user.__module__):
            _collect(value, written)
        else:
            written[word] = f"from {home} import {value.__qualname__} as {word}\n"
    else:
        written[word] = f"{word} = {_literal(value, word, user.__name__)}\n"


def _literal(value: Any, word: str, user: str) -> str:
    text = repr(value)
    try:
        if ast.literal_eval(text) == value:
            return text
    except (ValueError, SyntaxError):
        pass
    raise ConfigError(
        f"{user} uses {word}, a {type(value).__name__} that cannot be written down",
        hint=f"make {word} inside of {user}, or give a file",
    )


__all__ = ["Event", "Result", "optimize", "optimize_async", "source_of"]
