"""Every tracker's local mode is read back; one that is down costs a note and nothing else."""

from __future__ import annotations

import json
import sqlite3
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.settings import resolve
from meta_agent.reports.terminal.display import Event
from meta_agent.trackers import Place, listening
from meta_agent.trackers import _listening as module
from tests.loopback import refused_url
from tests.trackers._hook import hook

SERIES = ("g0/all/s0", "g0/all/s1")
pytestmark = pytest.mark.filterwarnings("default")  # the trackers' own


def tell_a_run(tmp_path: Path, *names: str, url: str | None = None) -> list[str]:
    """Two trainings of two steps, a verdict and an end; returns the warnings."""
    warnings: list[str] = []
    config = resolve({"workspace": tmp_path}).to_json()
    place = Place.of("swe-1", tmp_path, config)
    with listening(place, names, url, warnings.append) as tell:
        for step in (1, 2):
            for series in SERIES:
                values = {"reward_mean": step / 4, "clean_success": 0.5, "dead_group_ratio": 0.25}
                tell(Event("metric", series, {"step": step, **values}))
        tell(Event("verdict", "", {"candidate": "g0/c0", "kind": "PROMOTE", "delta": 0.2}))
        tell(Event("ended", "done", {"clean_success_after": 0.9}))
    return warnings


def test_tensorboard_has_a_run_a_training(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    assert tell_a_run(tmp_path, "tensorboard") == []
    found = {}
    for series in (*SERIES, "search"):
        read = EventAccumulator(str(tmp_path / "tensorboard/swe-1" / series)).Reload()
        found[series] = {
            name: [(one.step, float(make_ndarray(one.tensor_proto))) for one in read.Tensors(name)]
            for name in read.Tags()["tensors"]
        }
    for series in SERIES:
        assert found[series]["train/reward"] == [(1, 0.25), (2, 0.5)]
        assert found[series]["train/frac_reward_zero_std"] == [(1, 0.25), (2, 0.25)]
    assert found["search"]["search/delta"][0][1] == pytest.approx(0.2)
    assert found["search"]["search/clean_success_after"][0][1] == pytest.approx(0.9)


def test_mlflow_has_children_of_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="pip install mlflow")
    pytest.importorskip("sqlalchemy", reason="pip install mlflow")
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tell_a_run(tmp_path, "mlflow") == []
    assert tell_a_run(tmp_path, "mlflow") == [], "a resumed run takes its runs up again"
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("meta-agent")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"swe-1", *(f"swe-1/{series}" for series in SERIES)}
    for series in SERIES:
        run = runs[f"swe-1/{series}"]
        assert run.data.tags["mlflow.parentRunId"] == runs["swe-1"].info.run_id
        assert run.data.metrics["train/reward"] == 0.5 and run.info.status == "FINISHED"
    assert runs["swe-1"].data.tags["meta_agent.domain"] == "swe"


def test_trackio_has_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio", reason="pip install trackio")
    assert tell_a_run(tmp_path, "trackio") == []
    (store,) = (tmp_path / "trackio").rglob("meta-agent*.db")
    with sqlite3.connect(store) as db:
        rows = db.execute("SELECT run_name, step, metrics FROM metrics").fetchall()
    told = {(name, step): json.loads(metrics) for name, step, metrics in rows}
    for series in SERIES:
        assert told[f"swe-1/{series}", 2]["train/reward"] == 0.5
    assert told["swe-1", 1]["search/delta"] == 0.2


def test_wandb_offline_has_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="pip install wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert tell_a_run(tmp_path, "wandb") == []
    from wandb.proto.wandb_internal_pb2 import Record

    found: dict[str, dict[str, float]] = {}
    for file in (tmp_path / "wandb").rglob("*.wandb"):
        records = [Record.FromString(data) for data in offline_records(file.read_bytes())]
        (run,) = (one.run for one in records if one.WhichOneof("record_type") == "run")
        assert run.run_group == "swe-1"
        for item in (item for one in records for item in one.history.item):
            key = item.key or "/".join(item.nested_key)
            found.setdefault(run.display_name, {})[key] = json.loads(item.value_json)
    assert set(found) == {"swe-1", *(f"swe-1/{series}" for series in SERIES)}
    assert found["swe-1/g0/all/s0"]["train/reward"] == 0.5


def offline_records(data: bytes) -> Iterator[bytes]:
    """The records of a .wandb file: LevelDB's log format after a header of seven bytes."""
    at, whole = 7, b""
    while at < len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        size, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a full record, or the last part of one
            yield whole
            whole = b""


def test_a_tracker_that_is_down_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="pip install mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with refused_url() as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        (warning,) = tell_a_run(tmp_path, "mlflow")
    assert warning.startswith("--log mlflow is off from here on: ")


def test_a_person_is_called_at_the_end(tmp_path: Path) -> None:
    with hook() as (url, heard):
        assert tell_a_run(tmp_path, url=url) == []
    assert heard == [{"run": "swe-1", "event": "done", "text": "meta-agent swe-1 is done"}]


@pytest.mark.parametrize(("event", "words"), [
    (Event("waiting", "g0/c1: may it be merged?"), "waits for a person: g0/c1: may it be merged?"),
    (Event("ended", "parked"), "is parked: it waits for a person"),
    (Event("ended", "budget"), "stopped at a cap"),
    (Event("ended", "bug"), "ended: bug"),
])  # fmt: skip
def test_what_a_person_is_called_for(tmp_path: Path, event: Event, words: str) -> None:
    place = Place("r", tmp_path, {})
    with hook() as (url, heard), listening(place, (), url, print) as tell:
        tell(event)
        tell(Event("note", "nobody is called for a note"))
    assert [one["text"] for one in heard] == [f"meta-agent r {words}"]


@pytest.mark.parametrize("status", [404, 500])
def test_a_url_that_refuses_is_a_warning(tmp_path: Path, status: int) -> None:
    with hook(status) as (url, _):
        (warning,) = tell_a_run(tmp_path, url=url)
    assert f"HTTP Error {status}" in warning


def test_a_url_where_nobody_listens_is_a_warning(tmp_path: Path) -> None:
    with refused_url() as url:
        (warning,) = tell_a_run(tmp_path, url=url)
    assert warning.startswith("--notify is off") and "refused" in warning


def test_one_that_hangs_does_not_hold_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_SEC", 0.2)
    gate = threading.Event()
    with hook(wait=gate) as (url, _):
        (warning,) = tell_a_run(tmp_path, url=url)
        gate.set()
    assert "did not answer" in warning


def test_bad_names_and_addresses_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="comet is not one of wandb, mlflow, trackio, tensorboard"
    ):
        resolve({"workspace": tmp_path, "log": "wandb,comet"})
    with pytest.raises(ConfigError, match="expected http") as raised:
        resolve({"workspace": tmp_path, "notify": "hooks.example/T0/secret"})
    assert "secret" not in str(raised.value)


def test_the_address_is_in_no_snapshot(tmp_path: Path) -> None:
    url = "https://hooks.example/T0/secret"
    config = resolve({"workspace": tmp_path, "notify": url, "log": "wandb, wandb"})
    assert config.notify == url and "secret" not in json.dumps(config.to_json())
    plain = resolve({"workspace": tmp_path})
    assert config.config_hash == plain.config_hash and config.trackers == ("wandb",)
