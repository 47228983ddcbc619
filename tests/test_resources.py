"""Harnesses as they ship: what they share lies once, and nearer files win."""

from __future__ import annotations

import pytest

from meta_agent.core.resources import resource_dir, shipped_harness

HARNESSES = (
    "chat/code",
    "chat/math",
    "chat/bfcl",
    "chat/open",
    "chat/swe",
    "nano/swe/seed",
    "nano/math/competent",
)


@pytest.mark.parametrize("name", HARNESSES)
def test_a_harness_is_whole(name: str) -> None:
    files = shipped_harness(name)
    (own,) = {path.partition("/")[0] for path in files if "/" in path}
    needed = ("agent.py", "reward.py", "filter.py", "curriculum.py", "recipe.toml")
    assert {"harness.toml", "README.md", *(f"{own}/{file}" for file in needed)} <= set(files)
    assert not [path for path in files if "shared" in path]


def test_a_nearer_file_takes_the_place_of_one_above() -> None:
    seed, competent = (shipped_harness(f"nano/swe/{one}") for one in ("seed", "competent"))
    assert seed["swe/reward.py"] != competent["swe/reward.py"]
    assert (
        seed["swe/filter.py"]
        == competent["swe/filter.py"]
        == shipped_harness("chat/open")["agent/filter.py"]
    )


@pytest.mark.parametrize("name", ["chat/open", "chat/swe"])
def test_adapters_are_trained_by_a_recipe_of_their_own(name: str) -> None:
    whole, adapters = shipped_harness(name), shipped_harness(name, adapters=True)
    (differs,) = (path for path in whole if whole[path] != adapters[path])
    assert whole.keys() == adapters.keys() and differs.endswith("/recipe.toml")


@pytest.mark.parametrize("suite", ["swe", "math", "code"])
def test_seed_and_competent_keep_only_what_they_differ_in(suite: str) -> None:
    home = resource_dir("harness_repo") / "nano" / suite
    for path in (home / "seed").rglob("*.*"):
        other = home / "competent" / path.relative_to(home / "seed")
        assert not other.is_file() or other.read_bytes() != path.read_bytes()
