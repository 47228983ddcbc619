"""`docs/reference.md`: every command, setting, exit code and Python name, out of the code itself.

    python -m maintain.reference

The commands are read from their parsers, the rest from public docstrings; `tests/docs` fails where
the page and the code differ. Not covered: the keys of JSON documents.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import meta_agent
from meta_agent.cli import command
from meta_agent.core import errors
from meta_agent.core.setting_table import SETTINGS
from meta_agent.readers.formats import FORMATS

PAGE: Final = Path(__file__).resolve().parents[1] / "docs/reference.md"
PUBLIC: Final = ("optimize", "optimize_async", "Result", "Event", "Outcome")
_HEAD: Final = """# Reference

Written by `python -m maintain.reference`; a test compares it with the code. Every command takes
`--help` and `--json` (one document on stdout, and nothing else there); those that work in a
workspace take `--workspace DIRECTORY`.
"""
_EVERYWHERE: Final = frozenset({"help", "as_json", "workspace"})
_SETTINGS: Final = """## Settings of a run

Each is a flag, a variable (`META_AGENT_` and the field's name in capitals) and a key under
`[evolve]` in the workspace's `meta-agent.toml`; the first of these that says something counts.
`lora_rank`, `precision`, `tokens_per_pass`, `max_staleness`, `train_gpus` and `checkpoint_every`
are keys under `[training]`; `engines`, `gpus_per_engine` and `context_tokens` under `[engine]`.
"""
_FORMATS: Final = """## Formats of rollouts

`meta-agent report --rollouts PATH` reads these, in files and folders, packed or not.
"""
_EXITS: Final = re.compile(r"^\* `(\w+)` +(.+?) +\(exit (\d+)\)$", re.MULTILINE)


def main() -> None:
    """Writes the page."""
    PAGE.write_text(reference(), encoding="utf-8")


def reference() -> str:
    """The whole page."""
    root: Any = command()
    made = [_HEAD, "## Commands\n", *(_command(*one) for one in _commands("meta-agent", root))]
    made += [_SETTINGS, _table("setting", _settings()), "## Exit codes\n", _table("exit", _exits())]
    made += [_FORMATS, _formats()]
    made += ["## Python\n", *map(_python, PUBLIC)]
    return "\n".join(made).rstrip("\n") + "\n"


def _commands(name: str, group: Any) -> Iterator[tuple[str, Any]]:
    for word, one in sorted(group.commands.items()):
        if hasattr(one, "commands"):
            yield from _commands(f"{name} {word}", one)
        else:
            yield f"{name} {word}", one


def _command(name: str, command: Any) -> str:
    shown = [one for one in command.params if one.name not in _EVERYWHERE]
    settings = [one.name for one in shown if _is_setting(one)]
    own = [_parameter(one, command) for one in shown if not _is_setting(one)]
    words = " ".join(str(command.help).split())
    told = [f"### `{name}`\n\n{words}\n"]
    if own:
        told.append(_table("argument", own))
    if settings:
        told.append(f"Settings: {', '.join(f'`{_flag(one)}`' for one in settings)}.\n")
    return "\n".join(told)


def _is_setting(parameter: Any) -> bool:
    known = SETTINGS.get(parameter.name)
    return known is not None and getattr(parameter, "help", None) == known.help


def _parameter(one: Any, command: Any) -> tuple[str, str]:
    if one.param_type_name == "argument":
        return str(one.name).upper(), one.help or ""
    name, words = one.get_help_record(command.context_class(command))
    return name, words


def _settings() -> Iterator[tuple[str, str]]:
    for name, flag in SETTINGS.items():
        yield _flag(name), flag.help


def _flag(setting: str) -> str:
    return (SETTINGS[setting].names or ("--" + setting.replace("_", "-"),))[0]


def _formats() -> str:
    rows = [f"| `{name}` | {one.what} | {one.marks} |" for name, one in FORMATS.items()]
    return "\n".join(["| format | what | recognised by |", "|---|---|---|", *rows, ""])


def _exits() -> Iterator[tuple[str, str]]:
    yield "0", "done"
    yield "1", "what was checked does not hold"
    for name, words, code in _EXITS.findall(errors.__doc__ or ""):
        yield code, f"{words} (`{name}`)"


def _python(name: str) -> str:
    thing = getattr(meta_agent, name)
    signature = inspect.signature(thing)
    rows = [f"### `meta_agent.{name}`\n", "```text", f"{name}{_wrapped(signature)}", ""]
    rows += [(inspect.getdoc(thing) or "").rstrip(), "```\n"]
    return "\n".join(rows)


def _wrapped(signature: inspect.Signature) -> str:
    inner = "".join(f"    {_told(one)},\n" for one in signature.parameters.values())
    told = signature.return_annotation
    after = "" if told in (inspect.Signature.empty, None, "None") else f" -> {told}"
    return f"(\n{inner}){after}"


def _told(one: inspect.Parameter) -> str:
    stars = "**" if one.kind is one.VAR_KEYWORD else ""
    default = "" if one.default is one.empty else f" = {one.default!r}"
    return f"{stars}{one.name}: {one.annotation}{default}"


def _table(first: str, rows: Any) -> str:
    cells = [f"| `{name}` | {words} |" for name, words in rows]
    return "\n".join([f"| {first} | |", "|---|---|", *cells, ""])


if __name__ == "__main__":
    main()
