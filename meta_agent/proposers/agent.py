"""A coding agent that a person has logged into, as a `Proposer`: `--meta-model agent:NAME`.

For each candidate the program gets a new folder with the harness and the evidence, edits files in
it, and writes `hypothesis.json`. The folder is then read as plain bytes. The host makes a
commit of them, after the same checks as for every other author.

Promises: no git repository and no link that the program made is opened. The result of a session is
recorded in `<workspace>/agents/<run>/`, so a run that is resumed repeats no session. The
hypothesis passes the checks that the team's analyst passes.

Does not cover: what the program reads on this machine (docs/security.md), and replays.
"""

from __future__ import annotations

import base64
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from meta_agent.core.durable import remove_folder, write_whole
from meta_agent.core.errors import CandidateError, ProviderError
from meta_agent.core.history import SKIPPED_FOLDERS, AdmissionLimits
from meta_agent.core.lab.fair import fairly
from meta_agent.core.ledger import Ledger
from meta_agent.core.parsing.strict import document
from meta_agent.core.proposals import Brief, Draft, Proposed, Proposer, Refused
from meta_agent.core.protocols import JSON, Hypothesis
from meta_agent.proposers.agent_cli import (
    LIMITS,
    AgentCli,
    Session,
    SessionLimits,
    Usage,
    run_session,
    withheld,
)
from meta_agent.proposers.team import idea_of
from meta_agent.proposers.team._case import AuthorCase
from meta_agent.proposers.team._experiments import draft_of
from meta_agent.proposers.team._fence import visible
from meta_agent.proposers.team._prompts import Prompts
from meta_agent.proposers.team._tools import ToolError, line_of
from meta_agent.proposers.workbench import drafted

HARNESS: Final = "harness"
HYPOTHESIS: Final = "hypothesis.json"
_ROUNDS: Final = 2
"""Sessions for a candidate: a second one may fix what is wrong with the first one's work."""
_HYPOTHESIS_BYTES: Final = 64 << 10
_SUBJECT: Final = 60
_LIMIT_WORDS: Final = {
    "time_limit": "the session was ended at its time limit",
    "turn_limit": "the session was ended at its limit of turns",
    "output_limit": "the session was ended at its limit of printed bytes",
}

Edits = dict[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a coding agent's session left: edits (None: file removed), hypothesis, why it ended."""

    edits: Edits
    hypothesis: str | None
    ending: str
    refusal: tuple[str, str] | None = None
    """The reason and the message, if the folder cannot be taken."""
    usage: Usage = field(default_factory=Usage)

    def to_json(self) -> dict[str, JSON]:
        edits = {
            path: None if data is None else base64.b64encode(data).decode()
            for path, data in self.edits.items()
        }
        rest = {"ending": self.ending, "hypothesis": self.hypothesis, "refusal": self.refusal}
        return {"schema_version": 1, "edits": edits, "usage": self.usage.to_json(), **rest}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Leftovers:
        edits = {
            path: None if text is None else base64.b64decode(text)
            for path, text in row["edits"].items()
        }
        refusal = tuple(row["refusal"]) if row["refusal"] else None
        return cls(edits, row["hypothesis"], row["ending"], refusal, Usage(**row["usage"]))


@dataclass(slots=True)
class _Work:
    """A candidate that the coding agent is asked for."""

    case: AuthorCase
    index: int
    earlier: Sequence[Draft | Refused] = ()
    edits: Edits = field(default_factory=dict)
    revised: Hypothesis | None = None
    feedback: str = ""
    spend: Usage = field(default_factory=Usage)


class _NothingToTry(Exception):  # noqa: N818 - an answer, not a mistake
    """Raised if the program says that no change can bring a gain."""


class CodingAgent(Proposer):
    """Proposes edits of the harness by running a coding agent, which is a command-line program."""

    def __init__(
        self,
        cli: AgentCli,
        *,
        run: str,
        records: Path,
        ledger: Ledger | None = None,
        prompts: Path | None = None,
        key_variable: str | None = None,
        environment: Mapping[str, str] | None = None,
        limits: SessionLimits = LIMITS,
    ) -> None:
        """`records` is the folder for records of sessions; `ledger` books the tokens and US$."""
        self.author = cli.label
        self._cli, self._run, self._records, self._ledger = cli, run, records, ledger
        self._prompts, self._key_variable, self._limits = Prompts(prompts), key_variable, limits
        self._environment = os.environ if environment is None else environment

    def propose(self, brief: Brief) -> Proposed:
        """Runs one or two sessions for each of `brief.k` ideas; returns commits and refusals."""
        case = AuthorCase(brief)
        attempts: list[Draft | Refused] = []
        for index in range(brief.k):
            try:
                attempts.append(self._attempt(_Work(case, index, tuple(attempts))))
            except _NothingToTry as nothing:
                return Proposed(attempts, "" if attempts else str(nothing))
        return Proposed(attempts)

    def revise(
        self,
        brief: Brief,
        index: int,
        hypothesis: Hypothesis,
        edits: Mapping[str, bytes | None],
        feedback: str,
    ) -> Draft | Refused:
        """Has the agent revise candidate `index`; returns the new commit, or why there is none.

        `edits` maps the candidate's paths to contents (None: removed). `feedback` is a person's.
        """
        work = _Work(AuthorCase(brief), index, (), dict(edits), hypothesis, feedback)
        try:
            return self._attempt(work)
        except _NothingToTry as nothing:
            return Refused(index, hypothesis.statement, str(nothing), "nothing_to_try")

    # --- one candidate ---------------------------------------------------------------------------

    def _attempt(self, work: _Work) -> Draft | Refused:
        try:
            return fairly(lambda: self._draft(work))
        except CandidateError as error:
            statement = work.revised.statement if work.revised else f"an edit by {self.author}"
            spend = work.spend.to_json()
            return Refused(work.index, statement, str(error), error.reason, spend)

    def _draft(self, work: _Work) -> Draft:
        work.spend = Usage()
        host, index = work.case.brief.host, work.index
        edits, hypothesis, subject = self._finished(work)
        host.tell(f"idea {index}: {hypothesis.factor}: {hypothesis.statement}")
        return drafted(host, index, hypothesis, subject, edits, work.spend.to_json())

    def _finished(self, work: _Work) -> tuple[Edits, Hypothesis, str]:
        """Returns checked edits, hypothesis and subject; a second session may correct them."""
        leftovers, problem = Leftovers(work.edits, None, ""), ""
        for number in range(1, _ROUNDS + 1):
            leftovers = self._session(work, number, leftovers, problem)
            work.spend.add(leftovers.usage)
            try:
                return leftovers.edits, *_checked(work, leftovers)
            except CandidateError as error:
                if number == _ROUNDS or leftovers.refusal or leftovers.ending in _LIMIT_WORDS:
                    raise
                problem = str(error)
        raise AssertionError("unreachable")

    def _session(self, work: _Work, number: int, before: Leftovers, problem: str) -> Leftovers:
        """Returns the result of a session, from its record if the session was held before."""
        case, place = work.case, f"g{work.case.brief.generation}-c{work.index}-{number}"
        folder = self._records / place
        record = folder / "record.json"
        if record.is_file():
            return Leftovers.from_json(document(record.read_bytes()))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        prompt, output = folder / "prompt.md", folder / "output.txt"
        task = self._prompt(work, problem)
        prompt.write_text(task, encoding="utf-8")
        root = Path(tempfile.mkdtemp(prefix="meta-agent-agent-")).resolve()
        try:
            _lay_out(root, case, before, task)
            session = self._hold_session(root, prompt, output, case)
            leftovers = _left_in(root, case.brief.tree.files, session)
        finally:
            remove_folder(root)
        self._require_held(session, before, leftovers, output)
        write_whole(record, json.dumps(leftovers.to_json()), mode=0o600)
        return leftovers

    def _require_held(
        self, session: Session, before: Leftovers, leftovers: Leftovers, output: Path
    ) -> None:
        """Raises ProviderError if the session failed for a reason that is not the candidate's."""
        unchanged = (leftovers.edits, leftovers.hypothesis) == (before.edits, before.hypothesis)
        left_nothing = leftovers.hypothesis is None or unchanged
        if session.ending != "by itself" or not (
            session.failed or (session.exit_code and left_nothing)
        ):
            return
        names = withheld(self._cli, self._key_variable, self._environment)
        unseen = f" (it did not see {', '.join(names)}: --key-env proposer=NAME)" if names else ""
        raise ProviderError(
            f"the session of {self.author} failed with exit status {session.exit_code}: "
            f"{visible(session.last) or 'it printed nothing'}",
            hint=f"see {output}{unseen}, then run the same command again: it resumes",
        )

    def _hold_session(self, root: Path, prompt: Path, output: Path, case: AuthorCase) -> Session:
        """Runs a session; the ledger books its tokens and US$."""
        reservation = self._ledger and self._ledger.reserve("proposer", None, 0, self._run)
        session = run_session(
            self._cli,
            root,
            prompt,
            output,
            key_variable=self._key_variable,
            environment=self._environment,
            limits=self._limits,
            stopping=case.brief.host.stopping,
        )
        if self._ledger and reservation:
            self._ledger.settle(reservation, session.usage.usd, session.usage.tokens)
        return session

    def _prompt(self, work: _Work, problem: str) -> str:
        values = {
            **work.case.values(),
            "hypothesis_file": HYPOTHESIS,
            "harness_folder": HARNESS,
            "earlier": [
                visible(a.hypothesis.statement) for a in work.earlier if isinstance(a, Draft)
            ],
            "problem": visible(problem),
            "revised": work.revised,
            "feedback": work.feedback,
            "turns": self._limits.turns,
            "minutes": round(self._limits.seconds / 60),
        }
        return "\n".join(self._prompts.render("agent", values))


# --- the folder of a session -------------------------------------------------------------------


def _lay_out(root: Path, case: AuthorCase, before: Leftovers, task: str) -> None:
    """Writes the task, the harness with the edits so far, and the evidence."""
    files: dict[str, bytes | None] = {
        f"{HARNESS}/{path}": data
        for path, data in {**case.brief.tree.files, **before.edits}.items()
    }
    files |= {f"evidence/{path}": data for path, data in case.evidence.items()}
    files["TASK.md"] = task.encode()
    if before.hypothesis is not None:
        files[HYPOTHESIS] = before.hypothesis.encode("utf-8", "replace")
    for path, data in files.items():
        if data is not None:
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)


def _left_in(root: Path, base: Mapping[str, bytes], session: Session) -> Leftovers:
    """Reads the files that a session left, as plain bytes."""
    edits: Edits = {}
    text, refusal = None, None
    try:
        text = _hypothesis_text(root)
        files = dict(_plain_files(root / HARNESS, base))
        edits = {path: data for path, data in files.items() if base.get(path) != data}
        edits |= dict.fromkeys(base.keys() - files.keys())
    except CandidateError as error:
        refusal = (error.reason, str(error))
    except OSError as error:  # something of the session still moves files
        refusal = ("unreadable", f"the folder cannot be read: {error.strerror}")
    return Leftovers(edits, text, session.ending, refusal, session.usage)


def _hypothesis_text(root: Path) -> str | None:
    if not root.is_dir():
        return None
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        data = _content(handle, HYPOTHESIS, HYPOTHESIS, _HYPOTHESIS_BYTES)
    except FileNotFoundError:
        return None
    finally:
        os.close(handle)
    return data.decode("utf-8", "replace")


def _plain_files(root: Path, base: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yields the regular files below a folder. Raises CandidateError for anything else there.

    A folder that holds repositories, environments or caches is passed over, unless the version has
    files in it. Each file is opened from its folder's handle, so no link is ever followed.
    """
    limits = AdmissionLimits()
    count = size = 0
    in_use = {part for path in base for part in path.split("/")[:-1]}
    walk = os.fwalk(root, follow_symlinks=False) if root.is_dir() else ()
    for top, folders, names, handle in walk:
        if len(Path(top).relative_to(root).parts) > limits.path_bytes // 2:
            raise CandidateError(
                f"the candidate's folder has folders inside each other, over "
                f"{limits.path_bytes // 2} deep; leave fewer there",
                reason="too_deep",
            )
        folders[:] = sorted(set(folders) - (SKIPPED_FOLDERS - in_use) - {".git"})
        links = [name for name in folders if _is_link(handle, name)]
        for name in [*links, *sorted(set(names) - {".git"})]:
            path = (Path(top) / name).relative_to(root).as_posix()
            data = _content(handle, name, path, limits.file_bytes)
            count, size = count + 1, size + len(data)
            if count > limits.files or size > limits.total_bytes:
                raise CandidateError(
                    f"the candidate's folder has over {limits.files} files or "
                    f"{limits.total_bytes} bytes; leave less there",
                    reason="too_many_files",
                )
            yield path, data


def _is_link(folder: int, name: str) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _content(folder: int, name: str, path: str, most: int) -> bytes:
    """Returns a regular file's bytes. Raises CandidateError for others, or over `most` bytes."""
    printable = visible(path.encode("utf-8", "backslashreplace").decode())
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise CandidateError(
            f"{printable} is not a regular file; leave only regular files",
            reason="not_a_regular_file",
        )
    if printable != path:
        raise CandidateError(f"{printable} is not a plain file name; rename it", reason="path_name")
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise CandidateError(
            f"{printable} has over {most} bytes; shorten it", reason="object_too_large"
        )
    return data


# --- checks ------------------------------------------------------------------------------------


def _checked(work: _Work, leftovers: Leftovers) -> tuple[Hypothesis, str]:
    """Returns the hypothesis that a session left and its subject. Raises CandidateError."""
    if leftovers.refusal is not None:
        raise CandidateError(leftovers.refusal[1], reason=leftovers.refusal[0])
    if leftovers.hypothesis is None:
        if leftovers.ending in _LIMIT_WORDS:
            raise CandidateError(_LIMIT_WORDS[leftovers.ending], reason=leftovers.ending)
        raise CandidateError(f"the file {HYPOTHESIS} is missing; write it", reason="no_hypothesis")
    hypothesis, subject = _hypothesis(work, leftovers.hypothesis)
    files = {**work.case.brief.tree.files, **leftovers.edits}
    draft = draft_of({path: data for path, data in files.items() if data is not None})
    host = work.case.brief.host
    work.case.require_fit(leftovers.edits, hypothesis.factor, lambda: host.contract_tests(draft))
    return hypothesis, subject


def _hypothesis(work: _Work, text: str) -> tuple[Hypothesis, str]:
    try:
        row = document(text, object_hook=_plain_path)
        if not isinstance(row, dict):
            raise ToolError("the file must hold one JSON object; write it anew")
        if not work.case.brief.invalid and row.get("nothing_to_try"):
            raise _NothingToTry(visible(line_of(row, "nothing_to_try", 500)))
        idea = idea_of(work.case, row)
        subject = visible(line_of(row, "subject", 200))[:_SUBJECT]
    except (ValueError, RecursionError, ToolError) as error:
        raise CandidateError(f"{HYPOTHESIS}: {error}", reason="bad_hypothesis") from error
    if work.revised is not None:  # a revision stays about what it was about
        fixed = {name: getattr(work.revised, name) for name in ("factor", "metric", "direction")}
        return replace(idea.hypothesis, **fixed), subject
    return idea.hypothesis, subject


def _plain_path(row: dict[str, JSON]) -> dict[str, JSON]:
    """Returns a quotation with its path as the harness has it."""
    path = row.get("path")
    return {**row, "path": path.removeprefix(f"{HARNESS}/")} if isinstance(path, str) else row
