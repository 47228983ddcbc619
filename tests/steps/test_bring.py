"""Somebody's agent becomes a harness, and what was promoted goes back: real git on both sides."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from meta_agent.composition.bring import Answers, bring, check_harness, create_brought, starts
from meta_agent.core.errors import ConfigError
from meta_agent.core.harness import TRAINING_FOLDER, parse_contract
from meta_agent.core.history import HarnessRepo, adopt_into, adopt_patches
from meta_agent.core.protocols import HarnessTree
from meta_agent.core.resources import shipped_harness

from ..harness._agents import AGENT, opener
from ._brought import FILES, git, promoted, written

COMMAND = Answers(command=("python3", "{harness}/agent.py", "{prompt}"))


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A repository of somebody's, with a hook and settings that would run programs."""
    folder = written(tmp_path / "their agent", FILES)
    git(folder, "init", "-q", "-b", "main")
    (folder / "link").symlink_to("/etc/passwd")
    written(folder, {".gitattributes": "*.py filter=evil\n", ".github/ci.yml": "x\n"})
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "theirs")
    for setting in ("filter.evil.smudge", "filter.evil.clean", "core.fsmonitor", "core.pager"):
        git(folder, "config", setting, f"touch {tmp_path / 'ran'}")
    for name in ("reference-transaction", "post-checkout", "pre-receive", "post-update"):
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'ran'}'\n")
        hook.chmod(0o755)
    return folder


def untouchable(folder: Path) -> dict[str, bytes]:
    """Everything in a working tree, and git's own record of it."""
    kept = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    kept += [folder / ".git" / name for name in ("index", "HEAD", "config")]
    return {str(path): path.read_bytes() for path in kept}


# --- coming in ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_repository_comes_in_as_one_commit_that_says_where_from(
    theirs: Path, tmp_path: Path, form: str
) -> None:
    (theirs / "agent.py").write_text("not committed\n")
    before = git(theirs, "rev-parse", "HEAD")
    source = form.format(theirs)
    brought = bring(source, COMMAND)
    assert brought.files["agent.py"] == AGENT.encode()
    assert sorted(brought.files) == sorted([*FILES, "harness.toml"])
    assert f"Imported-From: {source}" in brought.message
    assert f"Imported-Commit: {before}" in brought.message
    notes = "\n".join(brought.notes)
    assert "link" in notes and ".github/ci.yml (git_path)" in notes
    assert not (tmp_path / "ran").exists()
    assert (theirs / "agent.py").read_text() == "not committed\n"


def test_a_plain_folder_comes_in_without_what_was_made_in_it(tmp_path: Path) -> None:
    folder = written(tmp_path / "agent", {**FILES, ".venv/x.py": "", "__pycache__/a.pyc": ""})
    (folder / "outside").symlink_to("/etc")
    brought = bring(str(folder), COMMAND)
    assert sorted(brought.files) == sorted([*FILES, "harness.toml"])
    assert "Imported-Commit" not in brought.message


@pytest.mark.parametrize("committed", [False, True])
def test_files_of_keys_stay_where_they_are(tmp_path: Path, committed: bool) -> None:
    keys = (".env", "deploy/.env.local", "id_rsa", "certs/server.pem", ".aws/credentials")
    kept = (".env.example", "environment.py", "secrets.py")
    folder = written(tmp_path / "agent", {**FILES, **dict.fromkeys((*keys, *kept), "K=1\n")})
    if committed:
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", "-A", "-f")
        git(folder, "commit", "-q", "-m", "oh no")
    brought = bring(str(folder), COMMAND)
    assert sorted(brought.files) == sorted([*FILES, *kept, "harness.toml"])
    notes = "\n".join(brought.notes)
    assert all(path in notes for path in keys)


def test_the_contract_is_written_from_what_the_files_show(theirs: Path) -> None:
    brought = bring(str(theirs))
    table = tomllib.loads(brought.files["harness.toml"].decode())["harness"]
    assert table["command"] == ["python3", "{harness}/agent.py", "{prompt}"]
    assert (table["editable"], table["protected"]) == (["**"], ["tests/**", "README*"])
    assert any("prompt.md" in note for note in brought.notes)
    contract = parse_contract(HarnessTree("", "", brought.files))
    assert contract.factor_of(["agent.py", "prompt.md"]) == "scaffold"


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        (
            {
                "pyproject.toml": '[project.scripts]\nmend = "mender.cli:main"\n',
                "src/mender/cli.py": "",
            },
            ["python3 -c 'import sys; from mender.cli import main; sys.exit(main())' '{prompt}'"],
        ),
        ({"src/mender/__main__.py": ""}, ["python3 -m mender '{prompt}'"]),
        ({"run.sh": ""}, ["sh '{harness}/run.sh' '{prompt}'"]),
        (
            {"agent.py": "", "main.py": ""},
            ["python3 '{harness}/agent.py' '{prompt}'", "python3 '{harness}/main.py' '{prompt}'"],
        ),
        ({"pyproject.toml": "no toml ["}, []),
    ],
)
def test_ways_to_start_are_found(files: dict[str, str], lines: list[str]) -> None:
    found = starts({path: text.encode() for path, text in files.items()})
    assert [start.line for start in found] == lines


def test_several_ways_to_start_are_a_question(tmp_path: Path) -> None:
    folder = written(tmp_path / "agent", {"agent.py": "", "main.py": ""})
    with pytest.raises(ConfigError, match=r"agent\.py.*main\.py") as caught:
        bring(str(folder))
    assert caught.value.hint and "--command" in caught.value.hint
    brought = bring(str(folder), choose=lambda found: found[1])
    assert b"main.py" in brought.files["harness.toml"]


def test_a_contract_that_is_there_is_kept(tmp_path: Path) -> None:
    toml = (
        '[harness]\nname = "x"\ncommand = ["true"]\neditable = ["a"]\n[factors]\nscaffold = ["a"]\n'
    )
    folder = written(tmp_path / "agent", {"harness.toml": toml, "a": ""})
    assert bring(str(folder)).files["harness.toml"].decode() == toml
    with pytest.raises(ConfigError, match=r"harness\.toml"):
        bring(str(folder), COMMAND)


@pytest.mark.parametrize(
    "source",
    [
        "https://user:secret@example.org/x.git",
        "ssh://example.org/x.git",
        "ext::sh -c true://x",
        "/no/such/folder",
        "file:///no/such/folder",
    ],
)
def test_sources_that_are_not_read(source: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bring(source, COMMAND)
    assert "secret" not in str(caught.value)


def test_what_is_too_large_names_the_way_out(tmp_path: Path) -> None:
    files = {f"docs/{n}.md": "x" * 200_000 for n in range(30)}
    folder = written(tmp_path / "agent", {**FILES, **files})
    with pytest.raises(ConfigError, match=r"docs .*6000000") as caught:
        bring(str(folder), COMMAND)
    assert caught.value.hint and "--leave-out" in caught.value.hint
    lean = Answers(command=COMMAND.command, leave_out=("docs/**",))
    assert sorted(bring(str(folder), lean).files) == sorted([*FILES, "harness.toml"])


# --- the check ----------------------------------------------------------------------------------


def tree_of(repo: HarnessRepo) -> HarnessTree:
    return repo.tree(repo.head())


def test_a_brought_agent_passes_its_check(theirs: Path, tmp_path: Path) -> None:
    repo = create_brought(tmp_path / "repo", str(theirs), COMMAND)
    rows = check_harness(tree_of(repo), opener())
    assert [row.ok for row in rows] == [True] * 4, rows


def test_its_own_check_command_runs_in_the_sandbox(tmp_path: Path) -> None:
    contract = (
        '[harness]\nname = "x"\ncommand = ["python3", "{harness}/agent.py", "{prompt}"]\n'
        'editable = ["agent.py"]\ncheck = ["sh", "-c", "ls; exit 3"]\n'
        '[factors]\nscaffold = ["agent.py"]\n'
    )
    folder = written(tmp_path / "agent", {**FILES, "harness.toml": contract})
    repo = create_brought(tmp_path / "repo", str(folder))
    *_, last = check_harness(tree_of(repo), opener())
    assert not last.ok and "exit 3" in last.detail and "agent.py" in last.detail


# --- going back ---------------------------------------------------------------------------------


def test_a_promoted_edit_becomes_a_branch_on_the_imported_commit(
    theirs: Path, tmp_path: Path
) -> None:
    start = git(theirs, "rev-parse", "HEAD")
    repo = create_brought(tmp_path / "repo", str(theirs), COMMAND)
    promoted(repo, "prompt.md", "Look first.\n")
    before = untouchable(theirs)
    (tmp_path / "ran").unlink(missing_ok=True)  # their own git just ran their own programs
    done = adopt_into(repo, theirs, "better")
    assert not (tmp_path / "ran").exists()
    assert untouchable(theirs) == before
    assert (done.commits, done.base) == (1, start)
    assert git(theirs, "rev-parse", "better~1") == start == git(theirs, "rev-parse", "HEAD")
    assert git(theirs, "diff", "--name-only", "main", "better") == "prompt.md"
    message = git(theirs, "log", "-1", "--format=%B", "better")
    assert message.startswith("feat(scaffold): look first")
    assert "Hypothesis: it helps." in message and "0.40 to 0.60" in message
    with pytest.raises(ConfigError, match="better"):
        adopt_into(repo, theirs, "better")


def test_patches_apply_to_the_original(theirs: Path, tmp_path: Path) -> None:
    repo = create_brought(tmp_path / "repo", str(theirs), COMMAND)
    promoted(repo, "prompt.md", "Look first.\n")
    done = adopt_patches(repo, tmp_path / "patches")
    (patch,) = sorted((tmp_path / "patches").iterdir())
    assert done.commits == 1 and patch.name == "0001-feat-scaffold-look-first.patch"
    for setting in ("filter.evil.smudge", "filter.evil.clean", "core.fsmonitor"):
        git(theirs, "config", "--unset", setting)
    for hook in (theirs / ".git" / "hooks").iterdir():
        hook.unlink()
    git(theirs, "am", "-q", str(patch))
    assert (theirs / "prompt.md").read_text() == "Look first.\n"


def test_who_has_no_repository_gets_the_files(tmp_path: Path) -> None:
    repo = create_brought(tmp_path / "repo", str(written(tmp_path / "theirs", FILES)), COMMAND)
    promoted(repo, "prompt.md", "Look first.\n")
    done = adopt_into(repo, tmp_path / "new" / "agent", "better")
    assert done.commits == 1 and done.tip == repo.head()
    adopted = {name: (tmp_path / "new" / "agent" / name).read_bytes() for name in FILES}
    assert adopted == {name: repo.tree(repo.head()).files[name] for name in FILES}
    assert adopted["prompt.md"] == b"Look first.\n"
    for taken in (tmp_path / "new" / "agent", tmp_path / "new" / "agent" / "prompt.md"):
        with pytest.raises(ConfigError, match=re.escape(str(taken))):
            adopt_into(repo, taken, "better")


def test_what_cannot_be_handed_back_says_why(theirs: Path, tmp_path: Path) -> None:
    repo = create_brought(tmp_path / "repo", str(theirs), COMMAND)
    with pytest.raises(ConfigError, match="main"):
        adopt_patches(repo, tmp_path / "patches")
    promoted(repo, "prompt.md", "Look first.\n")
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path))):
        adopt_into(repo, tmp_path, "better")
    with pytest.raises(ConfigError, match=r"\.\./x"):
        adopt_into(repo, theirs, "../x")
    other = written(tmp_path / "other", {"a": "b"})
    git(other, "init", "-q")
    with pytest.raises(ConfigError, match=re.escape(str(other))):
        adopt_into(repo, other, "better")
    plain = create_brought(tmp_path / "repo2", str(written(tmp_path / "p", FILES)), COMMAND)
    promoted(plain, "prompt.md", "Look first.\n")
    with pytest.raises(ConfigError):
        adopt_into(plain, theirs, "better")


def test_what_training_needs_is_written_beside_the_agent(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "mine", {"agent.py": "print()", f"{TRAINING_FOLDER}/reward.py": "# mine"}
    )
    shipped = shipped_harness("chat/open")
    files = bring(str(folder), COMMAND, training=shipped).files
    contract = parse_contract(HarnessTree("", "", files))
    assert contract.factor_of(["agent.py"]) == "scaffold"
    assert contract.factor_of([f"{TRAINING_FOLDER}/recipe.toml"]) == "recipe"
    assert files[f"{TRAINING_FOLDER}/recipe.toml"] == shipped["agent/recipe.toml"]
    assert files[f"{TRAINING_FOLDER}/reward.py"] == b"# mine"


def test_a_recipe_of_its_own_is_left_as_it_is(tmp_path: Path) -> None:
    toml = '[harness]\nname = "a"\ncommand = ["a"]\neditable = ["**"]\n'
    toml += '[factors]\nrecipe = ["recipe.toml"]\n'
    folder = written(
        tmp_path / "mine", {"harness.toml": toml, "recipe.toml": "learning_rate = 1e-6\n"}
    )
    brought = bring(str(folder), training=shipped_harness("chat/open"))
    assert brought.files.keys() == {"harness.toml", "recipe.toml"}
