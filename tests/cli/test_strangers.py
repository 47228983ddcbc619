"""A workspace that a stranger prepared: no command carries out what its git settings name.

A command may refuse the workspace or answer. Only the mark counts, which a program would leave.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ._command import ANYWHERE, Runner
from ._evolved import Evolved

COMMANDS = (
    *("diff v1", "diff v0 v1", "log --graph", "status", "why g0/c0"),
    *("report --html page.html", "verify main", "why --transcript", "approve --json", "doctor"),
    *("doctor --harness", "adopt --patches out", "adopt --into .", "revert g0/c0"),
    *("evolve --policy nano --dry-run",),
)
SETTINGS = (
    *("diff.x.textconv", "diff.x.command", "diff.external", "merge.x.driver", "core.fsmonitor"),
    *("filter.x.smudge", "filter.x.clean", "filter.x.process", "core.hooksPath", "alias.blame"),
    *("core.pager", "pager.blame", "core.editor", "sequence.editor", "core.sshCommand"),
    *("core.askPass", "credential.helper", "core.alternateRefsCommand", "gpg.program"),
)


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Evolved(tmp_path_factory.mktemp("evolved") / "w").root


def prepare(evolved: Path, root: Path, *keys: str) -> Path:
    """A copy whose settings name a program, which leaves the mark that is returned."""
    shutil.copytree(evolved, root, symlinks=True)
    mark, hooks = root.parent / "mark", root.parent / "hooks"
    program = f"touch {mark}; cat"
    hooks.mkdir()
    for name in ("reference-transaction", "post-checkout", "post-index-change", "pre-commit"):
        (hooks / name).write_text(f"#!/bin/sh\n{program}\n")
        (hooks / name).chmod(0o755)
    for key in keys:
        value = {"core.hooksPath": str(hooks), "alias.blame": f"!{program}"}.get(key, program)
        git(root / "harness_repo", "config", key, value)
    (root / "harness_repo/.gitattributes").write_text("* diff=x filter=x merge=x\n")
    return mark


def git(folder: Path, *argv: str) -> None:
    subprocess.run(["git", *argv], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_what_a_setting_names(
    evolved: Path, tmp_path: Path, meta_agent: Runner, command: str
) -> None:
    root = tmp_path / "w"
    mark = prepare(evolved, root, *SETTINGS)
    done = meta_agent(*command.split(), cwd=root, **ANYWHERE)
    assert "Usage:" not in done.stderr
    assert not mark.exists()


@pytest.mark.parametrize("setting", SETTINGS)
def test_diff_obeys_no_setting_alone(
    evolved: Path, tmp_path: Path, meta_agent: Runner, setting: str
) -> None:
    root = tmp_path / "w"
    mark = prepare(evolved, root, setting)
    done = meta_agent("diff", "v1", cwd=root)
    assert (done.returncode, mark.exists()) == (2, False)
    assert setting.lower() in done.stderr.lower().replace("\n", "")


def test_an_ordinary_git_runs_the_text_converter(evolved: Path, tmp_path: Path) -> None:
    mark = prepare(evolved, tmp_path / "w", "diff.x.textconv")
    git(tmp_path / "w/harness_repo", "blame", "swe/agent.py")
    assert mark.exists()
