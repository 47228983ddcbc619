"""What a run refuses before it starts."""

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

from meta_agent.composition import opening, preflight
from meta_agent.core import distribution
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.core.ledger import Ledger
from meta_agent.core.resources import shipped_harness
from meta_agent.core.workspace import init_workspace
from meta_agent.reports import open_display
from meta_agent.sandboxes import build_missing_image
from tests.steps._kit import write_tasks


def start(config: RunConfig) -> None:
    with opening.open_run(config, open_display()):
        pass


def test_an_installation_without_torch_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        distribution, "find_spec", lambda name: None if name == "trl" else real(name)
    )
    with pytest.raises(PreflightError, match="trl") as caught:
        start(RunConfig(workspace=tmp_path / "w"))
    assert "[train]" in str(caught.value.hint)
    assert not (tmp_path / "w").exists()


def frozen(tmp_path: Path, **settings: Any) -> RunConfig:
    given = {"policy": "openai/m", "tasks": tmp_path / "tasks.jsonl", **settings}
    given["tasks"].write_text("")
    return RunConfig(workspace=tmp_path / "w", **given)


@pytest.mark.parametrize(
    ("settings", "author", "backend"),
    [
        ({"grade": "g.py"}, "", "process"),
        ({"grade": "g.py"}, "rules", "process"),
        ({"grade": "g.py"}, "openai/m", None),
        ({"grade": "g.py", "meta_model": "openai/m"}, "", None),
        ({"grade": "g.py", "harness": "."}, "", None),
        ({"domain": "swe"}, "", None),
        ({"domain": "code"}, "", None),
    ],
)
def test_rules_need_no_container_where_no_model_wrote_what_runs(
    tmp_path: Path, settings: dict[str, Any], author: str, backend: str | None
) -> None:
    for file in ("tasks.jsonl", "g.py"):
        (tmp_path / file).write_text("")
    (tmp_path / "own").mkdir()
    where = {"grade": tmp_path / "g.py", "harness": str(tmp_path / "own")}
    given = {name: where.get(name, value) for name, value in settings.items()}
    config = frozen(tmp_path, sandbox="process", **given)
    if author:
        place = init_workspace(config.workspace, domain="graded", create_repo=Path.mkdir)
        with Ledger.open(place.ledger_file) as ledger:
            ledger.start_run("before", {"meta_model": author}, config_hash="h")
            ledger.finish_run("before", "done")
    if backend:
        assert preflight.backend_of(config) == backend
        return
    with pytest.raises(PreflightError):
        preflight.backend_of(config)


def test_no_image_is_built_for_a_sandbox_that_has_none() -> None:
    assert build_missing_image("process", pytest.fail) is False


def test_a_server_that_cannot_be_started_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("META_AGENT_VLLM_PYTHON", "/bin/false")
    with pytest.raises(PreflightError, match="/bin/false") as caught:
        start(frozen(tmp_path, policy=f"vllm:{tmp_path}"))
    assert caught.value.hint == "/bin/false -m pip install vllm"
    assert not (tmp_path / "w").exists()


def test_what_a_model_does_to_real_code_is_not_run_in_a_plain_process(tmp_path: Path) -> None:
    config = frozen(tmp_path, sandbox="process")
    with pytest.raises(ConfigError, match="tasks"):  # what is amiss with them comes first
        start(config)
    with pytest.raises(PreflightError, match="process"):
        start(config.model_copy(update={"tasks": write_tasks(tmp_path)}))


def test_a_dry_run_starts_no_coding_agent(tmp_path: Path) -> None:
    config = frozen(tmp_path, meta_model="agent:/no/such/program")
    missing = preflight.refusal(config, contacts=True)
    assert missing is not None and "/no/such/program" in str(missing)
    assert preflight.refusal(config, contacts=False) is None


def test_a_frozen_policy_needs_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    torch = ("torch", "transformers", "trl")
    monkeypatch.setattr(
        distribution, "find_spec", lambda name: None if name in torch else real(name)
    )
    with pytest.raises(ConfigError, match="tasks"):  # it got as far as the tasks
        start(frozen(tmp_path, sandbox="process", allow_unsafe_process=True))


@pytest.mark.parametrize("suite", ["swe", "code"])
def test_a_folder_with_a_contract_stands_in_for_the_seed_harness(
    suite: str, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    for path, content in shipped_harness(f"nano/{suite}/competent").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    agent = folder / suite / "agent.py"
    agent.write_text(agent.read_text() + "\n# mine\n")
    config = RunConfig(
        workspace=tmp_path / "w", domain=suite, harness=str(folder), sandbox="process"
    )
    with opening.open_run(config, open_display()) as run:
        files = run.repo.tree(run.repo.head()).files
    assert files[f"{suite}/agent.py"] == agent.read_bytes()
    shutil.rmtree(folder)
    start(config)  # the workspace holds it


def test_a_command_needs_tasks_whoever_brought_it(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "agent.py").write_text("print()")
    config = RunConfig(workspace=tmp_path / "w", harness=str(folder), sandbox="process")
    with pytest.raises(ConfigError, match="tasks"):
        start(config)
    assert not (tmp_path / "w").exists()
    (folder / "harness.toml").write_text(
        '[harness]\nname = "m"\ncommand = ["python3", "agent.py"]\neditable = ["**"]\n'
        '[factors]\nscaffold = ["agent.py"]\n'
    )
    with pytest.raises(ConfigError, match="tasks"):
        start(config)
