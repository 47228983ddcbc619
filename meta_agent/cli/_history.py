"""Commands for the history of a harness: diff, revert."""

from __future__ import annotations

from meta_agent.cli._options import (
    JsonOption,
    MaybeName,
    NameArgument,
    WorkspaceOption,
    workspace_root,
)
from meta_agent.cli._output import emit
from meta_agent.cli._review import reading


def diff(
    name: NameArgument,
    other: MaybeName = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a candidate, version or commit changed, or the diff of two of them."""
    from meta_agent.core.history import HarnessRepo
    from meta_agent.reports.terminal.paint import patch_text
    from meta_agent.studies.story import resolve

    with reading(workspace) as (place, ledger):
        # Not `HarnessRepo.open`: that mends what a killed run left, which is the owner's to do.
        repo = HarnessRepo(place.harness_repo)
        what = resolve(repo, ledger, name)
        second = resolve(repo, ledger, other) if other else None
    before, after = (what.commit, second.commit) if second else (what.before(repo), what.commit)
    patch = repo.diff(before, after)
    document = {"schema_version": 1, "id": what.name, "base": before, "commit": after}
    emit(as_json, lambda: {**document, "diff": patch}, lambda: patch_text(patch), paged=True)


def revert(
    name: NameArgument, workspace: WorkspaceOption = None, as_json: JsonOption = False
) -> None:
    """Revert a candidate, version or commit on main. The next run measures what is left."""
    from meta_agent.core.ledger import Ledger
    from meta_agent.core.workspace import open_workspace
    from meta_agent.reports.terminal.text import reverted
    from meta_agent.studies.story import revert as take_back

    place = open_workspace(workspace_root(workspace))
    with Ledger.open(place.ledger_file) as ledger:
        done = take_back(place, ledger, name)
    document = {"schema_version": 1, "reverted": done}
    emit(as_json, lambda: document, lambda: reverted(done, str(place.root)))
