"""Imports an agent as the harness of a workspace, and checks it before money is spent.

Its files are copied into the harness repository as one commit, which names their source. The
original is only read. A `harness.toml` among the files is used as it is. If there is none, it is
written from the owner's answers (`Answers`), and for the rest from what the files suggest.
If the policy is to be trained, a folder of ours beside the agent says how (`TRAINING_FOLDER`).

Not covered: the agent's packages, which come from its image (`meta-agent sandbox build`).
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import tomlkit

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.harness import (
    CONTRACT_FILE,
    RECIPE_FILE,
    TRAINING_FOLDER,
    CheckResult,
    HarnessContract,
    Opener,
    matches,
    open_session,
    parse_contract,
)
from meta_agent.core.history import IMPORT_TRAILER, HarnessRepo, read_foreign, with_trailers
from meta_agent.core.protocols import Factor, HarnessTree, Sandbox
from meta_agent.core.workspace import BUILT_IN_HARNESSES, open_workspace
from meta_agent.sandboxes import open_sandbox, resolve_backend

SUBJECT: Final = "feat: the agent this workspace starts from"
CHECK_SEC: Final = 300.0
# Files that an agent's author rarely wants edited. Patterns without a match are not written.
PROTECTED: Final = (
    *("tests/**", "test/**", "docs/**", "LICENSE*", "COPYING*", "NOTICE*", "README*"),
    *("CHANGELOG*", "pyproject.toml", "setup.py", "setup.cfg", "requirements*.txt", "uv.lock"),
    *("poetry.lock", "package.json", "package-lock.json", "Dockerfile*", "Makefile"),
)
STARTERS: Final = ("agent.py", "main.py", "run.py", "app.py", "cli.py", "run.sh", "agent.sh")
PROMPTS: Final = (
    *("**/*prompt*", "**/*.jinja", "**/*.jinja2", "**/*.j2", "**/*.prompt"),
    *("**/*.yaml", "**/*.yml", "**/config*.toml", "**/config*.json"),
)
TRAINING_FILES: Final[Mapping[Factor, str]] = {
    "reward": "reward.py",
    "filter": "filter.py",
    "data": "curriculum.py",
    "recipe": RECIPE_FILE,
}
"""Maps each factor of training (a part of a harness) to its file in a shipped harness."""
Choose = Callable[[list["Start"]], "Start | None"]


@dataclass(frozen=True, slots=True)
class Answers:
    """What a user says about an agent to import. Empty fields are guessed from its files."""

    command: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    image: str = ""
    leave_out: tuple[str, ...] = ()

    @property
    def about_contract(self) -> bool:
        """Returns True if a command, editable or protected paths, or an image was given."""
        return bool(self.command or self.editable or self.protected or self.image)


NO_ANSWERS: Final = Answers()


@dataclass(frozen=True, slots=True)
class Start:
    """A command that may start an imported agent, why it may, and its environment variables."""

    command: tuple[str, ...]
    why: str
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """Returns the command as one line, quoted for a shell."""
        return shlex.join(self.command)


class Brought(NamedTuple):
    """An imported agent as a harness: its files, its commit message, and notes for the user."""

    files: dict[str, bytes]
    message: str
    notes: tuple[str, ...]


def is_brought(harness: str) -> bool:
    """Returns True if `harness` (the setting) names an agent to import and no built-in harness."""
    return harness not in BUILT_IN_HARNESSES


def bring(
    source: str,
    answers: Answers = NO_ANSWERS,
    *,
    choose: Choose = lambda _: None,
    training: Mapping[str, bytes] | None = None,
) -> Brought:
    """Reads an agent's files and returns them as a harness.

    `choose` picks one of several possible start commands. `training` holds files of a shipped
    harness, which are added if the agent does not say how a policy is trained. Raises ConfigError
    if flags contradict its harness.toml, or if no command is chosen.
    """
    foreign = read_foreign(source, leave_out=answers.leave_out)
    files = dict(foreign.files)
    notes = [f"not taken: {path} ({why})" for path, why in sorted(foreign.left_out.items())]
    notes += [f"taken as committed, not as changed: {path}" for path in foreign.uncommitted]
    if CONTRACT_FILE in files:
        if answers.about_contract:
            raise ConfigError(
                f"{source} has a {CONTRACT_FILE}, so it cannot also be "
                "described by --command, --editable, --protected or --image",
                hint=f"leave these flags out, or ignore the file: --leave-out {CONTRACT_FILE}",
            )
    else:
        text, contract_notes = _describe(source, files, answers, choose)
        files[CONTRACT_FILE] = text.encode()
        notes = [*contract_notes, *notes]
    contract = parse_contract(HarnessTree("", "", files))
    if training is not None and contract.command and "recipe" not in contract.factors:
        written = _with_training(files[CONTRACT_FILE].decode(), contract, training)
        files = {**written, **files, CONTRACT_FILE: written[CONTRACT_FILE]}
        notes.append(f"how the policy is trained: {TRAINING_FOLDER}/, which the agent does not see")
        parse_contract(HarnessTree("", "", files))
    trailers = {"Imported-From": foreign.source, IMPORT_TRAILER: foreign.commit or ""}
    return Brought(files, with_trailers(SUBJECT, trailers), tuple(notes))


def check_workspace(config: RunConfig) -> list[CheckResult]:
    """Starts the promoted harness of the workspace in a sandbox, without a model."""
    backend = resolve_backend(
        config.sandbox, code_by_llm=True, allow_unsafe=config.allow_unsafe_process
    )
    repo = HarnessRepo.open(open_workspace(config.workspace).harness_repo)

    def opened(name: str | None) -> Sandbox:
        return open_sandbox(backend, run="check", image=name)

    return check_harness(repo.tree(repo.head()), opened)


def create_brought(
    path: Path,
    source: str,
    answers: Answers = NO_ANSWERS,
    *,
    choose: Choose = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
    training: Mapping[str, bytes] | None = None,
) -> HarnessRepo:
    """Creates the harness repository at `path` from the agent at `source`, and returns it.

    `tell` receives notes for the user. Other arguments and errors are those of `bring`.
    """
    brought = bring(source, answers, choose=choose, training=training)
    for note in brought.notes:
        tell(note)
    return HarnessRepo.create(path, brought.files, brought.message)


# --- writing harness.toml -----------------------------------------------------------------------


def _describe(
    source: str, files: Mapping[str, bytes], answers: Answers, choose: Choose
) -> tuple[str, list[str]]:
    start = _start(source, files, answers, choose)
    protected = answers.protected or _present(PROTECTED, files)
    editable = answers.editable or ("**",)
    name = PurePosixPath(source.rstrip("/").removesuffix(".git")).name or "agent"
    table: dict[str, Any] = {
        "name": name,
        "command": list(start.command),
        "image": answers.image or "base",
        "editable": list(editable),
        "protected": list(protected),
    }
    if start.env:
        table["env"] = dict(start.env)
    document = {"harness": table, "factors": {"scaffold": list(editable)}}
    prompts = sorted(path for path in files if any(matches(pattern, path) for pattern in PROMPTS))
    notes = [f"command: {start.line} ({start.why})"]
    notes.append(f"prompts and settings found: {', '.join(prompts[:8]) or 'none'}")
    notes.append(f"editable: {', '.join(editable)}; protected: {', '.join(protected) or 'none'}")
    return tomlkit.dumps(document), notes


def _with_training(
    text: str, contract: HarnessContract, shipped: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Returns the training files whose factors the agent lacks, and a harness.toml with them."""
    document: Any = tomlkit.parse(text)
    files: dict[str, bytes] = {}
    for factor, name in TRAINING_FILES.items():
        if factor not in contract.factors:
            path = f"{TRAINING_FOLDER}/{name}"
            document["factors"][factor] = [path]
            files[path] = next(data for p, data in shipped.items() if p.endswith(f"/{name}"))
    document["harness"]["editable"].append(f"{TRAINING_FOLDER}/**")
    return {CONTRACT_FILE: tomlkit.dumps(document).encode(), **files}


def _start(source: str, files: Mapping[str, bytes], answers: Answers, choose: Choose) -> Start:
    if answers.command:
        return Start(answers.command, "from --command")
    candidates = starts(files)
    chosen = candidates[0] if len(candidates) == 1 else choose(candidates)
    if chosen is None:
        listed = "; ".join(f"{start.line} ({start.why})" for start in candidates) or "none"
        raise ConfigError(
            f"cannot tell which command starts the agent in {source}; possible: {listed}",
            hint='give the command: --command "python3 {harness}/FILE.py {prompt}"',
        )
    return chosen


def starts(files: Mapping[str, bytes]) -> list[Start]:
    """Returns the commands that may start an agent, going by its files; empty if none is found."""
    declared = [*_scripts(files), *_modules(files)]
    if declared:
        return declared
    return [
        Start((_interpreter(name), f"{{harness}}/{name}", "{prompt}"), name)
        for name in STARTERS
        if name in files
    ]


def _scripts(files: Mapping[str, bytes]) -> list[Start]:
    """Returns commands for the scripts in a pyproject.toml. They run the imported files."""
    try:
        project = tomllib.loads(files.get("pyproject.toml", b"").decode("utf-8"))
        scripts = dict(project.get("project", {}).get("scripts", {}))
    except (ValueError, AttributeError, TypeError):
        return []
    script_starts = []
    for name, target in sorted(scripts.items()):
        module, colon, function = str(target).partition(":")
        if colon and module.replace(".", "").isidentifier() and function.isidentifier():
            code = f"import sys; from {module} import {function}; sys.exit({function}())"
            env = {"PYTHONPATH": _import_root(files, module)}
            script_starts.append(Start(("python3", "-c", code, "{prompt}"), f"script {name}", env))
    return script_starts


def _modules(files: Mapping[str, bytes]) -> list[Start]:
    module_starts = []
    for path in sorted(files):
        parts = PurePosixPath(path).parts
        if parts[-1] == "__main__.py" and len(parts) == 2 + (parts[0] == "src"):
            root = "{harness}/src" if parts[0] == "src" else "{harness}"
            command = ("python3", "-m", parts[-2], "{prompt}")
            module_starts.append(Start(command, path, {"PYTHONPATH": root}))
    return module_starts


def _import_root(files: Mapping[str, bytes], module: str) -> str:
    top = module.split(".")[0]
    inside = any(path.startswith((f"src/{top}/", f"src/{top}.py")) for path in files)
    return "{harness}/src" if inside else "{harness}"


def _interpreter(name: str) -> str:
    return "sh" if name.endswith(".sh") else "python3"


def _present(patterns: Sequence[str], files: Mapping[str, bytes]) -> tuple[str, ...]:
    return tuple(pattern for pattern in patterns if any(matches(pattern, path) for path in files))


# --- checking a harness -------------------------------------------------------------------------


def check_harness(tree: HarnessTree, opener: Opener) -> list[CheckResult]:
    """Tests a harness's interface and, if that passes, runs its `check`; returns the results."""
    contract = parse_contract(tree)
    rows = [CheckResult(CONTRACT_FILE, True)]
    with open_session(tree, opener) as session:
        rows += session.check([], [])
    if contract.check and all(row.ok for row in rows):
        rows.append(_own_check(tree, contract, opener))
    return rows


def _own_check(tree: HarnessTree, contract: HarnessContract, opener: Opener) -> CheckResult:
    sandbox: Sandbox = opener(None if contract.image == "base" else contract.image)
    try:
        sandbox.write({f"harness/{path}": data for path, data in tree.files.items()})
        ran = sandbox.exec(contract.check, cwd="harness", timeout_sec=CHECK_SEC)
    finally:
        sandbox.close()
    output = (ran.stdout + ran.stderr).decode("utf-8", "replace").strip()[-1000:]
    name = f"check: {shlex.join(contract.check)}"
    ended = f"exit {ran.exit_code}" + (", out of time" if ran.timed_out else "")
    return CheckResult(name, ran.exit_code == 0, "" if ran.exit_code == 0 else f"{ended}\n{output}")
