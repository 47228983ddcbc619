"""Domains that somebody else wrote: by import or entry point, refused where they are none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.resources import shipped_harness
from meta_agent.domains import DOMAIN_KINDS, DomainOptions, open_domain
from meta_agent.domains.check import check_tasks

DOMAIN = """
import hashlib
from meta_agent.core.protocols import Ceilings, Outcome, Sampling, Task, ToolResult

class Env:
    tools = ("say",)
    def __init__(self, key): self.key, self.said = key, ""
    def call(self, tool, arguments):
        self.said = arguments.get("text", "")
        return ToolResult("heard", done=True)
    def grade(self): return Outcome(self.said == self.key, {"verdict": "graded"})
    def verifier_inputs(self): return {"said": self.said}
    def close(self): pass

class Echo:
    name = "echo"
    evaluator_hash = "echo-1"
    ceilings = Ceilings(4, 100, 1000, 10.0)
    sampling = Sampling(1.0)
    def __init__(self, tasks=None, threshold=0): self.asked = tasks
    def tasks(self, split):
        keys = [f"{split}-{n}" for n in range(2)]
        return [Task("echo", key, split, key, {"prompt": f"say {key}"}) for key in keys]
    def open(self, task): return Env(task.key)
    def regrade(self, key, inputs): return Outcome(inputs["said"] == key)

class Twice(Echo):
    def tasks(self, split): return super().tasks("train")

class Half:
    name = "half"

def broken(): raise RuntimeError("no disk")
number = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_domains.py").write_text(DOMAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_domains", raising=False)
    return "my_domains"


def test_a_factory_is_called_with_what_it_takes(module: str, tmp_path: Path) -> None:
    domain = open_domain(DomainOptions(f"{module}:Echo", tmp_path / "rows"))
    assert domain.name == "echo" and domain.asked == tmp_path / "rows"  # type: ignore[attr-defined]
    assert [task.key for task in domain.tasks("search")] == ["search-0", "search-1"]


def test_its_tasks_are_checked_by_an_attempt_that_does_nothing(module: str) -> None:
    found = check_tasks(DomainOptions(f"{module}:Echo"), jobs=1)
    assert found.ok and len(found.tasks) == 8


@pytest.mark.parametrize(
    ("factory", "named"),
    [
        ("my_domains:Half", ("Half", "evaluator_hash", "ceilings")),
        ("my_domains:broken", ("RuntimeError: no disk",)),
        ("my_domains:number", ("int",)),
        ("my_domains:nothing", ("'nothing'",)),
        ("my_domains:Twice", ("'train-0'",)),
        ("nowhere:Factory", ("'nowhere'",)),
        ("chess", ("'chess'", "code", "graded", "harbor")),
    ],
)
def test_what_is_no_domain_is_named(module: str, factory: str, named: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        open_domain(DomainOptions(factory))
    assert all(name in str(caught.value) for name in named) and "\n" not in str(caught.value)


def test_an_entry_point_is_a_door(module: str, tmp_path: Path) -> None:
    info = tmp_path / "my_domains-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-domains\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[meta_agent.domains]\necho = my_domains:Echo\n")
    sys.path.insert(0, str(tmp_path))
    assert open_domain(DomainOptions("echo")).name == "echo"


@pytest.mark.parametrize("name", DOMAIN_KINDS)
def test_every_kind_starts_from_a_harness_that_is_shipped(name: str) -> None:
    assert "harness.toml" in shipped_harness(DOMAIN_KINDS[name].harness)
