"""What all roles are told of the harness: its contract, factors and rules, and what may be read.

Long things are named by path, never pasted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from meta_agent.core.errors import CandidateError
from meta_agent.core.harness import HarnessContract, parse_contract
from meta_agent.core.proposals import Brief, Rehearsal
from meta_agent.core.protocols import TRAINING_FACTORS, Factor, Hypothesis
from meta_agent.proposers.team._file_tools import Files

EVIDENCE = "evidence"
_MEANING: Final[Mapping[Factor, str]] = {
    "scaffold": "how the policy acts: prompts, tools on offer, turns, output limits, parsing",
    "reward": "what training pays for",
    "filter": "which groups training learns from",
    "data": "which tasks training sees first",
    "recipe": "the training algorithm and its sampling, in TRL's names",
    "diagnostics": "what is measured about rollouts; changes no behaviour",
}


@dataclass(frozen=True)
class AuthorCase:
    """What every model of the team reads about a harness version: request, evidence and files."""

    brief: Brief

    @cached_property
    def evidence(self) -> dict[str, bytes]:
        """Returns the evidence files (metrics, attempts, history), by path below `evidence/`."""
        return dict(self.brief.files())

    @cached_property
    def files(self) -> Files:
        """Returns the evidence and the current harness as read-only files for the models' tools."""
        return Files(self._files)

    @cached_property
    def _files(self) -> dict[str, bytes]:
        evidence = {f"{EVIDENCE}/{path}": data for path, data in self.evidence.items()}
        return {**self.brief.tree.files, **evidence}

    def keep(self, path: str, text: str) -> str:
        """Adds a page to the evidence; returns a phrase with its path. Not safe for threads."""
        self.evidence[path] = self._files[f"{EVIDENCE}/{path}"] = text.encode("utf-8", "replace")
        return f"in full at {EVIDENCE}/{path}; "

    def require_fit(
        self, paths: Collection[str], factor: Factor, contract_tests: Callable[[], Rehearsal]
    ) -> None:
        """Raises CandidateError unless an edit of `paths` is one of `factor` that passes its tests.

        `contract_tests` are those of the edited files; they run last.
        """
        if not paths:
            raise CandidateError("the edit changes no file; change at least one", reason="empty")
        changed = self.contract.factor_of(paths)
        if changed != factor:
            raise CandidateError(
                f"the edit changes {changed}; change only {factor}", reason="factor_mismatch"
            )
        rehearsal = contract_tests()
        if not rehearsal.ok:
            raise CandidateError(
                f"the contract tests fail: {rehearsal.text[:2000]}", reason="breaks_contract"
            )

    @cached_property
    def contract(self) -> HarnessContract:
        return parse_contract(self.brief.tree)

    @cached_property
    def factors(self) -> dict[Factor, list[str]]:
        """Returns the factors (such as scaffold) that may be edited, each with its files' paths."""
        files = {f: self.contract.files_of(f, self.brief.tree) for f in self.brief.factors}
        return {f: paths for f, paths in files.items() if self.contract.factors.get(f)}

    def values(self) -> dict[str, Any]:
        """Returns the variables, by name, that the prompt templates of all models may use."""
        brief, contract = self.brief, self.contract
        return {
            "domain": brief.domain,
            "generation": brief.generation,
            "k": brief.k,
            "harness": contract.name,
            "is_command": contract.entry is None,
            "entry": f"{contract.entry.path}:{contract.entry.function}" if contract.entry else "",
            "command": " ".join(contract.command),
            "editable": contract.editable,
            "protected": tuple(dict.fromkeys(contract.protected)),
            "factors": [
                {
                    "name": factor,
                    "meaning": _MEANING[factor],
                    "globs": contract.factors[factor],
                    "files": paths,
                }
                for factor, paths in self.factors.items()
            ],
            "trained": any(factor in TRAINING_FACTORS for factor in brief.factors),
            "terms": brief.terms,
            "bundled": brief.bundled,
            "twice": brief.untrained is not None,
            "readmes": [path for path in sorted(brief.tree.files) if path.endswith("README.md")],
            "invalid": brief.invalid,
            "said_by_people": brief.feedback,
            "ceilings": _ceilings(brief),
            "tools": tuple(brief.situation.tools) if brief.situation else (),
        }


def lines_on(hypothesis: Hypothesis) -> list[str]:
    """Returns a hypothesis as lines of a prompt: its statement first, then the rest by name."""
    predicted = f"{hypothesis.metric} {hypothesis.direction} by {hypothesis.expected_delta:.4g}"
    return [
        hypothesis.statement,
        f"factor: {hypothesis.factor}",
        f"predicted: {predicted}",
        *(f"at risk: {risk}" for risk in hypothesis.risks),
        *(f"evidence: {line}" for line in hypothesis.evidence),
    ]


def skills_in(opened: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of skills (past lessons) whose pages are among the opened paths."""
    parts = (path.removeprefix("./").split("/") for path in opened)
    return tuple(sorted({p[2] for p in parts if p[:2] == [EVIDENCE, "skills"] and len(p) > 3}))


def _ceilings(brief: Brief) -> dict[str, int]:
    ceilings = brief.situation.ceilings if brief.situation else None
    if ceilings is None:
        return {}
    return {
        "turns": ceilings.max_turns,
        "tokens of one reply": ceilings.max_tokens_per_turn,
        "tokens of context": ceilings.max_context_tokens,
    }
