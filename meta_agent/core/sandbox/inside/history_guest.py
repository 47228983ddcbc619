"""Lists the stores of version history that this user can read (runs in the sandbox, stdlib only).

Prints JSON with the repository's real path, the names in it, and the paths of: git directories
(recognised by their content, whatever their name), object stores that others borrow from, other
systems' stores, bundles, lone packs, and worktrees that are linked to a repository.
"""

# Not pathlib in the walk: an image has hundreds of thousands of names.
# ruff: noqa: PTH118, PTH119, PTH123

import json
import os
import sys
from pathlib import Path

SKIPPED = ("/proc", "/sys", "/dev", "/scratch", "/run")
STORES = (".git", ".hg", ".svn", ".bzr", ".jj")
MAGIC = (b"PACK", b"# v2 git bundle", b"# v3 git bundle")
HEXADECIMAL = set("0123456789abcdef")


def history(root: str) -> "list[str]":
    """Returns the git directories and other stores of version history below a folder."""
    paths = []
    for folder, folders, files in os.walk(root):
        if folder in SKIPPED:
            folders[:] = []
        elif _linked_worktree(folder, files) or _is_store(folders + files, folder):
            paths.append(folder)
            folders[:] = []
        else:
            stores = [name for name in folders if name in STORES]
            folders[:] = [name for name in folders if name not in stores]
            packs = [name for name in files if name.endswith((".pack", ".bundle"))]
            paths += [os.path.join(folder, name) for name in stores]
            paths += [os.path.join(folder, name) for name in packs if _marked(folder, name)]
    return paths


def _is_store(names: "list[str]", folder: str) -> bool:
    """Returns True for a git directory or a folder of git objects."""
    if {"HEAD", "objects", "refs"} <= set(names):
        return True
    if os.path.basename(folder) != "objects":
        return False
    return "pack" in names or any(len(name) == 2 and set(name) <= HEXADECIMAL for name in names)


def _linked_worktree(folder: str, names: "list[str]") -> bool:
    """Returns True if the folder's `.git` file makes it a linked worktree of another repository."""
    beginning = _beginning(folder, ".git") if ".git" in names else b""
    return beginning.startswith(b"gitdir:") and b"/worktrees/" in beginning


def _marked(folder: str, name: str) -> bool:
    return _beginning(folder, name).startswith(MAGIC)


def _beginning(folder: str, name: str) -> bytes:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def main() -> None:
    """Prints, as JSON, what the folder `argv[1]` holds, and all version history on the machine."""
    place = Path(sys.argv[1]).resolve()
    names = sorted(path.name for path in place.iterdir())
    print(json.dumps({"place": str(place), "names": names, "history": sorted(history("/"))}))


if __name__ == "__main__":
    main()
