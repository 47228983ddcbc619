"""Makes a git repository out of successive releases, to try `meta-agent tasks mine` on.

    pip download --no-deps --no-binary :all: -d sdists/ toolz==0.12.1 ...
    python benchmarks/release_history.py repo/ sdists/toolz-0.12.1.tar.gz sdists/toolz-1.0.0.tar.gz

The source distributions hold no history, so the commits are simulated from real differences: for
each function that two releases write differently, one commit with the new function and the newer
release's tests that name it, under the message "fix: NAME"; then one commit with all that is left.
What mining finds here says that it works on real code and real suites, not how many fixes a real
history holds.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from meta_agent.domains.swe import is_test_path, read_archive

Tree = dict[str, bytes]
Span = tuple[int, int]


def main() -> None:
    folder, archives = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    print(f"{build(folder, archives)} simulated fixes in {folder}")


def build(folder: Path, archives: list[Path]) -> int:
    """Returns how many commits call themselves a fix."""
    trees = [read_archive(one, hashlib.sha256(one.read_bytes()).hexdigest()) for one in archives]
    folder.mkdir(parents=True)
    _git(folder, "init", "-q", "-b", "main")
    _commit(folder, {}, trees[0], f"release {archives[0].name}")
    count = 0
    for old, new, archive in zip(trees, trees[1:], archives[1:], strict=False):
        now = dict(old)
        for name, after in _steps(now, new):
            _commit(folder, now, after, f"fix: {name}")
            now, count = after, count + 1
        _commit(folder, now, new, f"release {archive.name}")
    return count


def _steps(old: Tree, new: Tree) -> Iterator[tuple[str, Tree]]:
    """One tree for each function that differs, the changes of the earlier ones included."""
    now = dict(old)
    for path in sorted(old.keys() & new.keys()):
        if not path.endswith(".py") or is_test_path(path) or old[path] == new[path]:
            continue
        for name, text in sorted(_functions(new[path]).items()):
            here = _functions(now[path])
            if here.get(name, text) == text:
                continue
            after = _with_tests({**now, path: _replaced(now[path], name, text)}, new, name)
            if any(is_test_path(one) for one in after if after[one] != now[one]):
                now = after
                yield name, now


def _with_tests(now: Tree, new: Tree, name: str) -> Tree:
    word = re.compile(rf"\b{re.escape(name.rsplit('.', 1)[-1])}\b".encode())
    after = dict(now)
    for path in sorted(now.keys() & new.keys()):
        if not is_test_path(path) or not path.endswith(".py"):
            continue
        for test, text in _functions(new[path]).items():
            if "test" in test and word.search(text) and "." not in test:
                after[path] = _replaced(after[path], test, text)
    return after


def _replaced(source: bytes, name: str, text: bytes) -> bytes:
    """The source with another version of a function; at its end where there is none yet."""
    span = _spans(source).get(name)
    if span is None:
        return source.rstrip(b"\n") + b"\n\n\n" + text + b"\n"
    lines = source.split(b"\n")
    after = b"\n".join([*lines[: span[0]], *text.split(b"\n"), *lines[span[1] :]])
    return after if _parses(after) else source


def _functions(source: bytes) -> dict[str, bytes]:
    lines = source.split(b"\n")
    return {name: b"\n".join(lines[a:b]) for name, (a, b) in _spans(source).items()}


def _spans(source: bytes) -> dict[str, Span]:
    found: dict[str, Span] = {}
    if not _parses(source):
        return found
    todo = [("", node) for node in ast.parse(source).body]
    while todo:
        prefix, node = todo.pop()
        if isinstance(node, ast.ClassDef):
            todo += [(f"{prefix}{node.name}.", child) for child in node.body]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found[prefix + node.name] = (first - 1, node.end_lineno or first)
    return found


def _parses(source: bytes) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _commit(
    folder: Path, before: Mapping[str, bytes], after: Mapping[str, bytes], why: str
) -> None:
    for path in before.keys() - after.keys():
        (folder / path).unlink()
    for path in (path for path in after if before.get(path) != after[path]):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(after[path])
    _git(folder, "add", "-A", "-f")
    _git(folder, "commit", "-q", "--allow-empty", "-m", why)


def _git(folder: Path, *argv: str) -> None:
    who = {"NAME": "A", "EMAIL": "a@example.org", "DATE": "1700000000 +0000"}
    env = {f"GIT_{side}_{key}": v for side in ("AUTHOR", "COMMITTER") for key, v in who.items()}
    settings = ["-c", "commit.gpgSign=false", "-c", "core.autocrlf=false", "-c", "gc.auto=0"]
    subprocess.run(["git", *settings, *argv], cwd=folder, env={**os.environ, **env}, check=True)


if __name__ == "__main__":
    main()
