"""Repositories that hold the answer, each in one place where public images were found to."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

MARK = "the-answer-is-in-here"
SOUND = f"value = 42  # {MARK}\n"
BUGGY = "value = 41\n"
_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "PATH": "/usr/bin:/bin",
}

# Finds the mark with everything that is at hand inside: raw bytes, inflated objects, git itself.
PROBE = """
import os, subprocess, sys, tempfile, zlib
mark, found = sys.argv[1].encode(), set()
def git(*words):
    done = subprocess.run(["git", "-c", "safe.directory=*", *words], capture_output=True)
    return done.stdout
for root in sys.argv[2:]:
    for top, dirs, files in os.walk(root):
        if {"HEAD", "objects"} <= set(dirs + files):
            if mark in git("--git-dir", top, "cat-file", "--batch-all-objects", "--batch"):
                found.add(top)
        for path in (os.path.join(top, name) for name in files):
            try:
                data = open(path, "rb").read()
            except OSError:
                continue
            if path.endswith(".bundle") and data:
                with tempfile.TemporaryDirectory() as copy:
                    git("clone", "-q", "--bare", path, copy)
                    data = git("--git-dir", copy, "cat-file", "--batch-all-objects", "--batch")
            try:
                data += zlib.decompress(data)
            except zlib.error:
                pass
            if mark in data:
                found.add(path)
print(sorted(found))
"""


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env=_ENV, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, content: str, message: str) -> str:
    (folder / "code.py").write_text(content)
    git(folder, "add", "code.py")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def started(folder: Path) -> str:
    """A repository at the faulty commit, on its main branch."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    return commit(folder, BUGGY, "base")


def fixed(folder: Path) -> str:
    """The base, and a commit after it that nothing but a hash names any more."""
    base = started(folder)
    fix = commit(folder, SOUND, "fix")
    git(folder, "reset", "-q", "--hard", base)
    return fix


def bare(folder: Path) -> None:
    """No reflog and no ORIG_HEAD: what a case does not plant is not there."""
    (folder / ".git" / "ORIG_HEAD").unlink(missing_ok=True)
    git(folder, "reflog", "expire", "--expire=now", "--all")


def later_branch(root: Path, folder: Path) -> None:
    git(folder, "branch", "later", fixed(folder))
    bare(folder)


def tag(root: Path, folder: Path) -> None:
    git(folder, "tag", "-m", "v2", "v2.0", fixed(folder))
    bare(folder)


def remote_branch(root: Path, folder: Path) -> None:
    git(folder, "update-ref", "refs/remotes/origin/main", fixed(folder))
    bare(folder)


def stash(root: Path, folder: Path) -> None:
    started(folder)
    (folder / "code.py").write_text(SOUND)
    git(folder, "stash", "-q")


def reflog(root: Path, folder: Path) -> None:
    fixed(folder)
    (folder / ".git" / "ORIG_HEAD").unlink(missing_ok=True)


def orig_head(root: Path, folder: Path) -> None:
    fix = fixed(folder)
    bare(folder)
    (folder / ".git" / "ORIG_HEAD").write_text(f"{fix}\n")


def unreachable_in_a_pack(root: Path, folder: Path) -> None:
    fix = fixed(folder)
    git(folder, "branch", "gone", fix)
    git(folder, "repack", "-q", "-a", "-d")
    git(folder, "branch", "-q", "-D", "gone")
    bare(folder)
    assert not git(folder, "for-each-ref", "--contains", fix)


def linked_worktree(root: Path, folder: Path) -> None:
    fix = fixed(folder)
    git(folder, "worktree", "add", "-q", "--detach", str(root / "wt"), fix)
    bare(folder)


def worktree_inside(root: Path, folder: Path) -> None:
    fix = fixed(folder)
    git(folder, "worktree", "add", "-q", "--detach", str(folder / "other"), fix)
    bare(folder)


def borrowed_objects(root: Path, folder: Path) -> None:
    started(folder)
    store = root / "opt" / "store"
    fixed(store)
    (folder / ".git" / "objects" / "info" / "alternates").write_text("/opt/store/.git/objects\n")


def mirror(root: Path, folder: Path) -> None:
    started(folder)
    source = root / "srv" / "source"
    git(source, "branch", "later", fixed(source))
    git(root / "srv", "clone", "-q", "--mirror", "source", "mirror")


def bundle(root: Path, folder: Path) -> None:
    fix = fixed(folder)
    git(folder, "branch", "later", fix)
    git(folder, "bundle", "create", "-q", str(root / "srv" / "all.bundle"), "later")
    git(folder, "branch", "-q", "-D", "later")
    bare(folder)
    git(folder, "gc", "-q", "--prune=now")


CASES: dict[str, Callable[[Path, Path], None]] = {
    "later branch": later_branch,
    "tag": tag,
    "remote branch": remote_branch,
    "stash": stash,
    "reflog": reflog,
    "ORIG_HEAD": orig_head,
    "unreachable object in a pack": unreachable_in_a_pack,
    "linked worktree": linked_worktree,
    "worktree inside the repository": worktree_inside,
    "objects of another repository": borrowed_objects,
    "mirror elsewhere": mirror,
    "bundle elsewhere": bundle,
}


def make(root: Path) -> dict[str, str]:
    """All of them below a root folder; their places inside an image that has it as its root."""
    (root / "srv").mkdir(parents=True)
    places = {}
    for number, (name, plant) in enumerate(CASES.items()):
        place = f"cases/{number}"
        plant(root, root / place)
        places[name] = f"/{place}"
    return places


def packed(root: Path, archive: Path) -> None:
    """A layer of what lies below the root, readable for everybody."""

    def opened(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.mode |= 0o755 if member.isdir() else 0o644
        return member

    with tarfile.open(archive, "w") as tar:
        for path in sorted(root.iterdir()):
            tar.add(path, path.name, filter=opened)
