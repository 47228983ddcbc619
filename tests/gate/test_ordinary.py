"""Ordinary runs of the shipped harnesses: what the wider detectors say of them is nothing.

`data/*.jsonl.gz` are rollouts of nano-swe on 128 search tasks with the warm-start policy: the seed
harness with the faults of seeds 0 and 3 (both offer the leaking tool), and the competent one. They
were made by `benchmarks/faults_lab.py` (`Bench.measure`, sampling seed 7), token rows left out.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from meta_agent.core.gate import Side, arm_of, find_all, row_of
from meta_agent.core.protocols import Rollout
from meta_agent.core.rollouts.record import from_json
from meta_agent.domains.nano import NanoSwe

from ._records import inspect

NAMES = ("seed-0", "seed-3", "competent")
BEFORE = {"conduct.leak", "divergence.inverted"}
"""What was said of these rollouts before there were wider detectors."""


@cache
def stored(name: str) -> tuple[Rollout, ...]:
    path = Path(__file__).with_name("data") / f"{name}.jsonl.gz"
    with gzip.open(path) as lines:
        return tuple(from_json(json.loads(line)) for line in lines)


def side(name: str) -> Side:
    made = stored(name)
    return Side(arm_of(name, map(row_of, made), planned=len(made), reward_hash=name))


@pytest.mark.parametrize("name", NAMES)
def test_the_records_of_an_ordinary_run_show_nothing(name: str) -> None:
    assert inspect(stored(name), grade=NanoSwe().regrade) == ()


def test_a_comparison_of_ordinary_runs_has_no_new_kind_of_finding() -> None:
    for before, after in product(NAMES, NAMES):
        assert {finding.code for finding in find_all(side(before), side(after))} <= BEFORE
