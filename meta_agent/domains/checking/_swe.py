"""Checks repository tasks by the gold patch, the empty one, and patches that cheat."""

from __future__ import annotations

from functools import partial

from meta_agent.core.protocols import Outcome
from meta_agent.domains.checking._cheats import CHEATS
from meta_agent.domains.checking._subject import Subject, Subjects
from meta_agent.domains.formats import SweRow, semantic_key
from meta_agent.domains.swe import RealSwe

_NO_GOLD = "the row has no gold patch, so nothing shows that the task can be solved"


def subjects_of(domain: RealSwe) -> Subjects:
    """Returns the patches that a check grades at each repository task: gold, empty and cheats."""
    rows = domain.rows.values()
    sources = [row.source for row in rows if row.source]
    pairs = {(source.archive, source.sha256) for source in sources if source.archive}
    return Subjects(
        domain,
        columns=("gold", "empty", *CHEATS),
        tasks=tuple(_subject(domain, row) for row in rows),
        archives=tuple(sorted(pairs)),
        evidence=lambda outcome: (
            *map(str, outcome.detail["not_passing"][:3]),
            *map(str, outcome.detail["evidence"][:3]),
        ),
    )


def _subject(domain: RealSwe, row: SweRow) -> Subject:
    key, statement = row.instance_id, row.problem_statement
    patches = {"empty": ""} if row.patch is None else {"gold": row.patch, "empty": ""}
    tests = f"{len(row.fail_to_pass)}+{len(row.pass_to_pass)}"
    return Subject(
        *(key, row.split, row.line, statement),
        marks=(
            semantic_key(row.repo, row.patch, statement),
            f"text {row.repo} {' '.join(statement.split())}",
        ),
        size=f"{tests} tests",
        attempts={
            **{n: partial(domain.regrade, key, {"patch": text}) for n, text in patches.items()},
            **{name: partial(_cheat, domain, key, name) for name in CHEATS},
        },
        complaints=(_NO_GOLD,) if row.patch is None else (),
    )


def _cheat(domain: RealSwe, key: str, name: str) -> Outcome:
    return domain.regrade(key, {"patch": CHEATS[name](domain.files(key))})
