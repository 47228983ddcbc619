"""Tasks that reasoning-gym makes, graded by its own verifiers; no answer is run as a program.

The library is looked for in this Python, or in that of META_AGENT_REASONING_GYM_PYTHON.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import SPLITS
from meta_agent.core.slices import listed
from meta_agent.core.task_splits import WithGenerated
from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.graded import GradedDomain
from meta_agent.domains.named import named_tasks
from meta_agent.domains.reasoning_gym import tasks_of

IS_HERE = find_spec("reasoning_gym") is not None
PYTHON = os.environ.get("META_AGENT_REASONING_GYM_PYTHON", sys.executable if IS_HERE else "")


def needs_library(test: Callable[..., None]) -> Callable[..., None]:
    """Slow, since the library takes seconds to import."""
    why = "META_AGENT_REASONING_GYM_PYTHON names no interpreter with reasoning-gym"
    return pytest.mark.slow(pytest.mark.skipif(not PYTHON, reason=why)(test))


@pytest.fixture
def domain_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], GradedDomain]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def opened(name: str) -> GradedDomain:
        named = named_tasks(name, PYTHON, lambda _: None)
        assert named is not None and named.path.is_relative_to(tmp_path)
        domain: Any = open_domain(DomainOptions(named.domain, named.path, python=PYTHON))
        return domain

    return opened


def graded(domain: GradedDomain, key: str, answer: str) -> tuple[bool | None, float, float]:
    outcome = domain.regrade(key, {"answer": answer})
    return outcome.success, outcome.detail["score"], outcome.detail["lenient"]


@needs_library
def test_its_tasks_are_graded_by_the_librarys_own_scores(
    domain_of: Callable[[str], GradedDomain],
) -> None:
    domain = domain_of("reasoning-gym:leg_counting:size=10,countdown:size=10:max_numbers=4")
    splits = Counter(row.split for row in domain.rows.values())
    assert splits == {"train": 8, "search": 4, "confirm": 4, "vault": 4}
    for key, row in domain.rows.items():
        assert row.gold is not None
        gold = str(row.gold["answer"])
        assert graded(domain, key, f" {gold}\n") == (True, 1.0, 1.0)
        # A verifier of the library gives part of a point for an answer among other words.
        solved, strict, lenient = graded(domain, key, f"I counted.\nThe answer is {gold}.")
        assert solved is False and strict < 1.0 == lenient
        assert domain.task(key).view["prompt"] == row.prompt
        assert not {"entry", "gold"} & domain.task(key).view.keys()


@needs_library
def test_tasks_are_made_within_a_sandboxs_memory() -> None:
    with pytest.raises(ConfigError, match="MemoryError"):
        tasks_of("binary_matrix:min_n=30000:max_n=30000:size=1", PYTHON)


PROGRAMS = (
    "__import__('os').system('touch {file}')",
    "[open('{file}', 'w')]",
    'sympify(\'__import__("os").system("touch {file}")\')',
    'Integral(\'open("{file}", "w")\')',
    "setattr(sin, 'eval', cos)",
    "input()",
)


@needs_library
@pytest.mark.parametrize("generator", ["n_queens", "countdown"])
def test_no_answer_is_run_as_a_program(
    domain_of: Callable[[str], GradedDomain], tmp_path: Path, generator: str
) -> None:
    domain = domain_of(f"reasoning-gym:{generator}:size=5")
    key = next(iter(domain.rows))
    for program in PROGRAMS:
        solved, *_ = graded(domain, key, program.format(file=tmp_path / "ran"))
        assert solved is False
        assert not (tmp_path / "ran").exists(), program


@needs_library
@pytest.mark.parametrize("generator", ["n_queens", "countdown"])
@pytest.mark.parametrize("answer", ["10**10**10", "[1]*10**11", "(" * 90 + "1" + ")" * 90])
def test_an_answer_that_breaks_the_verifiers_limits_scores_nothing(
    domain_of: Callable[[str], GradedDomain], generator: str, answer: str
) -> None:
    domain = domain_of(f"reasoning-gym:{generator}:size=5")
    key, row = next(iter(domain.rows.items()))
    assert graded(domain, key, answer)[0] is False
    assert row.gold is not None
    assert graded(domain, key, str(row.gold["answer"]))[0] is True


@needs_library
def test_a_list_where_the_library_evaluates_still_counts(
    domain_of: Callable[[str], GradedDomain],
) -> None:
    domain = domain_of("reasoning-gym:n_queens:size=5")
    key, row = next(iter(domain.rows.items()))
    assert row.gold is not None
    board = [line.split() for line in str(row.gold["answer"]).split("\n")]
    assert graded(domain, key, str(board)) == (False, 0.5, 0.5)


@needs_library
@pytest.mark.parametrize(
    ("generators", "message"),
    [
        ("chain_summ", "'chain_summ'"),
        ("chain_sum:min_term=2", "'min_term'"),
        ("chain_sum:min_terms=two", "min_terms=two"),
        ("chain_sum:min_terms=9", "max_terms"),
        ("arc_agi:size=5", "arc_agi"),
    ],
)
def test_what_the_library_refuses_is_a_sentence(generators: str, message: str) -> None:
    with pytest.raises(ConfigError, match="reasoning-gym") as error:
        tasks_of(generators, PYTHON)
    assert message in str(error.value)
    assert error.value.hint == "meta-agent tasks check reasoning-gym --list"


@needs_library
def test_a_generator_that_raises_is_named_with_its_seed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import reasoning_gym.arithmetic.chain_sum as module\n"
        "def broken(self, index): raise RuntimeError('no more sums')\n"
        "module.ChainSumDataset.__getitem__ = broken\n"
    )
    launcher = tmp_path / "python"
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {PYTHON} "$@"\n')
    launcher.chmod(0o755)
    with pytest.raises(ConfigError, match=r"chain_sum: .*RuntimeError: no more"):
        tasks_of("chain_sum:size=5", str(launcher))


def test_without_the_library_the_next_command_is_named(tmp_path: Path) -> None:
    launcher = tmp_path / "python"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    launcher.chmod(0o755)
    with pytest.raises(ConfigError, match="reasoning_gym") as error:
        tasks_of("chain_sum", str(launcher))
    assert "pip install" in str(error.value.hint) and "--python" in str(error.value.hint)


def test_a_name_without_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="chain_sum:size"):
        tasks_of("chain_sum:size", sys.executable)


@needs_library
def test_a_recipe_declares_new_training_tasks_at_a_level_of_the_library(
    domain_of: Callable[[str], GradedDomain],
) -> None:
    domain = domain_of("reasoning-gym:chain_sum:size=20:min_terms=6:max_terms=6")
    generators = Capabilities.of(domain).generators
    assert generators is not None and generators.easier == "chain_sum:level=0:size=256"
    extended = WithGenerated(domain, "chain_sum:level=0:size=12,leg_counting:size=5")
    assert len(extended.generated) == 17 and {t.split for t in extended.generated} == {"train"}
    questions = {task.view["prompt"] for split in SPLITS for task in domain.tasks(split)}
    assert not questions & {task.view["prompt"] for task in extended.generated}
    kinds = Counter(task["labels"]["kind"] for task in listed(extended, extended.generated))
    assert kinds == {"chain_sum": 12, "leg_counting": 5}
    row = Capabilities.of(extended).rows[extended.generated[0].key]
    assert row.row["parameters"]["max_terms"] < 6, "the library's easiest level"
    assert extended.regrade(extended.generated[0].key, {"answer": row.row["gold"]}).success


REFUSED_DECLARATIONS = {
    "chain_sum:seed=0": "seed",
    "chain_sum:size=4097": "4097",
    "chain_sums": "'chain_sums'",
    "chain_sum:level=high": "level=high",
}


@needs_library
def test_a_declaration_that_cannot_be_made_is_a_sentence(
    domain_of: Callable[[str], GradedDomain],
) -> None:
    domain = domain_of("reasoning-gym:chain_sum:size=10")
    for declared, words in REFUSED_DECLARATIONS.items():
        with pytest.raises(ConfigError, match=words):
            WithGenerated(domain, declared)
