"""Turns the Python arguments of `meta_agent.optimize` into settings and files.

The files are written to `<workspace>/given/`. A function is written with everything that it uses:
modules as imports, functions and classes of its module as source, plain values as literals.
Not covered: values without a literal, such as sockets and data frames.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import shlex
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from meta_agent.composition.arguments import Agent, Arguments
from meta_agent.composition.inputs import with_named_tasks
from meta_agent.core.config import ALL_ROLES, RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.syntax import literal_value, parse_python
from meta_agent.core.protocols import JSON
from meta_agent.core.resources import shipped_harness
from meta_agent.core.settings import did_you_mean, resolve
from meta_agent.core.workspace import GIVEN, find_workspace

_AGENT: Final = "agent"
_MAIN: Final = """

if __name__ == "__main__":
    import os, pathlib

    prompt = pathlib.Path(os.environ["META_AGENT_PROMPT_FILE"]).read_text(encoding="utf-8")
    said = {name}(prompt, os.environ["OPENAI_BASE_URL"])
    if said is not None:
        pathlib.Path("answer.txt").write_text(str(said), encoding="utf-8")
"""


def config_of(
    *,
    tasks: Any = None,
    grade: Any = None,
    tools: Any = None,
    agent: Any = None,
    workspace: Path | str | None = None,
    base_url: str | None = None,
    **settings: Any,
) -> RunConfig:
    """Returns the settings for the arguments of `meta_agent.optimize`; writes objects to files.

    Raises ConfigError if an argument is unknown, or if an object such as a function cannot be
    written.
    """
    names = Arguments.__annotations__.keys()
    for name in settings:
        if name not in names:
            raise ConfigError(
                f"optimize has no argument {name!r}",
                hint=did_you_mean(name, names) or "help(meta_agent.optimize) lists the arguments",
            )
    if base_url is not None:
        settings["base_urls"] = {ALL_ROLES: base_url, **settings.get("base_urls", {})}
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
        name = "judge" if getattr(grade, "__name__", "") == "judge" else "grade"
        parts = {name: grade, **({"tools": tools} if tools is not None else {})}
        files["grader.py"] = source_of(parts)
        flags["grade"] = root / GIVEN / "grader.py"
    harness, more = _harness(agent, root)
    if harness is not None:
        flags["harness"] = harness
    _write(root / GIVEN, {**files, **more})
    return with_named_tasks(resolve(flags))


def _line(row: Mapping[str, JSON]) -> str:
    try:
        return json.dumps(dict(row), ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"a task cannot be written as JSON ({error}): {row!r:.120}",
            hint="use only strings, numbers, booleans, None, lists and dicts in a task",
        ) from error


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _harness(agent: Agent | None, root: Path) -> tuple[str | None, dict[str, str]]:
    """Returns the harness of an agent, and the files to write for it."""
    if agent is None:
        return None, {}
    folder = str(root / GIVEN / _AGENT)
    if callable(agent):
        text = source_of({"act": agent}) + _MAIN.format(name="act")
        command = ["python3", "{harness}/agent.py"]
        return folder, {**_contract(command), f"{_AGENT}/agent.py": text}
    if isinstance(agent, Path) or (isinstance(agent, str) and _is_path(agent)):
        if not Path(agent).is_dir():
            raise ConfigError(
                f"the agent's folder {agent} does not exist",
                hint="give agent= an existing folder, a command, a prompt or a function",
            )
        return str(agent), {}
    if not isinstance(agent, str):
        return folder, _contract([str(word) for word in agent])
    if "{prompt}" in agent or "{prompt_file}" in agent:
        return folder, _contract(shlex.split(agent))
    return folder, _prompted(agent)


def _is_path(text: str) -> bool:
    """Returns True if a text is a path and not a prompt: one word with a slash, or a folder.

    A prompt can be too long for a path, which raises OSError.
    """
    if "/" in text and not any(map(str.isspace, text)):
        return True
    with suppress(OSError, ValueError):
        return Path(text).is_dir()
    return False


def _contract(command: Sequence[str]) -> dict[str, str]:
    command_toml = json.dumps(list(command))
    text = (
        f'[harness]\nname = "agent"\ncommand = {command_toml}\nimage = "base"\neditable = ["**"]\n'
    )
    text += 'protected = ["harness.toml"]\n[factors]\nscaffold = ["**"]\n'
    about = "This agent was given as a command. It calls its model at OPENAI_BASE_URL.\n"
    return {f"{_AGENT}/harness.toml": text, f"{_AGENT}/README.md": about}


def _prompted(prompt: str) -> dict[str, str]:
    """Returns the files of the shipped harness `chat/open` with this system prompt."""
    shipped = shipped_harness("chat/open")
    files = {f"{_AGENT}/{path}": content.decode() for path, content in shipped.items()}
    prompts = f"{_AGENT}/agent/prompts.py"
    lines = files[prompts].splitlines(keepends=True)
    if node := _system(files[prompts]):
        assignment = f"SYSTEM = {_quoted(prompt)}\n"
        lines[node.lineno - 1 : node.end_lineno] = [assignment]
    return {**files, prompts: "".join(lines)}


def prompt_in(files: Mapping[str, str]) -> str | None:
    """Returns the system prompt among an agent's files, or None if there is not exactly one.

    It is the text `SYSTEM` of a `prompts.py`, or a whole file called `prompt` or `system`.
    """
    prompts = []
    for path, text in files.items():
        if path.endswith("prompts.py") and (node := _system(text)):
            with suppress(ValueError, SyntaxError):
                prompts.append(str(literal_value(ast.unparse(node.value))))
        elif Path(path).stem.lower() in ("prompt", "system") and not path.endswith(".py"):
            prompts.append(text)
    return prompts[0] if len(prompts) == 1 else None


def _system(source: str) -> ast.Assign | None:
    """Returns the statement of a module that assigns `SYSTEM`, or None."""
    try:
        body = parse_python(source).body
    except SyntaxError:
        return None
    assigned = (node for node in body if isinstance(node, ast.Assign))
    return next((node for node in assigned if getattr(node.targets[0], "id", "") == "SYSTEM"), None)


def _quoted(text: str) -> str:
    """Returns a text as a Python literal, over several lines where it has some: diffs show them."""
    plain = "\\" not in text and '"""' not in text and not text.endswith('"')
    if "\n" in text and plain:
        literal = f'"""\\\n{text}"""'
        with suppress(ValueError, SyntaxError):
            if literal_value(literal) == text:
                return literal
    return repr(text)


def source_of(functions: Mapping[str, Callable[..., Any]]) -> str:
    """Returns the source of a module with the given functions and everything that they use.

    Raises ConfigError if a function's source cannot be read or a value has no literal.
    """
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
            hint="define it in a file or a notebook cell, or give the path of a Python file",
        ) from error
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise ConfigError(
            f"{function!r} has no name, and a file with its source needs one",
            hint="define it with def, not lambda",
        )
    if name in written:
        return
    written[name] = ""  # a function may call itself
    closure = inspect.getclosurevars(function) if inspect.isfunction(function) else None
    used = {**closure.globals, **closure.nonlocals} if closure else {}
    for inner in _inner_names(text) - set(used):
        if inner in getattr(function, "__globals__", {}) and not hasattr(builtins, inner):
            used[inner] = function.__globals__[inner]
    before = {name: written.pop(name)}
    for word, value in used.items():
        _bring(word, value, written, function)
    written.update(before)
    written[name] = text


def _inner_names(text: str) -> set[str]:
    """Returns all names that the source reads, even in nested functions and classes."""
    return {
        node.id
        for node in ast.walk(parse_python(text))
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
        if literal_value(text) == value:
            return text
    except (ValueError, SyntaxError):
        pass
    raise ConfigError(
        f"{user} uses {word}, a {type(value).__name__} that cannot be copied into a file",
        hint=f"create {word} inside {user}, or give the path of a Python file",
    )
