"""A hostile sandbox's git: builds any objects and hands back any pack. No rule of ours applies."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from meta_agent.core.history import EMAIL, NAME, HarnessRepo

SEED = {
    "harness.toml": b'[harness]\nname = "toy"\n',
    "swe/agent.py": b"MAX_TURNS = 4\n",
    "swe/reward.py": b"WEIGHTS = {}\n",
    "tests/test_toy.py": b"def test(): pass\n",
}
EDITABLE = ("swe/**",)
PROTECTED = ("harness.toml", "tests/**")
REF = "refs/heads/candidate/r1/0"


class Attacker:
    """A repository outside the host's control, holding the base commit."""

    def __init__(self, folder: Path, repo: HarnessRepo) -> None:
        self.folder = folder
        self.base = repo.head()
        folder.mkdir()
        self.git("init", "-q", "--initial-branch=main")
        self.git("unpack-objects", "-q", stdin=repo.pack(self.base))
        (folder / ".git" / "shallow").write_text(self.base + "\n")

    def git(self, *argv: str, stdin: bytes = b"", name: str = NAME, email: str = EMAIL) -> str:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": email,
            "GIT_COMMITTER_NAME": name,
            "GIT_COMMITTER_EMAIL": email,
            "GIT_AUTHOR_DATE": "1767225700 +0000",
            "GIT_COMMITTER_DATE": "1767225700 +0000",
        }
        ran = subprocess.run(
            ["git", *argv], cwd=self.folder, env=env, input=stdin, capture_output=True, check=True
        )
        return ran.stdout.decode("utf-8", "surrogateescape").strip()

    def blob(self, data: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=data)

    def raw(self, kind: str, data: bytes) -> str:
        return self.git("hash-object", "-w", "--literally", "--stdin", "-t", kind, stdin=data)

    def tree(self, rows: list[tuple[str, bytes, str]]) -> str:
        """A tree object with exactly these rows, in this order, checked by nobody."""
        body = b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in rows
        )
        return self.raw("tree", body)

    def swe(self, rows: list[tuple[str, bytes, str]]) -> str:
        """The base's tree with more rows in `swe/`, sorted as git sorts."""
        inside = self._rows(f"{self.base}:swe")
        names = {name for _, name, _ in rows}
        kept = [row for row in inside if row[1] not in names]
        folder = self.tree(sorted(kept + rows, key=_git_order))
        return self.root([("40000", b"swe", folder)])

    def root(self, rows: list[tuple[str, bytes, str]]) -> str:
        names = {name for _, name, _ in rows}
        kept = [row for row in self._rows(self.base) if row[1] not in names]
        return self.tree(sorted(kept + rows, key=_git_order))

    def commit(
        self,
        tree: str,
        *,
        parents: list[str] | None = None,
        message: bytes = b"feat: x\n",
        **who: str,
    ) -> str:
        parents = [self.base] if parents is None else parents
        argv = [part for parent in parents for part in ("-p", parent)]
        return self.git("commit-tree", tree, *argv, stdin=message, **who)

    def raw_commit(self, tree: str, *, extra: bytes = b"", message: bytes = b"x\n") -> str:
        who = f"{NAME} <{EMAIL}> 1767225700 +0000".encode()
        head = b"tree %s\nparent %s\n" % (tree.encode(), self.base.encode())
        return self.raw(
            "commit",
            head + b"author " + who + b"\ncommitter " + who + b"\n" + extra + b"\n" + message,
        )

    def pack(self, tip: str, *, extra: tuple[str, ...] = ()) -> bytes:
        """What a well-behaved hand-back packs: the tip without the base, and any extra objects."""
        reached = self._git_bytes(
            "rev-list", "--objects", "--missing=allow-any", tip, f"^{self.base}"
        )
        oids = [line.split(b" ")[0] for line in reached.splitlines()] + [o.encode() for o in extra]
        return self._git_bytes("pack-objects", "-q", "--stdout", stdin=b"\n".join(oids) + b"\n")

    def pack_of(self, *oids: str) -> bytes:
        return self._git_bytes(
            "pack-objects", "-q", "--stdout", stdin="\n".join(oids).encode() + b"\n"
        )

    def good(self, text: bytes = b"MAX_TURNS = 8\n") -> str:
        return self.commit(self.swe([("100644", b"agent.py", self.blob(text))]))

    def _rows(self, tree: str) -> list[tuple[str, bytes, str]]:
        listing = self.git("ls-tree", tree).splitlines()
        rows = [
            (line.split()[0].lstrip("0"), line.split("\t")[1].encode(), line.split()[2])
            for line in listing
        ]
        return rows

    def _git_bytes(self, *argv: str, stdin: bytes = b"") -> bytes:
        ran = subprocess.run(
            ["git", *argv],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            check=True,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "GIT_CONFIG_GLOBAL": "/dev/null",
            },
        )
        return ran.stdout


def _git_order(row: tuple[str, bytes, str]) -> bytes:
    return row[1] + (b"/" if row[0] == "40000" else b"")
