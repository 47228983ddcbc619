"""What sets of repository tasks have of their own: how to tell them, and what each field means.

| set | image | tests | how they are run | `patch` |
|---|---|---|---|---|
| SWE-bench 4 | by its id | JSON strings | a command by repository | the fix |
| SWE-bench 5 | `image` | JSON strings | `eval_script`, `log_parser`, `eval_type` | the fix |
| SWE-Gym | by its id | lists | as SWE-bench 4 | the fix |
| SWE-smith | `image_name` | lists | pytest on the files of FAIL_TO_PASS | the *bug* |
| SWE-rebench | `docker_image` | lists | `install_config`: `test_cmd`, `log_parser` | the fix |
| SWE-rebench V2 | `image_name` | lists | the same; workdir `/<repo>` | the fix |

Sources: swebench 5.0.2 (`types.py`, `harness/utils.py: make_test_spec`) and 4.1.0
(`harness/constants/python.py`: test commands, `harness/test_spec`: image names, test files);
swesmith 0.0.9 (`profiles/base.py`, `harness/gather.py`: the branch of a task is the bug, and then
without the files of FAIL_TO_PASS); SWE-rebench's fork of SWE-bench (`test_spec/python.py`) and a
row of nebius/SWE-rebench; SWE-rebench-V2-OpenRewardEnv (`server.py`, `log_parsers.py`);
env-swe-gym (`swegym.py`: fields, image names).

Does not cover: Multi-SWE-bench (its images run their own scripts), recognised and refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON
from meta_agent.domains.formats._swe_row import OfficialRun, SourceSpec
from meta_agent.domains.formats.rows import Fields

CORE: Final = ("instance_id", "repo", "base_commit", "problem_statement", "FAIL_TO_PASS")
KNOWN_SETS: Final = (
    "SWE-bench 4 and 5, SWE-Gym, SWE-smith, SWE-rebench, SWE-rebench V2, "
    "and what `meta-agent tasks make` writes"
)
_CONDA: Final = "source /opt/miniconda3/bin/activate\nconda activate testbed"
_CONDA_PYTHON: Final = "/opt/miniconda3/envs/testbed/bin/python"
_NOT_TESTS: Final = (
    *(".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml"),
)
_PYTEST: Final = ("pytest -rA", "parse_log_pytest")
_DJANGO: Final = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"
_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "django/django": (_DJANGO, "parse_log_django"),
    "sympy/sympy": (
        "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
        "parse_log_sympy",
    ),
    "sphinx-doc/sphinx": ("tox --current-env -epy39 -v --", "parse_log_sphinx"),
    "astropy/astropy": (
        "pytest -rA -vv -o console_output_style=classic --tb=no",
        "parse_log_astropy",
    ),
    "mwaskom/seaborn": ("pytest --no-header -rA", "parse_log_seaborn"),
    "matplotlib/matplotlib": ("pytest -rA", "parse_log_matplotlib"),
    "psf/requests": ("pytest -rA", "parse_log_requests"),
    "pylint-dev/pylint": ("pytest -rA", "parse_log_pylint"),
    "pydicom/pydicom": ("pytest -rA", "parse_log_pydicom"),
    "scikit-learn/scikit-learn": ("pytest -rA", "parse_log_scikit"),
}
_REBENCH_PYTEST: Final = "pytest --no-header -rA --tb=line --color=no -p no:cacheprovider"
_SMITH_PYTEST: Final = "pytest --disable-warnings --color=no --tb=no --verbose"
# Lines that change only the shell's own state, and lines that print a mark.
_SETS_UP: Final = re.compile(r"\s*(?:source|\.|conda activate|export|unset|cd|ulimit|nvm use)\s")
_PRINTS: Final = re.compile(r"\s*(?::|echo)")
_OPPOSITES: Final = {
    "new file mode ": "deleted file mode ",
    "deleted file mode ": "new file mode ",
    "rename from ": "rename to ",
    "rename to ": "rename from ",
}
_HUNK: Final = re.compile(r"@@ -(\d+(?:,(\d+))?) \+(\d+(?:,(\d+))?) @@(.*)")

Own = dict[str, Any]
"""The fields of a `SweRow` that a set fills by rules of its own."""


def own_fields(fields: Fields) -> Own:
    """Returns the fields of a repository task that depend on its row's data set, such as its image.

    Raises `ConfigError` for an unknown set, or if a field that the set needs is missing.
    """
    dialect = dialect_of(fields)
    usual = {"dialect": dialect, "image": _image(fields), "patch": fields.optional_text("patch")}
    return {**usual, "source": None, "run": None, **_SETS[dialect](fields)}


def dialect_of(fields: Fields) -> str:
    """Returns the data set of a row, such as swe-smith. Raises ConfigError if the row fits none."""
    row = fields.row
    if "fix_patch" in row and "org" in row:
        raise _unknown(fields, "this is a Multi-SWE-bench row; its test scripts are not supported")
    if sum(name in row for name in CORE) < len(CORE) - 2:
        missing = ", ".join(name for name in CORE if name not in row)
        raise _unknown(fields, f"this row is no repository task: it has no {missing}")
    if "eval_script" in row:
        return "swe-bench-5"
    if "install_config" in row:
        return "swe-rebench-v2" if "language" in row else "swe-rebench"
    if "swesmith" in str(row.get("image_name", "")) or str(row.get("repo")).startswith("swesmith/"):
        return "swe-smith"
    if "source" in row or not ("environment_setup_commit" in row or "version" in row):
        return "swe-bench"
    listed = isinstance(row.get("FAIL_TO_PASS"), list) and "environment_setup_commit" not in row
    return "swe-gym" if listed else "swe-bench-4"


def _unknown(fields: Fields, why: str) -> ConfigError:
    return ConfigError(
        f"{fields.path}:{fields.line}: {why}", hint=f"sets that can be read: {KNOWN_SETS}"
    )


def _image(fields: Fields) -> str | None:
    return fields.optional_text("image", "image_name", "docker_image")


def _by_repository(fields: Fields, registry: str, separator: str) -> Own:
    repo, image_id = fields.text("repo"), fields.text("instance_id").lower()
    image = f"{registry}/sweb.eval.x86_64.{image_id.replace('__', separator)}:latest"
    command, parser = _COMMANDS.get(repo, _PYTEST)
    if repo == "django/django" and fields.text("version", "") == "1.9":
        command = "./tests/runtests.py --verbosity 2"
    files = test_files(fields.text("test_patch", ""))
    if repo == "django/django":
        files = tuple(
            name.removesuffix(".py").removeprefix("tests/").replace("/", ".") for name in files
        )
    run = OfficialRun(" ".join((command, *files)), parser, _CONDA)
    return {"image": _image(fields) or image, "source": _testbed(), "run": run}


def test_files(test_patch: str) -> tuple[str, ...]:
    """Returns the files that a test patch touches, without data files."""
    files = re.findall(r"^diff --git a/.* b/(.*)$", test_patch, re.MULTILINE)
    return tuple(name for name in files if not name.endswith(_NOT_TESTS))


def _testbed(**changes: Any) -> SourceSpec:
    return SourceSpec(image_path="/testbed", python=_CONDA_PYTHON, **changes)


def _swe_bench_5(fields: Fields) -> Own:
    run = commands_of(fields.text("eval_script"))
    if run is None:
        raise fields.need(
            "eval_script", "a script that marks where the test output begins and ends"
        )
    if fields.text("eval_type") not in ("pass_and_fail", "fail_only"):
        raise fields.need("eval_type", "pass_and_fail or fail_only")
    run = replace(run, parser=fields.text("log_parser"))
    return {"image": fields.text("image"), "source": _testbed(), "run": run}


def commands_of(script: str) -> OfficialRun | None:
    """Returns the test command of an evaluation script, with the lines that set up its environment.

    Lines that reset tests, apply the test patch or install the package are left out. Returns None
    if the script has no lines `>>>>> Start Test Output` and `>>>>> End Test Output`.
    """
    lines = script.split("\n")
    # A mark inside a test patch begins with the sign of the diff.
    start, end = (
        next((n for n, text in enumerate(lines) if mark in text and _PRINTS.match(text)), -1)
        for mark in (">>>>> Start Test Output", ">>>>> End Test Output")
    )
    if start < 0 or end <= start + 1:
        return None
    prelude = [line for line in lines[:start] if _SETS_UP.match(line)]
    command = "\n".join(lines[start + 1 : end]).strip()
    return OfficialRun(command, "", "\n".join(prelude))


def _swe_smith(fields: Fields) -> Own:
    """Returns the fields of a row whose `patch` is the bug. Its fix is the same diff reversed."""
    bug = fields.text("patch")
    files = tuple(sorted({test.split("::", 1)[0] for test in fields.texts("FAIL_TO_PASS")}))
    run = OfficialRun(f"{_SMITH_PYTEST} {' '.join(files)}", "parse_log_pytest_v2", _CONDA)
    return {
        "image": fields.text("image_name"),
        "source": _testbed(setup_patch=bug, hidden=files),
        "run": run,
        "patch": reversed_patch(bug),
    }


def reversed_patch(text: str) -> str:
    """Returns the diff that undoes the diff `text`. Its hunk headers must count lines correctly."""
    turned: list[str] = []
    old = new = 0
    for line in text.split("\n"):
        hunk = _HUNK.match(line)
        if old > 0 or new > 0:
            kind = line[:1]
            old, new = old - (kind in ("-", " ", "")), new - (kind in ("+", " ", ""))
            turned.append({"-": "+", "+": "-"}.get(kind, kind) + line[1:])
        elif hunk:
            old, new = int(hunk[2] or 1), int(hunk[4] or 1)
            turned.append(f"@@ -{hunk[3]} +{hunk[1]} @@{hunk[5]}")
        elif line.startswith("+++ ") and turned[-1:] and turned[-1].startswith("--- "):
            before = turned.pop()[4:]
            turned.append(f"--- {_moved(line[4:], 'b/', 'a/')}")
            turned.append(f"+++ {_moved(before, 'a/', 'b/')}")
        else:
            mark = next(filter(line.startswith, _OPPOSITES), "")
            turned.append(_OPPOSITES.get(mark, "") + line.removeprefix(mark))
    return "\n".join(turned)


def _moved(name: str, prefix: str, other: str) -> str:
    return name if name.startswith("/dev/null") else other + name.removeprefix(prefix)


def _swe_rebench(fields: Fields) -> Own:
    config = _config(fields)
    if not (image := fields.optional_text("docker_image", "image_name", "image")):
        raise fields.need("docker_image", "the name of an image")
    files = " ".join(test_files(fields.text("test_patch", "")))
    command = f"{_test_command(fields, config, _REBENCH_PYTEST)} {files}".strip()
    run = OfficialRun(command, _parser(fields, config, "parse_log_pytest"), _CONDA)
    return {"image": image, "source": _testbed(), "run": run}


def _swe_rebench_v2(fields: Fields) -> Own:
    config = _config(fields)
    command, parser = _test_command(fields, config, None), _parser(fields, config, None)
    return {
        "image": fields.text("image_name"),
        "source": SourceSpec(image_path=f"/{fields.text('repo').rsplit('/', 1)[-1]}"),
        "run": OfficialRun(command, parser, only_passed=True, always=True),
    }


def _config(fields: Fields) -> Mapping[str, JSON]:
    """Returns `install_config`, which is an object or JSON text of one."""
    wish = "an object (or a JSON string of one)"
    value = fields.json("install_config", wish)
    if not isinstance(value, dict):
        raise fields.need("install_config", wish)
    return value


def _test_command(fields: Fields, config: Mapping[str, JSON], default: str | None) -> str:
    """Returns the test command: one line, or several that run one after the other."""
    value = config.get("test_cmd") or default
    lines = value if isinstance(value, list) else [value]
    commands = [line for line in lines if isinstance(line, str) and line.strip()]
    if not commands or len(commands) < len(lines):
        raise fields.need("install_config", "test_cmd, a command or a list of commands")
    return "\n".join(commands)


def _parser(fields: Fields, config: Mapping[str, JSON], default: str | None) -> str:
    value = config.get("log_parser") or default
    if not isinstance(value, str):
        raise fields.need("install_config", "log_parser, the name of a parser")
    return value


_SETS: Final[Mapping[str, Callable[[Fields], Own]]] = {
    "swe-bench": lambda fields: {},
    "swe-bench-4": lambda fields: _by_repository(fields, "swebench", "_1776_"),
    "swe-bench-5": _swe_bench_5,
    "swe-gym": lambda fields: _by_repository(fields, "xingyaoww", "_s_"),
    "swe-smith": _swe_smith,
    "swe-rebench": _swe_rebench,
    "swe-rebench-v2": _swe_rebench_v2,
}
