"""Commands about skills: show, try and share them. None of these runs a skill's script."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meta_agent.cli._flags import resolve_flags, takes
from meta_agent.cli._options import JsonOption, WorkspaceOption
from meta_agent.cli._output import emit, stdout_for_data
from meta_agent.core.setting_table import SETTINGS

if TYPE_CHECKING:
    from meta_agent.core.config import RunConfig
    from meta_agent.core.skills import Skill
    from meta_agent.skills import SkillLibrary

LibraryOption = Annotated[
    Path | None, typer.Option("--library", help="Skills library. [default: the workspace's]")
]


def _names_here(context: typer.Context, begun: str) -> list[str]:
    """Returns the names of skills that begin so, for a shell's completion."""
    try:
        place = _library(context.params.get("library"), context.params.get("workspace"))
        return [skill.name for skill in place.all() if skill.name.startswith(begun)]
    except Exception:
        return []  # a shell that waits for words is no place for a sentence


NAME = typer.Argument(
    help="A skill, by its name or an unambiguous beginning of it.",
    show_default=False,
    autocompletion=_names_here,
)


def skills(
    names: Annotated[list[str] | None, NAME] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            help="Copy skills to this project for coding agents: .agents/skills, .claude/skills. "
            "Default: all that are not in quarantine.",
            show_default=False,
        ),
    ] = None,
    library: LibraryOption = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """List skills, show one with its text and trials, or copy them --into a project."""
    place = _library(library, workspace)
    if into is not None:
        from meta_agent.reports.terminal.paint import lines
        from meta_agent.skills import export

        written = [str(path) for path in export(place, into.absolute(), names or ())]
        emit(as_json, lambda: {"schema_version": 1, "written": written}, lambda: lines(written))
    elif names:
        _show_skills(place, names, as_json)
    else:
        _list_skills(place, as_json)


def _list_skills(place: SkillLibrary, as_json: bool) -> None:
    from meta_agent.reports import visible
    from meta_agent.reports.terminal.text import skills_table

    rows = [_row(place, skill) for skill in place.all()]
    unreadable = place.unreadable()
    listing = {
        "schema_version": 1,
        "library": str(place.path),
        "skills": rows,
        "unreadable": unreadable,
    }
    for folder, reason in unreadable.items():
        left_out = f"{place.path / folder} is left out: {reason}"
        typer.echo(f"meta-agent: {visible(left_out)}", err=True)
    emit(as_json, lambda: listing, lambda: skills_table(rows), paged=True)


def _show_skills(place: SkillLibrary, names: list[str], as_json: bool) -> None:
    """Shows one skill, or with --json a document with the list `skills` if there are several."""
    from rich.console import Group

    from meta_agent.reports.terminal.text import skill_page
    from meta_agent.skills.worth import trials

    documents = []
    for skill in map(place.skill, names):
        own_trials = [trial for trial in trials(place.path) if trial.skill == skill.name]
        documents.append(
            {
                "schema_version": 1,
                **_row(place, skill),
                "metadata": dict(skill.metadata),
                "body": skill.body,
                "trials": [{**asdict(trial), "words": trial.words} for trial in own_trials],
            }
        )
    several = {"schema_version": 1, "skills": documents}
    pages = Group(*map(skill_page, documents))
    document = documents[0] if len(documents) == 1 else several
    emit(as_json, lambda: document, lambda: pages, paged=True)


@takes(*(name for name in SETTINGS if name not in ("strategy", "skills")))
def trial(
    config: RunConfig,
    name: Annotated[str, NAME],
    seeds: Annotated[int, typer.Option(min=1, help="Pairs of runs, from --seed upwards.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder of the runs. The same command resumes.")] = Path(
        "skill-trials"
    ),
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare runs with and without a skill at equal budget, and update the skill's status."""
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
        **asdict(outcome),
        "before": skill.status,
        "standing": standing,
    }
    summary = {"skill": skill.name, "trial": outcome.words, "before": skill.status, "now": standing}
    emit(as_json, lambda: document, lambda: facts(summary))


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
