"""What `.ci/run` asks: which checks of `.ci/shards.toml` run, what failed, what to say at the end.

    python3 -m maintain.ci choose [--all]        the checks that run, a line each; reasons on stderr
    python3 -m maintain.ci of SHARD CHECK...     those of the checks that belong to the shard
    python3 -m maintain.ci values KEY CHECK...   what the table says of these checks, a line each
    python3 -m maintain.ci failing               the tests that the last call of pytest left failing
    python3 -m maintain.ci report FOLDER         the end of the output; exit status 1 if CI fails

Needs the standard library alone, since it runs before the set-up.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess  # noqa: TID251
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SECOND_TRIES: Final = 2
"""So many lines of `.ci/flaky` may name a test; with one more, CI fails."""
_EVERY_CHECK: Final = frozenset(
    {".ci/run", ".ci/shards.toml", "Makefile", "constraints.txt", "locks"}
)
_IMPORT: Final = re.compile(r"^ *from (meta_agent[\w.]*) import (\([^)]*\)|[^\n(]+)", re.MULTILINE)
_SUMMARY: Final = re.compile(r"^=+ (.*) in [\d.]+s.* =+$", re.MULTILINE)
_COUNT: Final = re.compile(r"(\d+) (passed|skipped)")

Check = dict[str, Any]


def table(root: Path = ROOT) -> dict[str, Check]:
    """Returns the checks of `.ci/shards.toml` by name."""
    return tomllib.loads((root / ".ci/shards.toml").read_text(encoding="utf-8"))


def choose(root: Path = ROOT, *, everything: bool = False) -> dict[str, str]:
    """Returns the checks that run, each with the reason."""
    checks = {name: check for name, check in table(root).items() if _can_run(name, check)}
    green = _first_line(root / ".ci/green")
    changed = None if everything else _changed_since(green, root)
    if changed is None:
        why = "everything runs" if everything else f"no commit {green[:12] or 'in .ci/green'} here"
        return dict.fromkeys(checks, why)
    reasons: dict[str, str] = {}
    for name, check in checks.items():
        watched = watched_paths(check, root)
        for path in changed:
            if any(path == each or path.startswith(f"{each}/") for each in watched):
                reasons.setdefault(name, f"{path} changed")
    quiet = sorted({check["shard"] for check in checks.values()} - _shards(reasons, checks))
    if quiet:
        count = int(_git(root, "rev-list", "--count", "HEAD") or 0)
        turn = random.Random(count).choice(quiet)
        for name, check in checks.items():
            if check["shard"] == turn:
                reasons[name] = f"the turn of {turn} at {count} commits"
    return {name: reasons[name] for name in checks if name in reasons}


def _can_run(name: str, check: Check) -> bool:
    """Whether the check's program starts or a package of Debian brings it."""
    if check.get("packages") or _starts(check.get("command", "true")):
        return True
    print(f"left out: {name} needs {check['command']}", file=sys.stderr)
    return False


def _starts(program: str) -> bool:
    """Whether `program --version` succeeds: a version manager names programs that it lacks."""
    if shutil.which(program) is None:
        return False
    done = subprocess.run([program, "--version"], capture_output=True, check=False)
    return done.returncode == 0


def _shards(names: dict[str, str], checks: dict[str, Check]) -> set[str]:
    return {checks[name]["shard"] for name in names}


def _changed_since(commit: str, root: Path) -> list[str] | None:
    """Returns the files that differ from an ancestor, or None if the commit is none."""
    if not commit or _git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
        return None
    names = _git(root, "diff", "--name-only", "--no-renames", commit)
    return None if names is None else names.splitlines()


def watched_paths(check: Check, root: Path = ROOT) -> set[str]:
    """Returns the check's files and folders, and the modules that its modules import."""
    paths = {*check.get("paths", ()), *check.get("tests", ())}
    folders = [root / path for path in paths if path.startswith("meta_agent")]
    modules = [
        path
        for folder in folders
        for path in (folder.rglob("*.py") if folder.is_dir() else [folder])
    ]
    imported = {file for module in modules for file in _imported_files(module, root)}
    return paths | _EVERY_CHECK | {file.relative_to(root).as_posix() for file in imported}


def _imported_files(module: Path, root: Path) -> Iterator[Path]:
    for package, names in _IMPORT.findall(module.read_text(encoding="utf-8")):
        for name in re.findall(r"\w+", re.sub(r"\bas \w+", "", names)):
            yield from _file_of(package, name, root)


def _file_of(package: str, name: str, root: Path) -> Iterator[Path]:
    """Yields the file behind `from package import name`, through what packages hand on."""
    for module in (f"{package}.{name}", package):
        path = root.joinpath(*module.split("."))
        if path.with_suffix(".py").is_file():
            yield path.with_suffix(".py")
            return
    source = root.joinpath(*package.split("."), "__init__.py")
    for inner, names in _IMPORT.findall(source.read_text("utf-8") if source.is_file() else ""):
        if inner != package and name in re.findall(r"\w+", names):
            yield from _file_of(inner, name, root)
            return
    if source.is_file():
        yield source


def failing(root: Path = ROOT) -> list[str]:
    """Returns the tests that pytest's cache holds as failing."""
    cache = root / ".pytest_cache/v/cache/lastfailed"
    return sorted(json.loads(cache.read_text())) if cache.is_file() else []


def report(folder: Path, root: Path = ROOT) -> bool:
    """Prints what failed, what was flaky, and one line of sums. Returns whether CI passes.

    `folder` holds `output` (of every call of pytest), `failed` and `flaky` (a name a line).
    """
    failed, flaky = (_lines(folder / name) for name in ("failed", "flaky"))
    entries = Counter(line.split(" ", 2)[-1] for line in _lines(root / ".ci/flaky"))
    today = _git(root, "log", "-1", "--format=%cs %h") or "0000-00-00 0"
    for test in flaky:
        print(f"FLAKY {test} - passed only at its second try; add this line to .ci/flaky:")
        print(f"{today} {test}")
        if entries[test] >= SECOND_TRIES:
            failed.append(f"{test} - flaky {entries[test] + 1} times: mend it, or remove it")
    counts: Counter[str] = Counter()
    for words in _SUMMARY.findall("\n".join(_lines(folder / "output"))):
        counts.update({kind: int(number) for number, kind in _COUNT.findall(words)})
    print(since_nightly(root))
    if not failed:
        print(f"passed: let the next commit write {_git(root, 'rev-parse', 'HEAD')} to .ci/green")
    print("=" * 27, "short test summary info", "=" * 28)
    for name in failed:
        print(f"FAILED {name}")
    sums = f"{len(failed)} failed, " * bool(failed)
    sums += f"{counts['passed']} passed, {counts['skipped']} skipped"
    print("=" * 10, sums, f"in {_first_line(folder / 'seconds') or 0}s", "=" * 10)
    return not failed


def since_nightly(root: Path = ROOT) -> str:
    """Returns a sentence that says how many commits ago `make nightly` passed."""
    commit, _, when = _first_line(root / ".ci/nightly").partition(" ")
    count = _git(root, "rev-list", "--count", f"{commit}..HEAD") if commit else None
    if count is None:
        return "make nightly: never, or at a commit that is not here"
    return f"make nightly: {count} commits ago ({commit[:12]}, {when})"


def _git(root: Path, *words: str) -> str | None:
    """Returns what git prints, or None if it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []


def _first_line(path: Path) -> str:
    return next(iter(_lines(path)), "")


def main(words: Sequence[str]) -> int:
    """Carries out a command of the module's docstring and returns its exit status."""
    match words:
        case ["choose", *options]:
            for name, why in choose(everything="--all" in options).items():
                print(f"{name:15} {why}", file=sys.stderr)
                print(name)
            print(since_nightly(), file=sys.stderr)
        case ["values", key, *names]:
            rows = [table()[name].get(key, ()) for name in names]
            _print_lines(dict.fromkeys(line for value in rows for line in _as_lines(value)))
        case ["of", shard, *names]:
            checks = table()
            _print_lines(name for name in names if checks[name]["shard"] == shard)
        case ["failing"]:
            _print_lines(failing())
        case ["report", folder]:
            return 0 if report(Path(folder)) else 1
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def _print_lines(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _as_lines(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}={ROOT / path}" for name, path in value.items()]
    return [value] if isinstance(value, str) else list(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
