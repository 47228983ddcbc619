from __future__ import annotations

import pytest

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.harness import Entry, HarnessContract, parse_contract
from meta_agent.core.protocols import HarnessTree

from ..rollouts._laboratory import HARNESS_TOML, tree


@pytest.fixture
def contract() -> HarnessContract:
    return parse_contract(tree())


def parsed(toml: str, *paths: str) -> HarnessContract:
    files = {"harness.toml": toml, **dict.fromkeys(paths, "")}
    return parse_contract(HarnessTree("c", "t", {p: text.encode() for p, text in files.items()}))


def test_a_contract_is_read(contract: HarnessContract) -> None:
    assert contract.name == "lab"
    assert contract.entry == Entry("lab/agent.py", "run")
    assert contract.image == "base"
    assert contract.command == ()
    assert contract.files_of("diagnostics", tree()) == ["lab/diagnostics/turns.py"]


FACTOR = {
    "lab/agent.py": "scaffold",
    "lab/prompt.md": "scaffold",
    "lab/reward.py": "reward",
    "lab/filter.py": "filter",
    "lab/curriculum.py": "data",
    "lab/recipe.toml": "recipe",
    "lab/diagnostics/new/deep.py": "diagnostics",
}


def test_the_path_decides_the_factor(contract: HarnessContract) -> None:
    assert {path: contract.factor_of([path]) for path in FACTOR} == FACTOR
    assert contract.factor_of(["lab/agent.py", "lab/prompt.md"]) == "scaffold", "one change"


REFUSED = [
    ([], "empty_change"),
    (["lab/agent.py", "lab/reward.py"], "several_factors"),
    (["lab/notes.md"], "no_factor"),
    (["other/agent.py"], "path_outside_allowlist"),
    (["tests/test_x.py"], "protected_path"),
    (["harness.toml"], "protected_path"),
    (["lab/../harness.toml"], "hostile_path"),
    (["lab/.git/hooks/x"], "hostile_path"),
]


@pytest.mark.parametrize(("paths", "reason"), REFUSED)
def test_a_change_outside_the_contract_is_refused(
    contract: HarnessContract, paths: list[str], reason: str
) -> None:
    with pytest.raises(CandidateError) as caught:
        contract.factor_of(paths)
    assert caught.value.reason == reason


def test_the_contract_itself_is_protected_even_where_all_is_editable() -> None:
    toml = HARNESS_TOML.replace('"lab/**"]\nprotected', '"**"]\nprotected')
    with pytest.raises(CandidateError, match="protected"):
        parsed(toml, "lab/agent.py").check_paths(["harness.toml"])


BROKEN = {
    "not toml": ("[harness", "harness.toml"),
    "no table": ("x = 1", "unknown key 'x'"),
    "no factors": ('[harness]\nname="x"\nentry="a.py:run"\neditable=["**"]', r"\[factors\]"),
    "no start": (HARNESS_TOML.replace('entry = "lab/agent.py:run"', ""), "entry"),
    "two starts": (HARNESS_TOML.replace("entry", 'command = ["x"]\nentry', 1), "command"),
    "bad entry": (HARNESS_TOML.replace("agent.py:run", "agent.py"), "FILE.py:FUNCTION"),
    "entry absent": (HARNESS_TOML.replace("agent.py:run", "gone.py:run"), "gone.py"),
    "unknown key": (HARNESS_TOML.replace("name =", "nmae = 1\nname =", 1), "nmae"),
    "unknown factor": (HARNESS_TOML + 'luck = ["x"]\n', "luck"),
    "bad pattern": (HARNESS_TOML.replace('"lab/**"]', '"lab/[a]"]'), r"lab/\[a\]"),
    "editable empty": (HARNESS_TOML.replace('["lab/**"]\nprotected', "[]\nprotected"), "editable"),
    "editable no list": (HARNESS_TOML.replace('["lab/**"]\nprotected', "3\nprotected"), "editable"),
    "in two factors": (HARNESS_TOML.replace('"lab/reward.py"', '"lab/*.py"'), "reward"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_contract_says_what_is_wrong(fault: str) -> None:
    toml, told = BROKEN[fault]
    with pytest.raises(ConfigError, match=told):
        parsed(toml, "lab/agent.py")


def test_a_harness_without_a_contract_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"harness\.toml"):
        parse_contract(HarnessTree("c", "t", {"agent.py": b""}))


@pytest.mark.parametrize("path", ["../x", "lab/.git/config", "LAB/agent.py"])
def test_a_tree_with_a_path_it_should_not_have_is_refused(path: str) -> None:
    with pytest.raises(ConfigError):
        parsed(HARNESS_TOML, "lab/agent.py", path)
