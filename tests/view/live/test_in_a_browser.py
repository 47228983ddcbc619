"""The live page in a real browser: every kind of run, followed, answered, and saved figures."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from meta_agent.core.ledger import Ledger
from meta_agent.core.workspace import Workspace
from meta_agent.reports.live.server import PageServer
from meta_agent.reports.live.site import Site

from ..chromium import BROWSER, Tab, browser
from .sample import RUN, workspace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BROWSER, reason="no chromium on this machine: apt-get install chromium"),
]
PHONE, DESK = (390, 844), (1200, 900)
KINDS = ("finished", "running", "crashed", "parked", "empty")
WORDS = {
    "finished": "done",
    "running": "running (process",
    "crashed": "stopped without finishing",
    "parked": "parked, waits for a person: meta-agent approve g1/c2",
    "empty": "Nothing has run here yet",
}


@contextmanager
def serving(place: Workspace) -> Iterator[PageServer]:
    decide = lambda *told: f"recorded {told[1]} {told[2].answer}"  # noqa: E731
    site = Site(place, None, token="t", decide=decide)
    server = PageServer(site, "t")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.close()


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    with browser(tmp_path) as tab:
        yield tab


def made(root: Path, kind: str, stack: ExitStack) -> Workspace:
    """A workspace in which a run stands like that; a running one is owned as long as the test."""
    if kind == "empty":
        return workspace(root, recorded=False)
    parked = {"waits_for": "g1/c2"} if kind == "parked" else {}
    place = workspace(root, finished=kind == "finished", **parked)
    if kind == "running":
        stack.enter_context(Ledger.open(place.ledger_file))
    return place


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_is_drawn_without_complaints(tmp_path: Path, tab: Tab, kind: str) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(serving(made(tmp_path / "w", kind, stack)))
        for size, phone in ((DESK, False), (PHONE, True)):
            for dark in (False, True):
                tab.look(*size, dark=dark, phone=phone)
                tab.open(server.address)
                if kind != "empty":
                    assert tab.see("document.querySelectorAll('svg[role=img]').length") >= 3
                assert WORDS[kind] in tab.see("document.querySelector('#alive').textContent")
                assert tab.see("document.documentElement.scrollWidth") <= size[0]
                assert "t=" not in tab.see("location.href")
                shot = tab.shoot(tmp_path / "shot.png", whole=False)
                assert len(shot) > 5_000, "a blank page has less"
        assert tab.said == []
        assert tab.see("document.title").startswith("meta-agent: ")
        own = (f"http://127.0.0.1:{server.server_port}/", "about:blank")
        assert [url for url in tab.asked if not url.startswith(own)] == []


def test_the_page_follows_a_run_and_says_when_it_dies(tmp_path: Path, tab: Tab) -> None:
    with ExitStack() as stack:
        owner = stack.enter_context(ExitStack())
        place = made(tmp_path / "w", "running", owner)
        server = stack.enter_context(serving(place))
        tab.open(server.address)
        tab.see("document.querySelector('main details').open = true")
        owner.close()
        tab.until("document.querySelector('#alive').textContent.includes('stopped without')")
        assert tab.see("document.querySelector('#alive').className") == "dead"
        assert tab.see("document.querySelector('main details').open")
        with Ledger.open(place.ledger_file) as ledger:
            tab.until("document.querySelector('#alive').textContent.includes('running')")
            ledger.finish_run(RUN, "done")
        tab.until("document.querySelector('#alive').textContent === 'done'")
        assert tab.said == []


def test_a_node_of_the_lineage_opens_what_it_stands_for(tmp_path: Path, tab: Tab) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(serving(made(tmp_path / "w", "finished", stack)))
        tab.open(server.address)
        closed = "document.getElementById('in-g1/c0').parentElement.open"
        assert tab.see(closed) is False
        link = "document.querySelector('svg a[href=\"#in-g1/c0\"]')"
        tab.see(f"{link}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
        tab.until(closed)


def test_a_person_answers_on_the_page(tmp_path: Path, tab: Tab) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(serving(made(tmp_path / "w", "parked", stack)))
        tab.open(server.address)
        tab.see("document.querySelector('.answer [value=REVISE]').click()")
        tab.until("document.querySelector('.told').textContent.includes('what should change')")
        tab.see("document.querySelector('.answer [value=APPROVE]').click()")
        tab.until("document.querySelector('.answer').textContent === 'recorded g1/c2 APPROVE'")


def test_a_figure_is_saved_as_a_file_of_its_own(tmp_path: Path, tab: Tab) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(serving(made(tmp_path / "w", "finished", stack)))
        tab.open(server.address)
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        tab.see("document.querySelector('.figure').click()")
        deadline = time.monotonic() + 30
        while not (files := list(tmp_path.glob("*.svg"))):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        tab.open(files[0].as_uri())
        assert tab.see("document.querySelectorAll('circle').length") >= 2
        assert tab.said == []
