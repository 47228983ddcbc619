"""A replayed run says what it was fed from, and how far it drifted, whatever ends it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.composition.evolve import recording_drift
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import BudgetError
from meta_agent.llm_clients.asking.client import recording_of
from meta_agent.reports import reduce
from tests.loopback import Call, Say, openai_server
from tests.models._clients import RUN, opened, request


def brain(call: Call) -> Say:
    return Say(f"answer to {call.last}", input_tokens=5, output_tokens=2)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with openai_server(brain) as url:
        settings: dict[str, Any] = {"meta_model": "openai/any", "base_urls": {"all": url}}
        with opened(tmp_path / "first", labels={"model": "loopback"}, **settings) as run:
            run.client.chat(request("hello"), conversation="g0/analyst", turn=0)
            with recording_drift_of(run):
                pass
            assert not run.ledger.events(kind="replay")  # it asked its models itself
    return tmp_path / "first" / "transcripts" / RUN


def recording_drift_of(opened_run: Any) -> Any:
    """With the parts of a run that are looked at."""
    parts = SimpleNamespace(id=RUN, models=opened_run.client, ledger=opened_run.ledger)
    return recording_drift(parts)  # type: ignore[arg-type]


def test_drift_and_labels_are_told_even_where_the_run_fails(recorded: Path, tmp_path: Path) -> None:
    model = f"replay:{recorded}"
    given = RunConfig(workspace=tmp_path, meta_model=model, replay_match="position")
    config = recording_of(model, tmp_path).effective(given)
    with opened(tmp_path / "second", config=config) as run:
        with pytest.raises(BudgetError), recording_drift_of(run):
            run.client.chat(request("hello there"), conversation="g0/analyst", turn=0)
            raise BudgetError("over")
        (event,) = run.ledger.events(kind="replay")
        assert event.payload == {"recording": RUN, "labels": {"model": "loopback"}, "drift": 1}
        assert reduce(run.ledger).replay == event.payload
