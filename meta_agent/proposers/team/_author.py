"""The proposer at work: its tools over a clone of the harness, and what it takes to hand in.

Promises: every edit happens in the author's own sandbox; tests and replay run on a copy of its
files in a fresh one; the factor is the analyst's and stays; work that could never be admitted is
told to the author, and ends the dialogue with its typed reason when the author does not mend it.

Does not cover: admission. What the sandbox says of its changes is a claim that saves a round; the
host decides.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from meta_agent.core.errors import CandidateError, GuestError, MetaAgentError
from meta_agent.core.proposals import Grant, HostServices, Rehearsal
from meta_agent.core.protocols import HarnessTree, Hypothesis
from meta_agent.proposers.team import _limits
from meta_agent.proposers.team._analyst import Idea, move
from meta_agent.proposers.team._case import EVIDENCE, AuthorCase, skills_in
from meta_agent.proposers.team._experiments import Experiments, draft_of, edited
from meta_agent.proposers.team._fence import Fence, clip, visible
from meta_agent.proposers.team._file_tools import Files, search_tool
from meta_agent.proposers.team._reviewer import Review
from meta_agent.proposers.team._tools import (
    NUMBER,
    TEXT,
    WHOLE,
    Arguments,
    Done,
    Tool,
    ToolError,
    line_of,
    text_of,
    tool,
    whole_of,
)
from meta_agent.proposers.workbench import Workbench

Reviewing = Callable[[Hypothesis, str, Mapping[str, str], int], Review]
"""Reviews what is submitted, for the nth time."""
_SUBJECT, _STATEMENT = 60, 500


@dataclass(frozen=True, slots=True)
class Finished:
    """The hypothesis and commit subject that a model submitted; its files are in its sandbox."""

    hypothesis: Hypothesis
    subject: str


@dataclass(slots=True)
class Author:
    """The tools with which a language model edits and tests its clone of a harness."""

    case: AuthorCase
    idea: Idea
    bench: Workbench
    fence: Fence
    review: Reviewing
    grant: Grant = field(default_factory=Grant)
    unfit: CandidateError | None = None
    """Why the last `finish` could not be taken."""
    experiments: Experiments = field(init=False)
    _steady: Steady = field(init=False)
    _tries: int = 0
    _reviews: int = 0
    _opened: set[str] = field(default_factory=set)
    _checked: dict[str, Rehearsal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ran = self.bench.shell("pwd", timeout_sec=20, output_limit_bytes=4096)
        host = self.case.brief.host
        self.experiments = Experiments(host, self.grant, self.fence, lambda _: self.tree(), {})
        self._steady = Steady(ran.stdout.decode("utf-8", "replace").strip().rsplit("/", 1)[0])

    # --- tools -----------------------------------------------------------------------------

    def tools(self) -> list[Tool]:
        lines = {"start_line": WHOLE, "lines": WHOLE}
        return [
            tool("shell", _SHELL, {"command": TEXT}, self._shell),
            tool("view", _VIEW, {"path": TEXT, **lines}, self._view, optional=tuple(lines)),
            tool("edit", _EDIT, _EDIT_ARGUMENTS, self._edit, optional=("old", "new", "content")),
            search_tool(self._searchable, self.fence),
            tool("run_contract_tests", _TESTS, {}, lambda _: self._verdict(self._contract())),
            tool("run_replay_backtest", _REPLAY, {}, lambda _: self._verdict(self._replay())),
            *self.experiments.tools(),
            tool("finish", _FINISH, _FINISH_ARGUMENTS, self._finish, optional=_REFINED),
        ]

    def _shell(self, arguments: Arguments) -> str:
        command = text_of(arguments, "command")
        try:
            ran = self.bench.shell(
                self._steady.outgoing(command),
                timeout_sec=_limits.SHELL_SEC,
                output_limit_bytes=_limits.SHELL_BYTES,
            )
        except GuestError as error:
            raise ToolError(f"the command could not be run: {self._plain(str(error))}") from error
        text = self._plain((ran.stdout + ran.stderr).decode("utf-8", "replace"))
        ending = f"exit status {ran.exit_code}"
        if ran.timed_out:
            ending = f"stopped after {_limits.SHELL_SEC:.0f} s"
        return self.fence.wrap(f"output, {ending}", clip(text, _limits.SHELL_CHARS) or "(nothing)")

    def _view(self, arguments: Arguments) -> str:
        path = text_of(arguments, "path")
        start = whole_of(arguments, "start_line", default=1)
        count = whole_of(arguments, "lines", default=_limits.PAGE_LINES)
        files, path = self._files_of(path)
        text = files.read(path, start, count)
        self._opened.add(path)
        return self.fence.wrap(path, text)

    def _files_of(self, path: str) -> tuple[Files, str]:
        """Reads evidence from the host's copy, everything else from the clone."""
        path = path.strip().removeprefix("./").removeprefix("../")
        if path.startswith(f"{EVIDENCE}/"):
            return self.case.files, path
        text = self._text(path)
        return Files({} if text is None else {path: text.encode()}), path

    def _text(self, path: str) -> str | None:
        try:
            return self.bench.read(path)
        except GuestError as error:
            raise ToolError(f"{path!r} cannot be read: {self._plain(str(error))}") from error

    def _searchable(self) -> Files:
        """Returns the clone's present files and the evidence."""
        evidence = {p: d for p, d in self.case.files.files.items() if p.startswith(EVIDENCE + "/")}
        return Files({**self.bench.files(), **evidence})

    def _edit(self, arguments: Arguments) -> str:
        path = text_of(arguments, "path").strip().removeprefix("./")
        self._require_editable(path)
        before = self._text(path)
        content = edited(before, path, arguments)
        try:
            self.bench.write(path, content)
        except GuestError as error:
            raise ToolError(f"{path!r} cannot be written: {self._plain(str(error))}") from error
        changes = clip(_changes(before or "", content), _limits.EDIT_CHARS)
        return self.fence.wrap(f"changes of {path}", changes or "(none)")

    def _require_editable(self, path: str) -> None:
        try:
            factor = self.case.contract.factor_of([path])
        except CandidateError as error:
            raise ToolError(f"{error}: nothing was changed") from error
        if factor != self.idea.hypothesis.factor:
            raise ToolError(
                f"{path} belongs to the factor {factor}: nothing was changed; change only files of "
                f"{self.idea.hypothesis.factor}"
            )

    # --- rehearsals ------------------------------------------------------------------------

    def tree(self) -> HarnessTree:
        """Returns the present files of the clone in which the model edits the harness."""
        return draft_of(self.bench.files())

    def _contract(self) -> Rehearsal:
        return self._once("contract", lambda host, tree: host.contract_tests(tree))

    def _replay(self) -> Rehearsal:
        return self._once("replay", lambda host, tree: host.replay(tree))

    def _once(
        self, what: str, check: Callable[[HostServices, HarnessTree], Rehearsal]
    ) -> Rehearsal:
        """Returns the result of a check, which runs once per state of the files."""
        tree = self.tree()
        key = f"{what} {tree.tree_hash}"
        if key not in self._checked:
            self._checked[key] = check(self.case.brief.host, tree)
        return self._checked[key]

    def _verdict(self, rehearsal: Rehearsal) -> str:
        text = clip(self._plain(rehearsal.text), _limits.RESULT_CHARS)
        return self.fence.wrap("passed" if rehearsal.ok else "FAILED", text)

    # --- handing in ------------------------------------------------------------------------

    def _finish(self, arguments: Arguments) -> str:
        hypothesis, subject = self._refined(arguments), line_of(arguments, "subject", 200)
        self.unfit = self.problem()
        if self.unfit is not None:
            self._tries += 1
            if self._tries >= _limits.FINISH_TRIES:
                raise self.unfit
            raise ToolError(
                f"the candidate cannot be submitted yet ({self.unfit.reason}): "
                f"{self._plain(str(self.unfit))}"
            )
        diff, look = self.bench.diff(), self._reviews + 1
        review = self.review(hypothesis, diff, self._beside(), look)
        if not review.approved:
            return self._sent_back(review)
        raise Done(Finished(hypothesis, visible(subject)[:_SUBJECT]))

    def _sent_back(self, review: Review) -> str:
        self._reviews += 1
        reasons = "\n".join(f"- {reason}" for reason in review.reasons)
        if self._reviews > _limits.REVISIONS:
            message = f"the reviewer rejected the candidate twice: {'; '.join(review.reasons)}"
            raise CandidateError(message[:1000], reason="refused_by_reviewer")
        fenced = self.fence.wrap("the reviewer's reasons", reasons)
        return (
            f"The reviewer rejects this. You may revise once.\n{fenced}\n"
            "Change the work or the statement where they are right, and call finish again."
        )

    def _beside(self) -> dict[str, str]:
        """Returns what a reviewer reads beside the diff: the checks' words, and short files."""
        tree = self.tree().tree_hash
        passed = {
            f"{key.split()[0]} checks on it, passed": clip(
                self._plain(rehearsal.text), _limits.EDIT_CHARS
            )
            for key, rehearsal in self._checked.items()
            if rehearsal.ok and key.endswith(tree)
        }
        texts = {path: self._text(path) or "" for path in self.bench.changed()}
        short = {
            f"{path}, whole, as it would be": text
            for path, text in texts.items()
            if 0 < len(text) <= _limits.EDIT_CHARS
        }
        return {**passed, **short}

    def problem(self) -> CandidateError | None:
        """Returns why the present files make no candidate, or None."""
        try:
            paths = self.bench.changed()
            self.case.require_fit(paths, self.idea.hypothesis.factor, self._contract)
        except CandidateError as error:
            return error
        return None

    def nothing_edited(self) -> CandidateError | None:
        """Returns an error if the files are those of the version, else None."""
        with suppress(MetaAgentError):
            try:
                self.bench.changed()
            except CandidateError as error:
                return error if error.reason == "empty" else None
        return None

    def _refined(self, arguments: Arguments) -> Hypothesis:
        """Returns the hypothesis as the author now sees it; factor, metric, direction stay."""
        hypothesis = self.idea.hypothesis
        skills = {*hypothesis.skills, *skills_in(self._opened)}
        hypothesis = replace(hypothesis, skills=tuple(sorted(skills)))
        if arguments.get("statement"):
            hypothesis = replace(
                hypothesis, statement=visible(line_of(arguments, "statement", _STATEMENT))
            )
        if arguments.get("expected_delta") is not None:
            size = arguments["expected_delta"]
            _, delta = move({"direction": hypothesis.direction, "expected_delta": size})
            hypothesis = replace(hypothesis, expected_delta=delta)
        return hypothesis

    def _plain(self, text: str) -> str:
        return self._steady.incoming(text)


def _changes(before: str, after: str) -> str:
    """Returns what an edit did, as a unified diff with two lines of context."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm="")
    return "\n".join(list(lines)[2:])


_SHELL = (
    "Runs a shell command in the harness's folder of your sandbox (no network; stopped after "
    f"{_limits.SHELL_SEC:.0f} s; long output loses its middle). Evidence is in ../evidence, "
    "read-only."
)
_VIEW = "Shows numbered lines of a file of your clone, or of evidence/..."
_EDIT = (
    "Changes one editable file: replaces the text `old`, which must occur exactly once, by `new`; "
    "or, with `content` instead, writes the whole file."
)
_TESTS = "Runs the static checks and the harness's contract tests on your files as they are."
_REPLAY = (
    "Scores stored training rollouts again under your reward and filter and compares their "
    "orderings with the version's. Only for the factors reward and filter."
)
_FINISH = (
    "Submits the files as they are. `subject` says in a few words what changes. Give "
    f"`statement` (at most {_STATEMENT} characters) or `expected_delta` only to refine the "
    "hypothesis by what you have learned."
)
_EDIT_ARGUMENTS = {"path": TEXT, "old": TEXT, "new": TEXT, "content": TEXT}
_REFINED = ("statement", "expected_delta")
_FINISH_ARGUMENTS = {"subject": TEXT, "statement": TEXT, "expected_delta": NUMBER}


# --- what differs between sandboxes --------------------------------------------------------

HOME: Final = "/bench"
_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_LISTED: Final = re.compile(
    r"^([bclps-][rwxsStT-]{9}|d[rwxsStT-]{9})[.+@]?[ ]+\d+[ ]+\S+[ ]+\S+[ ]+(\d+)", re.MULTILINE
)
_TOTAL: Final = re.compile(r"^total \d+$", re.MULTILINE)
_TOOK: Final = re.compile(r"\b(in|real|user|sys)([ \t]+)(\d+m)?\d+\.\d+ ?s\b")


class Steady:
    """Makes a sandbox's texts repeatable: models see `/bench` in place of its real folder.

    A resumed run looks replies up by their prompts, so it pays twice for a prompt that varies.
    Not covered: the order of listings, and commands that print the time or a random number.
    """

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def outgoing(self, command: str) -> str:
        """Returns a shell command with the sandbox's real folder in place of `/bench`."""
        return command.replace(f"{HOME}/", f"{self._root}/") if self._root else command

    def incoming(self, text: str) -> str:
        """Returns command output less what varies by sandbox: real folder, addresses, times."""
        if self._root:
            text = text.replace(self._root, HOME)
        text = _TOTAL.sub("total N", _LISTED.sub(_listed, text))
        return _TOOK.sub(r"\1\2N s", _ADDRESS.sub("0x...", text))


def _listed(row: re.Match[str]) -> str:
    return f"{row[1]} {'-' if row[1].startswith('d') else row[2]}"
