"""The only file that talks to MLflow: nested runs, at `MLFLOW_TRACKING_URI` or in the workspace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mlflow import MlflowClient

from meta_agent.trackers._tracker import PROJECT, Place

_SERIES = "meta_agent.series"


class _Mlflow:
    def __init__(self, client: Any, experiment: str, place: Place) -> None:
        self._client, self._experiment, self._run = client, experiment, place.run
        self._runs: dict[str | None, str] = {}
        parent = self._opened(None)
        for name, value in place.config.items():
            client.set_tag(parent, f"meta_agent.{name}", str(value)[:500])

    def log(self, series: str | None, step: int, values: Mapping[str, float]) -> None:
        run = self._opened(series)
        for name, value in values.items():
            self._client.log_metric(run, name, value, step=step)

    def close(self) -> None:
        for run in self._runs.values():
            self._client.set_terminated(run)

    def _opened(self, series: str | None) -> str:
        """Returns the MLflow run of a series, which an earlier process may have begun."""
        if series not in self._runs:
            name = self._run if series is None else f"{self._run}/{series}"
            runs = self._client.search_runs([self._experiment], f"tags.`{_SERIES}` = '{name}'")
            tags = {_SERIES: name}
            if series is not None:
                tags["mlflow.parentRunId"] = self._runs[None]
            run = runs[0] if runs else self._client.create_run(self._experiment, None, tags, name)
            self._runs[series] = run.info.run_id
        return self._runs[series]


def open_tracker(place: Place) -> _Mlflow:
    """Returns a tracker that writes to the MLflow experiment `meta-agent`, made if missing."""
    uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{place.folder / 'mlflow.db'}"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(PROJECT)
    return _Mlflow(
        client, experiment.experiment_id if experiment else client.create_experiment(PROJECT), place
    )
