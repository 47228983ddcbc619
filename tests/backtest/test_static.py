from __future__ import annotations

import pytest

from meta_agent.core.harness import parse_contract
from meta_agent.core.lab.static import static_check
from meta_agent.core.protocols import HarnessTree

from ._harness import HONEST, tree

BASE = tree()


def codes(candidate: HarnessTree) -> dict[str, str]:
    found = static_check(BASE, candidate, parse_contract(BASE))
    return {finding.code.removeprefix("static."): finding.severity for finding in found}


def test_a_new_diagnostic_passes() -> None:
    source = (
        "NAME = 'x'\nLAYER = 'signal'\nTHRESHOLDS = {}\ndef measure(rollouts):\n    return {}\n"
    )
    assert codes(tree(**{"lab/diagnostics/x.py": source})) == {}


VETOES = {
    "nothing changed": (tree(), "empty_change"),
    "two factors": (tree(reward=HONEST + "X = 1\n", filter="keep = list"), "several_factors"),
    "a protected test": (tree(**{"tests/test_lab.py": "pass"}), "protected_path"),
    "the contract itself": (tree(**{"harness.toml": "# mine"}), "protected_path"),
    "outside the editable paths": (tree(**{"other/x.py": "X = 1"}), "path_outside_allowlist"),
    "no Python": (tree(reward="def reward(:\n"), "python_syntax"),
    "null bytes": (tree(reward=b"\0" + HONEST.encode()), "python_syntax"),
    "nested beyond the parser": (tree(reward="x = " + "(" * 5000 + ")" * 5000), "python_syntax"),
    "no TOML": (tree(**{"lab/recipe.toml": "learning_rate = = 1"}), "data_syntax"),
    "no text": (tree(reward=b"\xff\xfe"), "not_text"),
    "code in a comment of another encoding": (
        tree(reward=b"# coding: utf-7\n# +AAo-import os\n" + HONEST.encode()), "not_text"),
    "letters by their numbers": (
        tree(reward=b"# coding: unicode_escape\n# \\nimport os\n" + HONEST.encode()), "not_text"),
    "a file too large": (tree(reward=HONEST + "#" * 300_000), "file_too_large"),
    "the reward function gone": (tree(reward="WEIGHTS = {}\n"), "missing_name"),
    "the entry renamed": (tree(agent="async def go(task, model, tools): ...\n"), "missing_name"),
    "a diagnostic without a name": (tree(**{"lab/diagnostics/x.py": "X = 1"}), "missing_name"),
    "the reward removed": (tree(reward=None), "file_removed"),
    "comments only": (tree(reward="# better\n" + HONEST), "no_effect"),
    "layout of a recipe only": (tree(**{"lab/recipe.toml": "learning_rate   = 1e-4"}), "no_effect"),
}  # fmt: skip


@pytest.mark.parametrize("case", VETOES)
def test_what_cannot_work_or_is_out_of_bounds_is_vetoed(case: str) -> None:
    candidate, code = VETOES[case]
    assert codes(candidate).get(code) == "veto"


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "import subprocess as harmless",
        "from urllib.request import urlopen",
        "X = __import__('o' + 's')",
        "X = eval('1')",
        "X = ().__class__.__bases__[0].__subclasses__()",
        "def peek(): return sys._getframe(1)",
    ],
)
def test_reaching_outside_is_a_warning_with_its_line(line: str) -> None:
    found = static_check(BASE, tree(reward=HONEST + line + "\n"), parse_contract(BASE))
    assert [(f.code, f.severity) for f in found] == [("static.suspect_code", "warn")]
    assert found[0].lines[0].startswith("line 6:")


def test_a_huge_tree_is_vetoed() -> None:
    many = {f"lab/diagnostics/_{i}.txt": "x" for i in range(600)}
    assert codes(tree(**many))["tree_too_large"] == "veto"
