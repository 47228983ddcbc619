"""Commands about skills: look at them, look for them, try them, and share them.

No script of a skill is run by any of these: a trigger is a table that is read out of its file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meta_agent.cli._flags import FLAGS, resolve_flags, takes
from meta_agent.cli._options import JsonOption, WorkspaceOption
from meta_agent.cli._output import Pulse, emit, stdout_for_data
from meta_agent.cli._rollouts import FieldsOption, RolloutsOption, SolvedAtOption

if TYPE_CHECKING:
    from meta_agent.core.config import RunConfig
    from meta_agent.core.protocols import JSON
    from meta_agent.core.skills import Skill
    from meta_agent.skills import SkillLibrary

skills_app = typer.Typer(
    help="Show, find, try and share skills.", no_args_is_help=True, rich_markup_mode=None
)

LibraryOption = Annotated[
    Path | None,
    typer.Option("--library", help="Skills library. [default: the workspace's]"),
]


def _names_here(context: typer.Context, begun: str) -> list[str]:
    """Returns a shell completion of the present skills."""
    try:
        place = _library(context.params.get("library"), context.params.get("workspace"))
        return [skill.name for skill in place.all() if skill.name.startswith(begun)]
    except Exception:
        return []  # a shell that waits for words is no place for a sentence


NameArgument = Annotated[
    str,
    typer.Argument(
        help="A skill, by its name or an unambiguous beginning of it.", autocompletion=_names_here
    ),
]


@skills_app.command("list")
def list_skills(
    library: LibraryOption = None, workspace: WorkspaceOption = None, as_json: JsonOption = False
) -> None:
    """List all skills, also shipped ones, with their standing and the results of trials."""
    from meta_agent.reports.terminal.skills import table

    place = _library(library, workspace)
    rows = [_row(place, skill) for skill in place.all()]
    document = {"schema_version": 1, "library": str(place.path), "skills": rows}
    emit(as_json, lambda: document, lambda: table(rows), paged=True)


@skills_app.command()
def show(
    name: NameArgument,
    library: LibraryOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a skill with its text, trigger, trials and origin."""
    from meta_agent.reports.terminal.skills import whole
    from meta_agent.skills.worth import trials

    place = _library(library, workspace)
    skill = place.skill(name)
    own_trials = [trial for trial in trials(place.path) if trial.skill == skill.name]
    document = {
        "schema_version": 1,
        **_row(place, skill),
        "metadata": dict(skill.metadata),
        "body": skill.body,
        "trials": [{**_plain(trial), "words": trial.words} for trial in own_trials],
    }
    emit(as_json, lambda: document, lambda: whole(document), paged=True)


@skills_app.command()
def search(
    words: Annotated[
        list[str] | None, typer.Argument(help="Words that the skill should be about.")
    ] = None,
    rollouts: RolloutsOption = None,
    solved_at: SolvedAtOption = None,
    fields: FieldsOption = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="The most skills to list.")] = 3,
    library: LibraryOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find skills whose trigger appears in rollouts, then those whose words match."""
    from meta_agent.core.errors import ConfigError
    from meta_agent.reports.terminal.skills import matches as drawing
    from meta_agent.skills import search as looked_for

    text = " ".join(words or ())
    if not text and not rollouts:
        raise ConfigError(
            "nothing to look for", hint="meta-agent skills search WORDS, or --rollouts FILE"
        )
    with stdout_for_data():
        report = _report(rollouts, solved_at, fields) if rollouts else None
    place = _library(library, workspace)
    skills = place.all()
    hits, not_looked = looked_for(skills, text, report, limit)
    rows = [
        {**_row(place, hit.skill), "shows": dict(hit.shows), "not_looked_at": list(hit.unseen)}
        for hit in hits
    ]
    document = {
        "schema_version": 1,
        "words": text,
        "found": rows,
        "not_looked_for": dict(not_looked),
    }
    emit(as_json, lambda: document, lambda: drawing(rows, list(not_looked), len(skills)))


@skills_app.command()
def validate(
    paths: Annotated[list[Path] | None, typer.Argument(help="Folders of skills.")] = None,
    library: LibraryOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report what public validators refuse, and more. Exits with 1 if there is a problem."""
    from meta_agent.reports.terminal.text import lines
    from meta_agent.skills import validate as problems_of

    folders = list(paths or ())
    folders = folders or [skill.path for skill in _library(library, workspace).all()]
    problems = {str(folder): problems_of(folder) for folder in folders}
    text = [f"{name}: {'; '.join(reasons) or 'valid'}" for name, reasons in problems.items()]
    document = {"schema_version": 1, "ok": not any(problems.values()), "problems": problems}
    emit(as_json, lambda: document, lambda: lines(text or ["there is no skill"]))
    if not document["ok"]:
        raise typer.Exit(1)


@skills_app.command()
@takes(*(name for name in FLAGS if name not in ("strategy", "skills")))
def trial(
    config: RunConfig,
    name: NameArgument,
    seeds: Annotated[int, typer.Option(min=1, help="Pairs of runs, from --seed upwards.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder of the runs. The same command resumes.")] = Path(
        "skill-trials"
    ),
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run with and without a skill at equal budget, and set its standing from the results."""
    from meta_agent.composition.evolve import evolve
    from meta_agent.composition.used import require_used
    from meta_agent.reports.terminal.display import beside
    from meta_agent.reports.terminal.text import facts
    from meta_agent.skills.worth import record
    from meta_agent.studies.conditions import carry_out
    from meta_agent.studies.conditions_results import report, results_of
    from meta_agent.studies.skill_trials import declare_trial, trial_of

    require_used(config)
    place = _library(library, config.workspace)
    skill = place.skill(name)
    folder = out.expanduser().absolute() / f"{skill.name}-{config.domain.replace(':', '-')}"
    with stdout_for_data():
        comparison = declare_trial(config, [skill], seeds, folder)
        stopped = list(carry_out(comparison, evolve, beside()).values())
        if stopped:
            raise stopped[0]
        results = results_of(comparison)
        outcome = trial_of(skill, comparison, results, report(comparison, results))
        place.path.mkdir(parents=True, exist_ok=True)
        standing = record(place, outcome)
    document = {
        "schema_version": 1,
        **_plain(outcome),
        "before": skill.status,
        "standing": standing,
    }
    summary = {"skill": skill.name, "trial": outcome.words, "before": skill.status, "now": standing}
    emit(as_json, lambda: document, lambda: facts(summary))


@skills_app.command()
def retire(
    name: NameArgument,
    library: LibraryOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Retire a skill. The library keeps it in its folder .retired."""
    from meta_agent.core.errors import ConfigError
    from meta_agent.reports.terminal.text import facts

    place = _library(library, workspace)
    skill = place.skill(name)
    if not place.path.is_dir():
        raise ConfigError(
            f"{skill.name} is shipped with meta-agent; no library at {place.path} can leave it out",
            hint="meta-agent init, or name a library with --library",
        )
    rows = {"schema_version": 1, "skill": skill.name, "moved_to": str(place.retire(skill.name))}
    emit(as_json, lambda: rows, lambda: facts(rows))


@skills_app.command()
def export(
    names: Annotated[
        list[str] | None, typer.Argument(help="Default: all that are not in quarantine.")
    ] = None,
    into: Annotated[Path, typer.Option(help="Folder of the project.")] = Path(),
    library: LibraryOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy skills to a project for coding agents: .agents/skills and .claude/skills."""
    from meta_agent.reports.terminal.text import lines
    from meta_agent.skills import export as hand_on

    place = _library(library, workspace)
    written = [str(path) for path in hand_on(place, into.absolute(), names or ())]
    emit(as_json, lambda: {"schema_version": 1, "written": written}, lambda: lines(written))


@skills_app.command()
def add(
    source: Annotated[
        str, typer.Argument(help="A folder, or the https:// address of a repository.")
    ],
    library: LibraryOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import skills into quarantine, with origin, digest and licence. Runs nothing."""
    from meta_agent.skills.exchange import take_in

    with stdout_for_data():
        taken = take_in(_library(library, workspace), source)
    _show_exchanged(taken, [], as_json)


@skills_app.command()
def sync(
    source: Annotated[
        str, typer.Argument(help="A shared library: a folder, or an https:// address.")
    ],
    library: LibraryOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import new skills of a shared library. A plain folder also gets the trials made here."""
    from meta_agent.skills.exchange import level

    with stdout_for_data():
        taken, handed_out = level(_library(library, workspace), source)
    _show_exchanged(taken, handed_out, as_json)


def _show_exchanged(taken: list[Any], handed_out: list[str], as_json: bool) -> None:
    from meta_agent.reports.terminal.text import lines

    rows = [skill._asdict() for skill in taken]
    text = [
        f"{skill.name}: refused: {skill.refused}"
        if skill.refused
        else f"{skill.name}: in quarantine{''.join(f'; {warning}' for warning in skill.warnings)}"
        for skill in taken
    ]
    text += [f"{name}: given" for name in handed_out]
    document = {"schema_version": 1, "taken": rows, "given": handed_out}
    emit(as_json, lambda: document, lambda: lines(text or ["nothing new"]))
    if taken and all(skill.refused for skill in taken):
        raise typer.Exit(1)


def _library(library: Path | None, workspace: Path | None) -> SkillLibrary:
    from meta_agent.core.resources import resource_dir
    from meta_agent.skills import SkillLibrary

    path = library or resolve_flags(workspace=workspace).skills_library
    return SkillLibrary(path.expanduser().absolute(), resource_dir("skills_library"))


def _row(place: SkillLibrary, skill: Skill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "description": skill.description,
        "status": skill.status,
        "kind": skill.kind,
        "domain": skill.domain,
        "worth": skill.get("worth"),
        "origin": skill.get("origin") or ("" if skill.path.parent == place.path else "meta-agent"),
        "licence": skill.get("licence"),
        "path": str(skill.path),
        "warnings": list(skill.warnings),
    }


def _plain(trial: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(trial)


def _report(files: list[Path], solved_at: float | None, fields: str | None) -> JSON:
    """What `report --rollouts` reads."""
    from meta_agent.readers.evidence import read_foreign
    from meta_agent.readers.formats import by_our_names, judged, read_rollouts

    with by_our_names(files, fields) as renamed:
        rollouts = judged(read_rollouts(*renamed), solved_at)
        return read_foreign(Pulse("rollouts").over(rollouts)).to_json()
