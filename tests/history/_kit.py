"""A small harness, and edits of it that the host is asked to commit."""

from __future__ import annotations

from collections.abc import Mapping

from meta_agent.core.history import AdmissionLimits, AdmittedCommit, HarnessRepo

SEED = {
    "harness.toml": b'[harness]\nname = "toy"\n',
    "swe/agent.py": b"MAX_TURNS = 4\n",
    "swe/reward.py": b"WEIGHTS = {}\n",
    "tests/test_toy.py": b"def test(): pass\n",
}
EDITABLE = ("swe/**",)
PROTECTED = ("harness.toml", "tests/**")
REF = "refs/heads/candidate/r1/0"
MORE_TURNS = {"swe/agent.py": b"MAX_TURNS = 8\n"}


def admit(
    repo: HarnessRepo,
    edits: Mapping[str, bytes | None] = MORE_TURNS,
    *,
    base: str | None = None,
    ref: str = REF,
    message: str = "feat: x\n",
    replaces: str | None = None,
    limits: AdmissionLimits | None = None,
) -> AdmittedCommit:
    base = base or repo.head()
    return repo.admit(
        edits,
        base=base,
        ref=ref,
        message=message,
        when=repo.when(base) + 1,
        editable=EDITABLE,
        protected=PROTECTED,
        replaces=replaces,
        limits=limits,
    )
