"""What a run refuses before it starts."""

import importlib.util
from pathlib import Path

import pytest

from meta_agent.config import RunConfig
from meta_agent.errors import ConfigError, PreflightError
from meta_agent.steps import opening
from meta_agent.view import open_display


def start(config: RunConfig) -> None:
    with opening.open_run(config, open_display(live=False)):
        pass


def test_an_installation_without_torch_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(opening, "find_spec", lambda name: None if name == "trl" else real(name))
    with pytest.raises(PreflightError, match="trl") as caught:
        start(RunConfig(workspace=tmp_path / "w"))
    assert "[train]" in str(caught.value.hint)
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [("meta_model", "openai/some-model"), ("policy", "openai/some-model"), ("policy", "vllm:x")],
)
def test_what_this_version_cannot_do_is_refused_by_name(
    field: str, value: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=value):
        start(RunConfig(workspace=tmp_path / "w", **{field: value}))
    assert not (tmp_path / "w").exists()


def test_the_nano_policy_is_refused_on_real_repositories(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nano policy"):
        start(RunConfig(workspace=tmp_path / "w", tasks=tmp_path / "tasks.jsonl"))
