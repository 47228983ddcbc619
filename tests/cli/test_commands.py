"""The command line from outside: documents, sentences, exit codes. Real processes throughout."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

from meta_agent import __version__, reports
from meta_agent.cli import _app
from meta_agent.core.errors import BudgetError, Interrupted
from meta_agent.core.history import HarnessRepo
from meta_agent.core.ledger import Ledger
from meta_agent.core.workspace import init_workspace

from ..view._sample import write_sample
from ._command import Done, Runner

COMMANDS = ["evolve", "init", "train", "report", "status", "log", "diff", "why"]
COMMANDS += ["verify", "doctor", "approve", "revert"]
HEAVY = ("torch", "rich", "pydantic", "jinja2", "git", "docker", "scipy", "numpy", "sqlite3")


def in_a_process(code: str, *arguments: str, cwd: Path, **variables: str) -> Done:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a recorded run; its one candidate with a diff is a real commit."""
    root = tmp_path_factory.mktemp("cli") / "w"
    files = {"harness.toml": b"[harness]\n", "swe/reward.py": b"x = 1\n"}

    def create(path: Path) -> None:
        HarnessRepo.create(path, files, "feat: the first harness")

    init_workspace(root, domain="swe", create_repo=create)
    write_sample(root / "ledger.sqlite")
    return root


def refused(done: Done, code: int, *parts: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, meta_agent.cli\n"
        "try: meta_agent.cli.main()\n"
        f"finally: print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = in_a_process(code, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"
    for command in (*COMMANDS, "tasks", "sandbox"):
        assert f"\n  {command} " in done.stdout


def test_every_command_takes_a_workspace_and_json(meta_agent: Runner, tmp_path: Path) -> None:
    for command in (*COMMANDS, "tasks check", "sandbox build", "skills", "doctor"):
        shown = meta_agent(*command.split(), "--help", cwd=tmp_path).stdout
        assert "--workspace" in shown and "--json" in shown, command
    assert meta_agent("--version", cwd=tmp_path).stdout == f"meta-agent {__version__}\n"


def test_data_commands_print_one_document_and_a_screen_for_people(
    meta_agent: Runner, workspace: Path
) -> None:
    for command in ("report", "status", "log", "why g0/c0"):
        done = meta_agent(*command.split(), "--json", cwd=workspace)
        assert done.document["schema_version"] == 1 and done.stderr == ""
        done = meta_agent(*command.split(), "--workspace", str(workspace), cwd=workspace.parent)
        # Some are about one run, and leave its name out.
        name = "g0/c0" if command == "log" or "g0/c0" in command else "r1"
        assert done.returncode == 0 and name in done.stdout and "\x1b" not in done.stdout, command


def test_the_first_screen_names_the_invalid_branch_and_the_command_that_says_why(
    meta_agent: Runner, workspace: Path
) -> None:
    elsewhere = workspace.parent
    done = meta_agent("status", "--workspace", str(workspace), "--json", cwd=elsewhere)
    (told,) = [one for one in done.document["sentences"] if one["about"] == "why not"]
    assert "g0/c1" in told["words"] and "INVALID" in told["words"]
    program, *command = shlex.split(told["command"])
    assert program == "meta-agent"
    why = meta_agent(*command, cwd=elsewhere).stdout.splitlines()
    assert "g0/c1" in why[0] and "INVALID" in why[0] and "31 %" in why[0]


def test_a_dead_run_is_not_called_running(
    meta_agent: Runner, tmp_path: Path, workspace: Path
) -> None:
    root = tmp_path / "w"
    init_workspace(root, domain="swe", create_repo=lambda path: path.mkdir())
    write_sample(root / "ledger.sqlite", finished=False)
    assert meta_agent("status", "--json", cwd=root).document["live"] is False
    with Ledger.open(root / "ledger.sqlite"):
        alive = meta_agent("status", "--json", cwd=root).document
    assert (alive["live"], alive["owner"]) == (True, str(os.getpid()))


def test_diff_comes_from_the_repository(meta_agent: Runner, tmp_path: Path) -> None:
    root = tmp_path / "w"
    files = {"harness.toml": b"[harness]\n", "swe/reward.py": b"x = 1\n"}
    init_workspace(
        root, domain="swe", create_repo=lambda path: HarnessRepo.create(path, files, "feat: first")
    )
    changed = tmp_path / "changed"
    after = HarnessRepo.create(changed, {**files, "swe/reward.py": b"x = 2\n"}, "feat: second")
    objects = Path(".git", "objects")
    shutil.copytree(changed / objects, root / "harness_repo" / objects, dirs_exist_ok=True)
    base, commit = HarnessRepo(root / "harness_repo").head(), after.head()
    with Ledger.open(root / "ledger.sqlite") as ledger:
        ledger.start_run("r1", {}, config_hash="h")
        row = {"id": "r1/g0/c0", "base": base, "commit": commit}
        ledger.once("r1/g0/c0", "candidate", {}, lambda: row)
    done = meta_agent("diff", "g0/c0", "--json", cwd=root).document
    assert "-x = 1\n+x = 2\n" in done["diff"]
    assert "+x = 2" in meta_agent("diff", "g0/c0", cwd=root).stdout


def test_dry_run_shows_every_setting_with_its_origin_and_starts_nothing(
    meta_agent: Runner, tmp_path: Path
) -> None:
    done = meta_agent("evolve", "--dry-run", "--seed", "3", "--json", cwd=tmp_path)
    plan = done.document
    assert plan["config"]["seed"] == 3
    assert plan["config"]["origin"]["seed"] == "command line"
    assert list(tmp_path.iterdir()) == []
    assert "command line" in meta_agent("evolve", "--dry-run", "--seed", "3", cwd=tmp_path).stdout


def test_init_makes_a_workspace_that_status_understands(meta_agent: Runner, tmp_path: Path) -> None:
    made = meta_agent("init", "--json", cwd=tmp_path).document
    assert made["workspace"] == str(tmp_path / "meta-agent-workspace")
    assert Path(made["harness_repo"], "harness.toml").is_file()
    refused(meta_agent("init", "--domain", "math", cwd=tmp_path), 2, "swe")


def test_a_corrupt_workspace_is_a_sentence(meta_agent: Runner, tmp_path: Path) -> None:
    init_workspace(tmp_path / "w", domain="swe", create_repo=lambda path: path.mkdir())
    (tmp_path / "w" / "ledger.sqlite").write_bytes(b"junk" * 1000)
    refused(meta_agent("status", cwd=tmp_path / "w"), 5, "ledger.sqlite", "hint: ")


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(reports, "reduce", fail)


@pytest.mark.parametrize(
    ("error", "code", "part"),
    [
        (BudgetError("over", hint="less"), 4, "hint: less"),
        (KeyboardInterrupt(), 130, ""),
        (Interrupted(), 130, ": meta-agent status"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_ending_has_its_exit_code(
    meta_agent: Runner,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    part: str,
) -> None:
    failing(monkeypatch, error)
    refused(meta_agent("status", cwd=workspace), code, part)


def test_a_command_that_may_hold_a_key_is_not_repeated() -> None:
    assert _app._again(["train", "--seed", "1 2"]).endswith(": meta-agent train --seed '1 2'")
    assert "secret" not in _app._again(["train", "--notify=http://x/secret"])


def test_a_bug_leaves_a_report_for_maintainers(
    meta_agent: Runner, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, ZeroDivisionError("x"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = meta_agent("status", cwd=workspace)
    refused(done, 101, "ZeroDivisionError: x")
    (kept,) = tmp_path.glob("meta-agent-bug-*.txt")
    assert str(kept) in done.stderr
    assert "ZeroDivisionError: x" in kept.read_text()
    assert "Traceback" in kept.read_text()


STRUCK = """
import os, signal, sys
class Strikes:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Strikes())
sys.argv[0] = "meta-agent"
{entry}
main()
"""


@pytest.mark.parametrize("name", ["typer", "pydantic"])
def test_ctrl_c_while_modules_load_is_quiet(tmp_path: Path, name: str) -> None:
    """As the installed command begins: by its entry point."""
    scripts = tomllib.loads(Path("pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["meta-agent"].partition(":")
    entry = f"from {module} import {function}"
    done = in_a_process(STRUCK.format(name=name, entry=entry), "evolve", "--dry-run", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


NOISY = """
import os, sys, types, subprocess
import meta_agent.cli as cli
from meta_agent.reports import RunState
def evolve(config, display, stop):
    display.begin(["here we go"])
    print("a stray print"); os.system("echo a child process"); os.write(1, b"a C library\\n")
    display.phase("train", "g0/c0")
    return RunState("told")
sys.modules["meta_agent.composition.evolve"] = types.SimpleNamespace(evolve=evolve)
cli.main()
"""


def test_evolve_json_is_one_document_whatever_else_writes(tmp_path: Path) -> None:
    done = in_a_process(NOISY, "evolve", "--json", cwd=tmp_path)
    assert done.document["run"] == "told"
    for part in ("here we go", "a stray print", "a child process", "a C library"):
        assert part in done.stderr


def test_a_closed_pipe_ends_without_a_word(workspace: Path) -> None:
    log = [sys.executable, "-m", "meta_agent", "log"]
    reader, writer = os.pipe()
    os.close(reader)  # like `| head` that has seen enough
    done = subprocess.run(log, cwd=workspace, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
