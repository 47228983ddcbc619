"""Public task sets by name: made once from the hub or from files, whole or not at all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from meta_agent.composition.inputs import with_named_tasks
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.settings import resolve
from meta_agent.core.workspace import SETTINGS_FILE
from meta_agent.domains.formats.math_sets import read_math
from meta_agent.domains.formats.public import PUBLIC
from meta_agent.domains.named import NamedTasks, named_tasks
from tests.loopback import refused_url
from tests.loopback._hub import COMMIT, hub


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "meta-agent" / "tasks"


def named(text: str) -> NamedTasks:
    tasks = named_tasks(text, "python", lambda _: None)
    assert tasks is not None
    return tasks


def published(part: str, count: int) -> str:
    rows = [{"question": f"{part} {n}?", "answer": f"So #### {n}"} for n in range(count)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def folder_of(place: Path, **parts: int) -> Path:
    place.mkdir(exist_ok=True)
    for part, count in parts.items():
        (place / f"{part}.jsonl").write_text(published(part, count))
    return place


def test_rows_published_as_a_test_are_never_trained_on(tmp_path: Path) -> None:
    tasks = named(f"gsm8k={folder_of(tmp_path / 'given', train=8, test=4)}")
    assert tasks.domain == "math"
    rows = read_math(tasks.path).rows
    assert Counter((row.problem.split()[0], row.split) for row in rows) == {
        ("train", "train"): 6,
        ("train", "search"): 2,
        ("test", "confirm"): 2,
        ("test", "vault"): 2,
    }
    record = json.loads(tasks.path.with_suffix(".json").read_text())
    assert set(record["sources"]) == {"train.jsonl", "test.jsonl"}
    assert record["sha256"][:12] in tasks.source and "train.jsonl" in tasks.source


def test_other_content_of_the_same_folder_is_another_file(tmp_path: Path) -> None:
    place = folder_of(tmp_path / "given", train=8, test=4)
    first = named(f"gsm8k={place}").source
    folder_of(place, train=9)
    assert named(f"gsm8k={place}").source != first


def test_one_file_is_dealt_by_hash(tmp_path: Path) -> None:
    place = folder_of(tmp_path / "given", all=40) / "all.jsonl"
    rows = read_math(named(f"gsm8k={place}").path).rows
    assert len(rows) == 40 and {row.split for row in rows} == {
        "train",
        "search",
        "confirm",
        "vault",
    }


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("gsm8", "a public set gsm8; the nearest set is gsm8k", "tasks check --list"),
        ("gsm8k=nowhere", "does not exist", ""),
        ("gsm8k={given}", "no file for the split test", "test.jsonl"),
        ("terminal-bench", "is not on the Hugging Face hub", "git clone"),
        ("reasoning-gym", "does not say which tasks", "reasoning-gym:NAME"),
    ],
)
def test_what_cannot_be_taken_is_a_sentence(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    place = folder_of(tmp_path / "given", train=8)
    with pytest.raises(ConfigError) as error:
        named(text.format(given=place))
    assert message in str(error.value) and hint in str(error.value.hint or "")


def test_a_path_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gsm8k").mkdir()
    for path in ("gsm8k", "tasks.jsonl", "./mbpp", "/data/mbpp"):
        assert named_tasks(path, "python", print) is None


def parquet(place: Path, part: str, count: int) -> bytes:
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    from pyarrow import parquet as module

    rows = [json.loads(line) for line in published(part, count).splitlines()]
    module.write_table(arrow.Table.from_pylist(rows), place / f"{part}.parquet")
    return (place / f"{part}.parquet").read_bytes()


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Names the hub that is asked from now on."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="needs huggingface_hub")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)

    def to(address: str) -> None:
        form = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", form)

    return to


def test_a_set_of_the_hub_is_fetched_once(
    tmp_path: Path, ask: Callable[[str], None], cache: Path
) -> None:
    files = {
        f"main/{part}-00000-of-00001.parquet": parquet(tmp_path, part, count)
        for part, count in (("train", 8), ("test", 4))
    }
    name = str(PUBLIC["gsm8k"].repository)
    with hub({**files, "README.md": b"no"}, name, "datasets") as address:
        ask(address)
        first = named("gsm8k")
    assert first.source.startswith(f"openai/gsm8k@{COMMIT}")
    assert len(read_math(first.path).rows) == 12
    assert named("gsm8k") == first  # the hub is gone
    first.path.write_text("half a line")  # it is made again of what the hub's cache holds
    with refused_url() as url:
        ask(url.removesuffix("/v1"))
        assert named("gsm8k") == first
    assert {path.name for path in cache.iterdir()} == {"gsm8k.jsonl", "gsm8k.json"}


def test_without_a_network_the_next_command_is_named(ask: Callable[[str], None]) -> None:
    with refused_url() as url:
        ask(url.removesuffix("/v1"))
        with pytest.raises(ConfigError, match="hub") as error:
            named("humaneval")
    assert "--tasks humaneval=PATH" in str(error.value.hint)


def test_half_a_download_leaves_no_task_file(tmp_path: Path, cache: Path) -> None:
    place = folder_of(tmp_path / "given", test=4)
    whole = parquet(place, "train", 400)
    (place / "train.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match=r"train\.parquet"):
        named(f"gsm8k={place}")
    assert not list(cache.glob("gsm8k*"))


def test_a_settings_file_names_a_set_as_the_command_line_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(tmp_path / "given", train=8, test=4)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    def settled(value: str) -> RunConfig:
        (tmp_path / SETTINGS_FILE).write_text(f'[evolve]\ntasks = "{value}"\n')
        return with_named_tasks(resolve({"workspace": tmp_path}))

    config = settled("gsm8k=given")  # relative to the settings file, as every path in it
    assert config.domain == "math" and config.tasks == named(f"gsm8k={tmp_path / 'given'}").path
    assert "train.jsonl" in config.origin["tasks"]
    assert settled("given").tasks == tmp_path / "given"
    assert settled("missing.jsonl").tasks == tmp_path / "missing.jsonl"
    with pytest.raises(ConfigError, match="gsm8k"):
        settled("gsm8")
    monkeypatch.setenv("META_AGENT_TASKS", f"gsm8k={tmp_path / 'given'}")
    assert settled("missing.jsonl").tasks == config.tasks
