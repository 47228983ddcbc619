"""Makes a git repository out of a release and a distribution's patches, to mine for tasks.

    python benchmarks/patch_history.py repo/ urllib3-1.26.12.tar.gz urllib3_1.26.12-1.debian.tar.xz
    meta-agent tasks mine repo/ --any-message --image TAG --out tasks/urllib3.jsonl

A distribution that stays with a release carries later fixes back to it, one patch each and in the
form of upstream's commits: source and tests together. So a history can be had where only archives
can. Patches become commits in the order of `debian/patches/series`, with their own descriptions;
files that the release does not ship are left out of them. What does not apply is named and skipped.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from meta_agent.domains.swe import read_archive

_FOLDER = "debian/patches/"
_BODY = re.compile(r"^(?:diff --git|--- |Index: )", re.MULTILINE)
_FIELD = re.compile(r"^(?:Description|Subject): *(?:\[[^]]*\] *)*", re.MULTILINE)
_OLD_NAME = re.compile(r"^--- [^/\s]+/(\S+).*\n\+\+\+ ", re.MULTILINE)


def main() -> None:
    folder, release, distribution = (Path(name) for name in sys.argv[1:4])
    applied, skipped = build(folder, release, distribution)
    print(f"{applied} patches in {folder}", *(f"skipped: {name}" for name in skipped), sep="\n")


def build(folder: Path, release: Path, distribution: Path) -> tuple[int, list[str]]:
    """Returns how many patches became commits, and the names of the others."""
    tree = read_archive(release, hashlib.sha256(release.read_bytes()).hexdigest())
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {}, tree, f"release {release.name}")
    patches = read_patches(distribution)
    skipped = [name for name, text in patches if not _applied(folder, name, text)]
    return len(patches) - len(skipped), skipped


def commit(folder: Path, before: Mapping[str, bytes], after: Mapping[str, bytes], why: str) -> None:
    for path in before.keys() - after.keys():
        (folder / path).unlink()
    for path in (path for path in after if before.get(path) != after[path]):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(after[path])
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "--allow-empty", "-m", why)


def git(folder: Path, *argv: str) -> None:
    who = {"NAME": "A", "EMAIL": "a@example.org", "DATE": "1700000000 +0000"}
    env = {f"GIT_{side}_{key}": v for side in ("AUTHOR", "COMMITTER") for key, v in who.items()}
    settings = ["-c", "commit.gpgSign=false", "-c", "core.autocrlf=false", "-c", "gc.auto=0"]
    subprocess.run(["git", *settings, *argv], cwd=folder, env={**os.environ, **env}, check=True)


def read_patches(distribution: Path) -> list[tuple[str, str]]:
    """Names and texts, in the order in which they are applied."""
    with tarfile.open(distribution) as archive:
        texts = {
            member.name.partition(_FOLDER)[2]: archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive
            if member.isfile() and _FOLDER in member.name
        }
    lines = (line.partition("#")[0].split() for line in texts["series"].split("\n"))
    return [(line[0], texts[line[0]]) for line in lines if line]


def _applied(folder: Path, name: str, text: str) -> bool:
    missing = [path for path in _OLD_NAME.findall(text) if not (folder / path).exists()]
    options = ["--index", "--whitespace=nowarn", *(f"--exclude={path}" for path in missing)]
    argv = ["git", "apply", *options, "-"]
    done = subprocess.run(argv, cwd=folder, input=text.encode(), capture_output=True, check=False)
    if done.returncode == 0:
        git(folder, "commit", "-q", "--allow-empty", "-m", _message(name, text))
    return done.returncode == 0


def _message(name: str, text: str) -> str:
    """What the patch says of itself; its name where it says nothing."""
    body = _BODY.search(text)
    head = text[: body.start() if body else 0]
    field = _FIELD.search(head)
    said = re.split(r"^[A-Z][\w-]*: ", head[field.end() :] if field else "", flags=re.MULTILINE)[0]
    return said.strip() or name


if __name__ == "__main__":
    main()
