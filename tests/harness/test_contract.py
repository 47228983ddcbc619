from __future__ import annotations

import pytest

from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.harness import Entry, HarnessContract, parse_contract
from meta_agent.core.protocols import HarnessTree

from ..rollouts.laboratory import HARNESS_TOML, tree


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


@pytest.mark.parametrize("path", FACTOR)
def test_the_path_decides_the_factor(contract: HarnessContract, path: str) -> None:
    assert contract.factor_of([path]) == FACTOR[path]


def test_several_files_of_one_factor_are_one_change(contract: HarnessContract) -> None:
    assert contract.factor_of(["lab/agent.py", "lab/prompt.md"]) == "scaffold"


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
    "no start": (HARNESS_TOML.replace('entry = "lab/agent.py:run"', ""), "exactly one of"),
    "two starts": (HARNESS_TOML.replace("entry", 'command = ["x"]\nentry', 1), "exactly one of"),
    "bad entry": (HARNESS_TOML.replace("agent.py:run", "agent.py"), "FILE.py:FUNCTION"),
    "entry absent": (
        HARNESS_TOML.replace("agent.py:run", "gone.py:run"),
        "not a file of the harness",
    ),
    "unknown key": (HARNESS_TOML.replace("name =", "nmae = 1\nname =", 1), "nmae"),
    "unknown factor": (HARNESS_TOML + 'luck = ["x"]\n', "luck"),
    "bad pattern": (HARNESS_TOML.replace('"lab/**"]', '"lab/[a]"]'), "only"),
    "editable empty": (HARNESS_TOML.replace('["lab/**"]\nprotected', "[]\nprotected"), "empty"),
    "editable no list": (HARNESS_TOML.replace('["lab/**"]\nprotected', "3\nprotected"), "list"),
    "in two factors": (HARNESS_TOML.replace('"lab/reward.py"', '"lab/*.py"'), "in the factors"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_contract_says_what_is_wrong(fault: str) -> None:
    toml, told = BROKEN[fault]
    with pytest.raises(ConfigError, match=told):
        parsed(toml, "lab/agent.py")


def test_a_harness_without_a_contract_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no harness\.toml"):
        parse_contract(HarnessTree("c", "t", {"agent.py": b""}))


@pytest.mark.parametrize("path", ["../x", "lab/.git/config", "LAB/agent.py"])
def test_a_tree_with_a_path_it_should_not_have_is_refused(path: str) -> None:
    with pytest.raises(ConfigError):
        parsed(HARNESS_TOML, "lab/agent.py", path)


def test_a_command_may_stand_in_for_the_entry() -> None:
    toml = HARNESS_TOML.replace('entry = "lab/agent.py:run"', 'command = ["python", "agent.py"]')
    contract = parsed(toml)
    assert contract.entry is None
    assert contract.command == ("python", "agent.py")
