"""The harness's history by names: diff, revert, completion; a real repository."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.history import HarnessRepo
from meta_agent.core.ledger import Ledger
from meta_agent.core.workspace import init_workspace

from .conftest import Runner

FILES = {"harness.toml": b"[harness]\n", "swe/agent.py": b"A = 1\n\n\nB = 1\n\n\nC = 1\n"}
LONG = "; " + " ".join(["pass;"] * 40)
EVIL = "x = '\x1b[2J\u202e'"


class Evolved:
    """A workspace with one promotion of two members, `g0/c0` and `g0/c1`, and one failure."""

    def __init__(self, root: Path) -> None:
        self.root = root
        init_workspace(
            root,
            domain="swe",
            create_repo=lambda path: HarnessRepo.create(path, FILES, "feat: the start"),
        )
        self.repo = HarnessRepo(root / "harness_repo")
        self.start = self.repo.head()
        text = FILES["swe/agent.py"].decode()
        self.commits = [
            self._branch(0, text.replace("A = 1", f"A = 2{LONG}")),
            self._branch(1, text.replace("B = 1", f"B = 2; {EVIL}")),
            self._branch(2, text.replace("C = 1", "C = 9")),
        ]
        for index in (0, 1):
            ref = f"refs/heads/candidate/r1/g0c{index}"
            self.repo.merge(ref, onto=self.repo.head(), message=f"merge: g0/c{index}", trailers={})
        self.version = self.repo.head()
        with Ledger.open(root / "ledger.sqlite") as ledger:
            ledger.start_run("r1", {"workspace": str(root)}, config_hash="h")
            self._record(ledger)
            ledger.finish_run("r1", "done")

    def _git(self, *argv: str, stdin: str = "") -> str:
        who = {
            f"GIT_{role}_{what}": "x"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            ["git", "-C", str(self.repo.path), *argv],
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **who},
        )
        return done.stdout.strip()

    def _branch(self, index: int, text: str) -> str:
        blob = self._git("hash-object", "-w", "--stdin", stdin=text)
        env_tree = self._git("ls-tree", "-r", self.start).splitlines()
        rows = [row for row in env_tree if not row.endswith("agent.py")]
        inner = self._git("mktree", stdin=f"100644 blob {blob}\tagent.py\n")
        tree = self._git("mktree", stdin="\n".join([*rows, f"040000 tree {inner}\tswe", ""]))
        commit = self._git("commit-tree", tree, "-p", self.start, "-m", f"feat: idea {index}")
        self._git("update-ref", f"refs/heads/candidate/r1/g0c{index}", commit)
        return commit

    def _record(self, ledger: Ledger) -> None:
        def step(key: str, what: str, /, **outcome: Any) -> None:
            ledger.once(f"r1/{key}", what, {}, lambda: outcome)

        step(
            "baseline",
            "baseline",
            version="v0",
            harness_commit=self.start,
            split="search",
            clean_success=0.05,
            n=9,
        )
        for index, commit in enumerate(self.commits):
            name = f"r1/g0/c{index}"
            step(
                f"g0/c{index}",
                "candidate",
                id=name,
                commit=commit,
                base=self.start,
                factor="scaffold",
            )
            kind = "REJECT" if index == 2 else "PROMOTE"
            effect = {"delta": 0.1, "ci_low": 0.05, "ci_high": 0.15}
            step(
                f"g0/c{index}/verdict",
                "verdict",
                candidate=name,
                kind=kind,
                reasons=["so"],
                effect=effect,
            )
        step(
            "merge",
            "merge",
            candidate="r1/g0/c1",
            members=["r1/g0/c0", "r1/g0/c1"],
            version="v1",
            commit=self.version,
            generation=0,
            undone=False,
        )


@pytest.fixture
def evolved(tmp_path: Path) -> Evolved:
    return Evolved(tmp_path / "w")


@pytest.mark.parametrize(
    ("names", "gone", "come"),
    [
        (["g0/c0"], ["A = 1"], ["A = 2"]),
        (["v1"], ["A = 1", "B = 1"], ["A = 2", "B = 2"]),
        (["v0", "v1"], ["A = 1", "B = 1"], ["A = 2", "B = 2"]),
        (["v1", "v0"], ["A = 2", "B = 2"], ["A = 1", "B = 1"]),
        (["main"], ["B = 1"], ["B = 2"]),
        (["main", "g0/c2"], ["A = 2", "B = 2", "C = 1"], ["A = 1", "B = 1", "C = 9"]),
    ],
)
def test_diff_of_one_name_and_of_two(
    evolved: Evolved, meta_agent: Runner, names: list[str], gone: list[str], come: list[str]
) -> None:
    patch = meta_agent("diff", *names, "--json", cwd=evolved.root).document["diff"]
    lines = patch.splitlines()
    assert [one[1:].partition(";")[0] for one in lines if one[:2] in ("-A", "-B", "-C")] == gone
    assert [one[1:].partition(";")[0] for one in lines if one[:2] in ("+A", "+B", "+C")] == come


def test_lines_that_leave_by_a_pipe_are_whole(evolved: Evolved, meta_agent: Runner) -> None:
    piped = meta_agent("diff", "g0/c0", cwd=evolved.root).stdout
    assert f"\n+A = 2{LONG}\n" in piped, "git apply reads it"


def test_a_name_that_is_nothing_is_a_sentence(evolved: Evolved, meta_agent: Runner) -> None:
    for name in ("v9", "g7/c7", "--help-me", "HEAD^", "a b", "lead"):
        done = meta_agent("diff", "--", name, cwd=evolved.root)
        assert done.returncode == 2 and f"{name!r} is no candidate, version" in done.stderr


def test_revert_takes_back_one_member_and_leaves_the_others(
    evolved: Evolved, meta_agent: Runner
) -> None:
    done = meta_agent("revert", "g0/c0", "--json", cwd=evolved.root).document["reverted"]
    assert [one["candidate"] for one in done] == ["r1/g0/c0"]
    now = (evolved.root / "harness_repo" / "swe" / "agent.py").read_text()
    assert "A = 1" in now and "B = 2" in now
    assert "It was PROMOTE: so" in (evolved.repo.notes(evolved.repo.head()) or "")
    assert meta_agent("revert", "g0/c0", "--json", cwd=evolved.root).document["reverted"] == done
    assert "PROMOTE (taken back)" in meta_agent("show", "g0/c0", cwd=evolved.root).stdout


def test_revert_of_a_version_takes_all_of_it_back(evolved: Evolved, meta_agent: Runner) -> None:
    done = meta_agent("revert", "v1", "--json", cwd=evolved.root).document["reverted"]
    assert [one["candidate"] for one in done] == ["r1/g0/c1", "r1/g0/c0"]
    assert evolved.repo.tree(evolved.repo.head()).files == FILES


def test_a_revert_can_be_taken_back_itself(evolved: Evolved, meta_agent: Runner) -> None:
    before = evolved.repo.tree(evolved.repo.head()).files
    (done,) = meta_agent("revert", "g0/c1", "--json", cwd=evolved.root).document["reverted"]
    meta_agent("revert", done["commit"], cwd=evolved.root)
    assert evolved.repo.tree(evolved.repo.head()).files == before


def test_what_cannot_be_taken_back_is_said(evolved: Evolved, meta_agent: Runner) -> None:
    for name, part in (("g0/c2", "is not on main (REJECT)"), ("v0", "is not on main")):
        done = meta_agent("revert", name, cwd=evolved.root)
        assert done.returncode == 2 and part in done.stderr
    later = {"swe/agent.py": b"A = 3\n\n\nB = 2\n"}
    evolved.repo.edit_main(
        later, onto=evolved.repo.head(), message="fix: by hand", when=1_800_000_000
    )
    done = meta_agent("revert", "g0/c0", cwd=evolved.root)
    assert done.returncode == 2 and "revert first the later changes" in done.stderr
    with Ledger.open(evolved.root / "ledger.sqlite"):
        assert meta_agent("revert", "g0/c1", cwd=evolved.root).returncode != 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("meta-agent why g0/", ["g0/c2", "g0/c1", "g0/c0"]),
        ("meta-agent diff v", ["v1", "v0"]),
        ("meta-agent report --run ", ["r1"]),
    ],
)
def test_a_shell_is_told_names_that_exist_now(
    evolved: Evolved, meta_agent: Runner, words: str, expected: list[str]
) -> None:
    told = {"_META_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": words}
    told["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    done = meta_agent(cwd=evolved.root, **told)
    assert done.stdout.split() == expected
    elsewhere = meta_agent(cwd=evolved.root.parent, **told)
    assert (elsewhere.stdout.split(), "Traceback" in elsewhere.stderr) == ([], False)
