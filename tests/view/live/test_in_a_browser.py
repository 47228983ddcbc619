"""The live page in a real browser: every kind of run, drawn and followed."""

import threading
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
    server = PageServer(Site(place, None), "t")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


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
