"""A search for tasks: it accepts or refuses candidates, and writes the task set.

A task set is a file of rows in SWE-bench's form, archives of the package, and a manifest of hashes.

Promises: no two tasks are alike. The same tasks give the same bytes, wherever and however fast the
set was made. The manifest is written last.

Does not cover: whether the tasks are fit (`meta-agent tasks check`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, SPLITS, Split
from meta_agent.core.task_splits import lacking
from meta_agent.domains.formats import semantic_key
from meta_agent.domains.formats.rows import hashed_split
from meta_agent.domains.tasks._bench import Bench
from meta_agent.domains.tasks._journal import Journal

Progress = Callable[[str], None]
EXHAUSTED: Final = (
    "every candidate was tried: add rows from another package, or use synth and mine both"
)
_LACKS_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
Measured = dict[str, JSON]
"""`fail`, `pass` and `issue` of a task, or why it is none: `refused` and `why`; `flaky` tests."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to search for tasks: how many, with which seed, and how often each test is run."""

    count: int = 40
    seed: int = 0
    repeats: int = 2
    jobs: int = 1
    any_message: bool = False
    """Whether `mine` also tries commits that name no fix."""

    def __post_init__(self) -> None:
        if min(self.count, self.jobs) < 1 or self.repeats < 2:
            numbers = f"count {self.count}, jobs {self.jobs} and repeats {self.repeats}"
            raise ConfigError(f"set {numbers} to at least 1, 1 and 2")


@dataclass(frozen=True, slots=True)
class Draft:
    """A new task before it is accepted. Drafts with the same `topic` (a function) share a split."""

    bench: Bench  # its package holds the tree that `setup_patch` starts from
    topic: str
    patch: str
    test_patch: str
    setup_patch: str
    origin: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Made:
    """The result of making tasks: their file, their number, and why others were refused."""

    path: Path
    tasks: int
    tried: int
    refused: Mapping[str, int]  # reason: how often
    flaky: tuple[str, ...]
    manifest: dict[str, JSON]
    advice: str  # how to come to more tasks

    @property
    def lacks(self) -> str:
        """Returns what the task set lacks for a run, such as tasks of a split; empty if nothing."""
        return lacking(self.manifest["splits"], trainable=False, pooled=True)

    def to_json(self) -> dict[str, JSON]:
        """Returns the result as the JSON document that `--json` prints."""
        fields = {**asdict(self), "path": str(self.path), "flaky": list(self.flaky)}
        return {"schema_version": 1, **fields, "lacks": self.lacks}

    def lines(self) -> list[str]:
        """Returns the result as lines of text."""
        splits = ", ".join(f"{split} {n}" for split, n in self.manifest["splits"].items())
        reasons = sorted(self.refused.items(), key=lambda pair: (-pair[1], pair[0]))
        return [
            f"{self.tasks} tasks of {self.tried} tried: {splits}",
            *(f"  {count:4d} refused: {reason}" for reason, count in reasons),
            *([f"flaky tests left out: {', '.join(self.flaky)}"] if self.flaky else []),
            f"written: {self.path}",
            *([f"evolve refuses the set: it has {self.lacks}"] if self.lacks else []),
            f"next: {self.advice if self.lacks else f'meta-agent tasks check {self.path}'}",
        ]


class Search:
    """A search for tasks. It accepts or refuses candidates in order, and writes the task file."""

    def __init__(self, bench: Bench, out: Path, plan: Plan, progress: Progress) -> None:
        """Makes the task file's folder, or raises `ConfigError`, as for an unfit image."""
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            why = f"--out {out}: its folder cannot be made: {problem}"
            raise ConfigError(why, hint="choose another --out") from problem
        if out.is_dir():
            raise ConfigError(
                f"--out {out} is a folder", hint=f"name a file: {out / 'tasks.jsonl'}"
            )
        self.bench, self.plan = bench.checked(), plan
        self._out, self._progress = out, progress
        package = self.bench.package
        if self.bench.warning:
            progress(self.bench.warning)
        settings: dict[str, JSON] = {
            **{"package": package.sha256, "tests": package.tests, "sources": package.sources},
            **{"patterns": package.patterns, "repeats": plan.repeats, "python": bench.python},
            **{"image": bench.image, "plugins": bench.plugins, "all": plan.any_message},
        }
        self.journal = Journal(out, settings)
        if self.journal.resumed:
            progress(f"using {self.journal.resumed} measurements of an interrupted search")
        self.refused: Counter[str] = Counter()
        self.rows: list[dict[str, JSON]] = []
        self.flaky: set[str] = set()
        self.tried = 0
        self.advice = "the same command with a larger --count, or rows from another package"
        self.hint: str | None = None  # for a search without any task
        self._missing: Counter[str] = Counter()  # modules that tests could not import
        self._archives: dict[str, bytes] = {}
        self._topics: dict[str, str] = {}  # by what no second task may share

    @property
    def full(self) -> bool:
        return len(self.rows) >= self.plan.count

    def refuse(self, label: str, reason: str, why: str = "") -> None:
        """Counts and reports a candidate that makes no task. `why` gives details of `reason`."""
        self.refused[reason] += 1
        self._missing.update(_LACKS_MODULE.findall(why))
        self._progress(f"{label} refused: {reason} {why}".rstrip())

    def decide(self, label: str, measured: Measured, draft: Callable[[], Draft]) -> bool:
        """Adds the task that `draft` returns. Returns False if the candidate is refused."""
        self.tried += 1
        self.flaky.update(measured.get("flaky", ()))
        reason = measured.get("refused", "")
        if reason:
            self.refuse(label, reason, measured.get("why", ""))
            return False
        task = draft()
        if reason := self._repetition(task, measured):
            self.refuse(label, reason)
            return False
        package = task.bench.package
        self._archives[package.archive_name] = package.archive
        self.rows.append(_row(task, measured, self._folder.name))
        tests = len(measured["fail"])
        self._progress(f"[{len(self.rows)}/{self.plan.count}] {label}: {tests} tests decide")
        return True

    def _repetition(self, draft: Draft, measured: Measured) -> str:
        """Returns why a task is too similar to an accepted one; empty if it is not."""
        issue = f"issue {measured['issue']}"
        lines = semantic_key(draft.bench.package.name, draft.patch, "")
        if issue in self._topics or lines in self._topics:
            return "the same text or lines as another task"
        tests = f"tests {measured['fail']}"
        if self._topics.setdefault(tests, draft.topic) != draft.topic:
            return "decided by the same tests as another task"
        self._topics |= {issue: draft.topic, lines: draft.topic}
        return ""

    def write(self, method: Mapping[str, JSON]) -> Made:
        """Writes task file, archives and manifest. Raises ConfigError if no task is accepted."""
        for module, count in self._missing.most_common(1):
            self.advice = self.hint = (
                f"{count} candidates lack the module {module}; build an image with it (meta-agent "
                "sandbox build --requirements FILE --tag TAG), then --image TAG"
            )
        if not self.rows:
            raise ConfigError(
                f"all {self.tried} candidates for tasks were refused: {dict(self.refused)}",
                hint=self.hint,
            )
        refused, flaky = dict(sorted(self.refused.items())), sorted(self.flaky)
        manifest = self._written(
            {
                **{"tried": self.tried, "refused": refused, "flaky": flaky, **method},
                **{"repeats": self.plan.repeats, "held": list(self.bench.in_image)},
            }
        )
        self.journal.close()
        return Made(
            *(self._out, len(self.rows), self.tried, refused, tuple(flaky), manifest, self.advice)
        )

    @property
    def _folder(self) -> Path:
        """The folder beside the task file that holds its archives."""
        return self._out.parent / f"{self._out.stem}.sources"

    def _written(self, method: Mapping[str, JSON]) -> dict[str, JSON]:
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self._archives.items():
            (folder / name).write_bytes(content)
        lines = [json.dumps(row, sort_keys=True, ensure_ascii=True) + "\n" for row in self.rows]
        self._out.write_text("".join(lines), encoding="utf-8")
        splits = Counter(row["split"] for row in self.rows)
        ids = [str(row["instance_id"]) for row in self.rows]
        manifest: dict[str, JSON] = {
            "schema_version": 1,
            "file": self._out.name,
            "sha256": _sha256("".join(lines).encode()),
            "archives": {
                f"{folder.name}/{name}": _sha256(self._archives[name])
                for name in sorted(self._archives)
            },
            "made": dict(method),
            "splits": {split: splits[split] for split in SPLITS},
            "tasks": {key: _sha256(line.encode()) for key, line in zip(ids, lines, strict=True)},
        }
        text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
        manifest_path(self._out).write_text(text, encoding="utf-8")
        return manifest


def manifest_path(tasks: Path) -> Path:
    """Returns the path of a task file's manifest, the list of its hashes."""
    return tasks.with_name(f"{tasks.stem}.manifest.json")


def split_of(package: str, topic: str) -> Split:
    """Returns the split of all tasks about a topic (such as a function) of a package, by a hash."""
    return hashed_split(_sha256(f"{package}\0{topic}".encode()))


def _row(draft: Draft, measured: Measured, folder: str) -> dict[str, JSON]:
    bench, package = draft.bench, draft.bench.package
    key = semantic_key(package.name, draft.patch, measured["issue"])
    source = {
        "archive": f"{folder}/{package.archive_name}",
        "sha256": package.sha256,
        "setup_patch": draft.setup_patch,
        "pythonpath": list(package.pythonpath),
        **({"python": bench.python} if bench.python != "python3" else {}),
        **({"plugins": list(bench.plugins)} if bench.plugins else {}),
        **({"own": list(bench.in_image)} if bench.in_image else {}),
    }
    return {
        "instance_id": f"{package.name}-{key[:12]}",
        "repo": package.name,
        "base_commit": package.commit,
        "version": package.version,
        "split": split_of(package.name, draft.topic),
        "problem_statement": measured["issue"],
        "hints_text": "",
        "patch": draft.patch,
        "test_patch": draft.test_patch,
        "FAIL_TO_PASS": json.dumps(measured["fail"]),
        "PASS_TO_PASS": json.dumps(measured["pass"]),
        **({"image": bench.image} if bench.image else {}),
        "source": source,
        "origin": dict(draft.origin),
    }


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
