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
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON
from meta_agent.domains.formats._scripts import commands_of, reversed_patch
from meta_agent.domains.formats._swe_row import OfficialRun, SourceSpec
from meta_agent.domains.formats.rows import Fields

CORE: Final = ("instance_id", "repo", "base_commit", "problem_statement", "FAIL_TO_PASS")
KNOWN_SETS: Final = (
    "SWE-bench 4 and 5, SWE-Gym, SWE-smith, SWE-rebench, SWE-rebench V2, R2E-Gym, "
    "and what `meta-agent tasks mine` and `synth` write"
)
_TESTBED: Final = "/testbed"
_CONDA: Final = "source /opt/miniconda3/bin/activate\nconda activate testbed"
_CONDA_PYTHON: Final = "/opt/miniconda3/envs/testbed/bin/python"
_NOT_TESTS: Final = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml")
_NOT_TESTS_EITHER: Final = (".yaml", ".toml")
_PYTEST: Final = ("pytest -rA", "parse_log_pytest")
_DJANGO: Final = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"
_COMMANDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
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
)
_REBENCH_PYTEST: Final = "pytest --no-header -rA --tb=line --color=no -p no:cacheprovider"
_SMITH_PYTEST: Final = "pytest --disable-warnings --color=no --tb=no --verbose"


@dataclass(frozen=True, slots=True)
class Particulars:
    """What a row says beyond the fields that all sets share."""

    dialect: str
    image: str | None
    source: SourceSpec | None = None
    run: OfficialRun | None = None
    patch: str | None = None


def particulars(fields: Fields, tests: tuple[str, ...]) -> Particulars:
    """Returns what a row says by the rules of its set. `tests` is its FAIL_TO_PASS."""
    return _SETS[dialect_of(fields)](fields, tests)


def dialect_of(fields: Fields) -> str:
    """Returns which set a row is from. Raises `ConfigError` for an unknown set."""
    row = fields.row
    if "fix_patch" in row and "org" in row:
        raise _unknown(fields, "this is a Multi-SWE-bench row, whose images run their own scripts")
    if sum(name in row for name in CORE) < len(CORE) - 2:
        missing = ", ".join(name for name in CORE if name not in row)
        raise _unknown(fields, f"this is no repository task: it has no {missing}")
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


def _plain(fields: Fields, tests: tuple[str, ...]) -> Particulars:
    del tests
    return Particulars("swe-bench", _image(fields), patch=fields.optional_text("patch"))


def _swe_bench_4(fields: Fields, tests: tuple[str, ...]) -> Particulars:
    image_id = fields.text("instance_id").lower().replace("__", "_1776_")
    image = _image(fields) or f"swebench/sweb.eval.x86_64.{image_id}:latest"
    return _by_repository("swe-bench-4", image, fields, tests)


def _swe_gym(fields: Fields, tests: tuple[str, ...]) -> Particulars:
    image_id = fields.text("instance_id").lower().replace("__", "_s_")
    image = _image(fields) or f"xingyaoww/sweb.eval.x86_64.{image_id}:latest"
    return _by_repository("swe-gym", image, fields, tests)


def _by_repository(dialect: str, image: str, fields: Fields, tests: tuple[str, ...]) -> Particulars:
    del tests
    repo = fields.text("repo")
    command, parser = _COMMANDS.get(repo, _PYTEST)
    if repo == "django/django" and fields.text("version", "") == "1.9":
        command = "./tests/runtests.py --verbosity 2"
    files = test_files(fields.text("test_patch", ""))
    if repo == "django/django":
        files = tuple(_dotted(name) for name in files)
    run = OfficialRun(" ".join((command, *files)), parser, _CONDA)
    return Particulars(dialect, image, _testbed(), run, fields.optional_text("patch"))


def test_files(test_patch: str) -> tuple[str, ...]:
    """Returns the files that a test patch touches, without data files."""
    files = re.findall(r"^diff --git a/.* b/(.*)$", test_patch, re.MULTILINE)
    return tuple(name for name in files if not name.endswith(_NOT_TESTS + _NOT_TESTS_EITHER))


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removeprefix("tests/").replace("/", ".")


def _testbed(**changes: tuple[str, ...] | str) -> SourceSpec:
    return SourceSpec(image_path=_TESTBED, python=_CONDA_PYTHON, **changes)  # type: ignore[arg-type]


def _swe_bench_5(fields: Fields, tests: tuple[str, ...]) -> Particulars:
    del tests
    script = commands_of(fields.text("eval_script"))
    if script is None:
        raise fields.error("eval_script", "a script with the two marks of the test output")
    kind = fields.text("eval_type")
    if kind not in ("pass_and_fail", "fail_only"):
        raise fields.error("eval_type", "pass_and_fail or fail_only")
    run = OfficialRun(script.command, fields.text("log_parser"), script.prelude)
    patch = fields.optional_text("patch")
    return Particulars("swe-bench-5", fields.text("image"), _testbed(), run, patch)


def _swe_smith(fields: Fields, tests: tuple[str, ...]) -> Particulars:
    bug = fields.text("patch")
    files = tuple(sorted({test.split("::", 1)[0] for test in tests}))
    source = _testbed(setup_patch=bug, hidden=files)
    run = OfficialRun(f"{_SMITH_PYTEST} {' '.join(files)}", "parse_log_pytest_v2", _CONDA)
    return Particulars("swe-smith", fields.text("image_name"), source, run, reversed_patch(bug))


def _swe_rebench(fields: Fields, tests: tuple[str, ...]) -> Particulars:
    del tests
    config = _config(fields)
    image = fields.optional_text("docker_image", "image_name", "image")
    if image is None:
        raise fields.error("docker_image", "the name of an image")
    files = " ".join(test_files(fields.text("test_patch", "")))
    command = f"{_test_command(fields, config, _REBENCH_PYTEST)} {files}".strip()
    run = OfficialRun(command, _parser(fields, config, "parse_log_pytest"), _CONDA)
    return Particulars("swe-rebench", image, _testbed(), run, fields.optional_text("patch"))


def _swe_rebench_v2(fields: Fields, tests: tuple[str, ...]) -> Particulars:
    del tests
    config = _config(fields)
    command, parser = _test_command(fields, config, None), _parser(fields, config, None)
    place = f"/{fields.text('repo').rsplit('/', 1)[-1]}"
    run = OfficialRun(command, parser, only_passed=True, always=True)
    source, patch = SourceSpec(image_path=place), fields.optional_text("patch")
    return Particulars("swe-rebench-v2", fields.text("image_name"), source, run, patch)


def _config(fields: Fields) -> Mapping[str, JSON]:
    """Returns `install_config`, which is an object or JSON text of one."""
    value = fields.row["install_config"]
    if isinstance(value, str):
        try:
            value = document(value)
        except ValueError as problem:
            raise fields.error("install_config", "an object (or a JSON string of one)") from problem
    if not isinstance(value, dict):
        raise fields.error("install_config", "an object (or a JSON string of one)")
    return value


def _test_command(fields: Fields, config: Mapping[str, JSON], default: str | None) -> str:
    """Returns the test command: one line, or several that run one after the other."""
    value = config.get("test_cmd") or default
    lines = value if isinstance(value, list) else [value]
    commands = [line for line in lines if isinstance(line, str) and line.strip()]
    if not commands or len(commands) < len(lines):
        raise fields.error("install_config", "test_cmd, a command or a list of commands")
    return "\n".join(commands)


def _parser(fields: Fields, config: Mapping[str, JSON], default: str | None) -> str:
    value = config.get("log_parser") or default
    if not isinstance(value, str):
        raise fields.error("install_config", "log_parser, the name of a parser")
    return value


_SETS: Final[Mapping[str, Callable[[Fields, tuple[str, ...]], Particulars]]] = MappingProxyType(
    {
        "swe-bench": _plain,
        "swe-bench-4": _swe_bench_4,
        "swe-bench-5": _swe_bench_5,
        "swe-gym": _swe_gym,
        "swe-smith": _swe_smith,
        "swe-rebench": _swe_rebench,
        "swe-rebench-v2": _swe_rebench_v2,
    }
)
