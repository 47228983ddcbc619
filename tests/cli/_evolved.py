"""A workspace whose history has a promotion of two members and a failure."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from meta_agent.core.history import HarnessRepo
from meta_agent.core.ledger import Ledger
from meta_agent.core.workspace import init_workspace

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
