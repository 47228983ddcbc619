"""Rules about diagnostics: what is measured next."""

from __future__ import annotations

import re

from meta_agent.core.harness import parse_contract
from meta_agent.core.protocols import HarnessTree
from tests.agents._rules import evidence, find, namespace, rollout, tree


def test_a_harness_that_does_not_see_flagged_conduct_is_told_to_watch_it() -> None:
    text = re.sub(r"(?m)^.*flag.*\n", "", tree().files["swe/diagnostics/tool_mix.py"].decode())
    blind = HarnessTree(
        "a" * 40, "t" * 40, {**tree().files, "swe/diagnostics/tool_mix.py": text.encode()}
    )
    assert find("watch-conduct", evidence(), tree()) is None
    proposal = find("watch-conduct", evidence(), blind)
    assert proposal is not None
    ((path, source),) = proposal.edits.items()
    assert parse_contract(blind).factor_of([path]) == "diagnostics"
    measure = namespace(source)["measure"]
    seen = measure([rollout(outcome=True, flags=["leak:log"]), rollout()])  # type: ignore[operator]
    assert seen == {"flagged_share": 0.5, "flagged_share_of_solved": 1.0}
    assert measure([]) == {"flagged_share": 0.0, "flagged_share_of_solved": 0.0}  # type: ignore[operator]
