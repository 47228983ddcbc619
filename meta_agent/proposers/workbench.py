"""A sandbox in which a candidate is made: a git clone of the base version, and the evidence beside
it.

Promises: the author works on files, with git as usual. What the files are at the end counts,
committed or not. The host only sees file texts that come back over the sandbox's pipe, and makes a
commit of them itself.

Does not cover: trusting any of it. `HarnessRepo.admit` judges the edits. Evidence is
write-protected against accidents, not against a hostile author, and is never read back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from meta_agent.core.errors import CandidateError, GuestError, SandboxError
from meta_agent.core.history import EMAIL, NAME, HarnessRepo
from meta_agent.core.proposals import Draft, HostServices
from meta_agent.core.protocols import JSON, ExecResult, Hypothesis, Sandbox

REPO, EVIDENCE = "repo", "evidence"
_GONE = "000000"
_REGULAR = frozenset({"100644", "100755", _GONE})
_OUTPUT_BYTES = 8 << 20
_COMMAND_SEC = 60.0
_CONFIG = f"[user]\n\tname = {NAME}\n\temail = {EMAIL}\n[core]\n\tautocrlf = false\n"
# The same command is to print the same text in every sandbox: no dates, pagers or colours.
_STEADY = {"TIME_STYLE": "+", "TZ": "UTC", "GIT_PAGER": "cat", "PAGER": "cat", "NO_COLOR": "1"}


@contextmanager
def open_workbench(
    host: HostServices, index: int, evidence: Mapping[str, bytes]
) -> Iterator[Workbench]:
    """Opens candidate `index`'s sandbox, with harness clone and `evidence`, for a `with` block."""
    with host.sandbox(index) as source:
        sandbox, repo, base, when = source
        yield Workbench(sandbox, repo, base, evidence=evidence, when=when)


def drafted(
    host: HostServices,
    index: int,
    hypothesis: Hypothesis,
    subject: str,
    edits: Mapping[str, bytes | str | None],
    spend: Mapping[str, JSON] | None = None,
) -> Draft:
    """Returns candidate `index` with `edits` (path to content; None: removed).

    `spend` is what the edits cost.
    """
    contents = {p: data.encode() if isinstance(data, str) else data for p, data in edits.items()}
    message = host.message(index, hypothesis, subject)
    return Draft(index, hypothesis, subject, message, contents, spend or {})


class Workbench:
    """A sandbox with a git clone of the harness, in which one candidate is made."""

    def __init__(
        self,
        sandbox: Sandbox,
        repo: HarnessRepo,
        base: str,
        *,
        evidence: Mapping[str, bytes] | None = None,
        when: int | None = None,
    ) -> None:
        """Clones `base` into the sandbox. `when` dates commits there, in Unix seconds.

        By default that is one second after the base, as everywhere in the history.
        """
        self._sandbox = sandbox
        self.base = base
        self._when = repo.when(base) + 1 if when is None else when
        self._cloned = False
        self._clone(repo.pack(base))
        self._cloned = True
        self._lay_out(evidence or {})

    def paths(self) -> list[str]:
        """Returns the paths of the clone's files, tracked or new, sorted."""
        listed = self._git("ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
        return sorted({name for name in listed.decode("utf-8", "replace").split("\0") if name})

    def read(self, path: str) -> str | None:
        """Returns the text of a file of the clone, or None if there is no such file."""
        at = f"{REPO}/{path}"
        data = self._sandbox.read([at]).get(at)
        return None if data is None else data.decode("utf-8", "replace")

    def write(self, path: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        self._sandbox.write({f"{REPO}/{path}": data})

    def remove(self, path: str) -> None:
        self._git("rm", "-q", "-f", "--", path)

    def apply(self, edits: Mapping[str, bytes | str | None]) -> None:
        """Writes files of the clone by path, and removes those whose content is None."""
        for path, data in edits.items():
            if data is None:
                self.remove(path)
            else:
                self.write(path, data)

    def diff(self) -> str:
        """Returns a patch of everything that differs from the base; attributes cannot alter it."""
        self._git("add", "-A", "--", ".")
        argv = ("diff", "--cached", "--text", "--no-ext-diff", "--no-textconv", "--no-renames")
        return self._git(*argv, "--no-color", self.base).stdout.decode("utf-8", "replace")

    def changed(self) -> dict[str, str]:
        """Returns the git mode of each path that differs from the base; 000000: removed.

        Raises CandidateError if none does, or if one is no regular file.
        """
        self._git("add", "-A", "--", ".")
        argv = ("diff", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", self.base)
        words = self._git(*argv).stdout.decode("utf-8", "replace").split("\0")
        changed = {path: _mode(facts) for facts, path in _in_pairs(words)}
        if not changed:
            raise CandidateError("the edit changes no file; change at least one", reason="empty")
        odd = next((path for path, mode in changed.items() if mode not in _REGULAR), None)
        if odd is not None:
            message = f"{odd} is not a regular file (git mode {changed[odd]})"
            raise CandidateError(message, reason="not_a_regular_file")
        return changed

    def edits(self) -> dict[str, bytes | None]:
        """Returns the contents of all files that differ from the base, by path; None: removed.

        Raises CandidateError if none does, or if a file cannot be taken.
        """
        changed = self.changed()
        paths = [path for path, mode in changed.items() if mode != _GONE]
        contents = self._read_all(paths)
        if unreadable := [path for path in paths if path not in contents]:
            raise CandidateError(
                f"{unreadable[0]!r} cannot be read: use letters and digits in its name",
                reason="path_name",
            )
        return {path: contents.get(path) for path in changed}

    def files(self) -> dict[str, bytes]:
        """Returns the clone's regular files by path. Raises CandidateError if unreadable."""
        return self._read_all(self.paths())

    def _read_all(self, paths: Sequence[str]) -> dict[str, bytes]:
        places = {f"{REPO}/{path}": path for path in paths}
        try:
            texts = self._sandbox.read(list(places))
        except GuestError as error:
            raise CandidateError(
                f"the idea is dropped: its files cannot be read: {error}", reason="unreadable"
            ) from error
        return {places[at]: data for at, data in texts.items()}

    def shell(self, command: str, *, timeout_sec: float, output_limit_bytes: int) -> ExecResult:
        return self._sandbox.exec(
            ["sh", "-c", command],
            cwd=REPO,
            env={**self._environment(), **_STEADY},
            timeout_sec=timeout_sec,
            output_limit_bytes=output_limit_bytes,
        )

    def _clone(self, pack: bytes) -> None:
        # The base comes without its parents: a shallow clone, as `git clone --depth 1` makes.
        files = {"config": _CONFIG, "shallow": f"{self.base}\n"}
        self._sandbox.write({f"{REPO}/.git/{name}": text.encode() for name, text in files.items()})
        self._git("init", "-q", "--initial-branch=candidate", "--template=")
        self._git("unpack-objects", "-q", stdin=pack)
        self._git("reset", "-q", "--hard", self.base)

    def _lay_out(self, evidence: Mapping[str, bytes]) -> None:
        if evidence:
            self._sandbox.write({f"{EVIDENCE}/{path}": data for path, data in evidence.items()})
            self._run(["chmod", "-R", "a-w", f"../{EVIDENCE}"])

    def _git(self, *argv: str, stdin: bytes = b"") -> ExecResult:
        try:
            ran = self._run(["git", *argv], stdin)
        except GuestError as error:  # its folder is gone, for one
            message = f"git {argv[0]} cannot be run in the sandbox: {error}"
            raise CandidateError(message, reason="git_failed") from error
        if ran.timed_out:
            raise SandboxError(
                f"git {argv[0]} took over {_COMMAND_SEC:.0f} s in the sandbox and was killed",
                kind="timeout",
                hint="run the same command again: it resumes",
            )
        if ran.exit_code == 127 and not self._cloned:
            raise SandboxError(
                "the sandbox's image has no git", kind="image", hint="check it: meta-agent doctor"
            )
        if ran.exit_code != 0:
            stderr = ran.stderr.decode("utf-8", "replace").strip()[-300:]
            raise CandidateError(
                f"git {argv[0]} failed on the proposed change, in its sandbox: {stderr}",
                reason="git_failed",
                hint="the idea is dropped; meta-agent why CANDIDATE shows what it changed",
            )
        return ran

    def _run(self, argv: Sequence[str], stdin: bytes = b"") -> ExecResult:
        return self._sandbox.exec(
            argv,
            cwd=REPO,
            env=self._environment(),
            stdin=stdin,
            timeout_sec=_COMMAND_SEC,
            output_limit_bytes=_OUTPUT_BYTES,
        )

    def _environment(self) -> dict[str, str]:
        date = f"{self._when} +0000"
        return {
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
            "GIT_AUTHOR_NAME": NAME,
            "GIT_AUTHOR_EMAIL": EMAIL,
            "GIT_COMMITTER_NAME": NAME,
            "GIT_COMMITTER_EMAIL": EMAIL,
            "LC_ALL": "C",
        }


def _mode(facts: str) -> str:
    """Returns the mode after a change, from a raw diff line `:100644 100755 ...`."""
    words = facts.split()
    if len(words) < 2:
        raise CandidateError(f"git diff printed a bad line: {facts[:60]!r}", reason="git_failed")
    return words[1]


def _in_pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """Returns (first, second), (third, fourth), ...; drops what is left over."""
    return list(zip(words[::2], words[1::2], strict=False))
