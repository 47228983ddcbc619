"""The faults of the second hand: each one still fits the harness that it is planted in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unseen_faults import Unseen, unseen_faults

from meta_agent.core.harness import parse_contract, parse_recipe
from meta_agent.core.protocols import HarnessTree
from meta_agent.domains.nano.sources import sources

FAULTS = unseen_faults()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_takes_once_and_changes_its_factor_only(fault: Unseen) -> None:
    clean = sources(fault.suite, "competent")
    broken = fault.apply(clean)
    changed = [path for path in clean if broken[path] != clean[path]]
    assert parse_contract(HarnessTree("c", "t", broken)).factor_of(changed) == fault.kind
    with pytest.raises(ValueError, match="occurs 0 times"):
        replace(fault, old=fault.old + "gone").apply(clean)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_leaves_a_file_that_can_be_read(fault: Unseen) -> None:
    text = fault.apply(sources(fault.suite, "competent"))[fault.path].decode()
    if fault.path.endswith(".toml"):
        parse_recipe(text)
    else:
        compile(text, fault.path, "exec")


def test_there_are_four_of_each_suite_with_names_of_their_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 12
    assert {s: sum(f.suite == s for f in FAULTS) for s in ("swe", "math", "code")} == {
        "swe": 4,
        "math": 4,
        "code": 4,
    }
