"""The server of the live page: who is let in, and what is answered."""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.ledger import Ledger
from meta_agent.core.workspace import Workspace
from meta_agent.reports.live.server import PageServer
from meta_agent.reports.live.site import Site

from .sample import workspace

TOKEN = "sesame"


class Answered(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]


class Served:
    """A server of one workspace, and a reader of it."""

    def __init__(self, place: Workspace) -> None:
        self.server = PageServer(Site(place, None), TOKEN)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def ask(
        self, path: str, *, method: str = "GET", known: bool = True, **headers: str
    ) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        if known:
            told["Cookie"] = f"meta-agent-{self.port}={TOKEN}"
        connection.request(method, path, headers=told)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Answered(answer.status, text, dict(answer.getheaders()))

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    place = workspace(tmp_path / "w", waits_for="g1/c2")
    served = Served(place)
    yield served
    served.close()


PATHS = ("/", "/stamp", "/page.js", "/nothing")


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_answered_without_the_token(served: Served, path: str) -> None:
    for headers in ({}, {"Cookie": f"meta-agent-{served.port}=guess"}, {"Cookie": "\x01;=;"}):
        assert served.ask(path, known=False, **headers).status == 403
    assert served.ask(f"{path}{'&' if '?' in path else '?'}token=guess", known=False).status == 403


def test_another_host_name_is_refused_even_with_the_token(served: Served) -> None:
    answered = served.ask("/", Host=f"evil.example:{served.port}")
    assert (answered.status, "run" in answered.text) == (403, False)


def test_the_token_in_the_address_becomes_a_cookie_that_scripts_do_not_get(served: Served) -> None:
    answered = served.ask(f"/?token={TOKEN}", known=False)
    assert (answered.status, answered.headers["Location"]) == (303, "/")
    assert "HttpOnly; SameSite=Strict" in answered.headers["Set-Cookie"]
    assert TOKEN in served.server.address and "//127.0.0.1:" in served.server.address


def test_the_page_is_drawn_under_a_policy(served: Served) -> None:
    answered = served.ask("/")
    assert answered.status == 200 and "Clean success" in answered.text
    policy = answered.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "\u202e" not in answered.text and "<script>" not in answered.text


def test_a_change_of_the_ledger_or_of_its_owner_is_told(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", finished=False)
    site = Site(place, None)
    still = site.stamp()
    assert site.stamp() == still
    assert "stopped without finishing" in site.page()
    with Ledger.open(place.ledger_file) as ledger:
        owned = site.stamp()
        assert owned != still and "running (process" in site.page()
        ledger.event("note", {"text": "more"}, "r1")
        assert site.stamp() != owned


def test_an_empty_workspace_has_a_page(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", recorded=False)
    site = Site(place, None)
    assert "Nothing has run here yet" in site.page()


def test_a_port_that_is_taken_is_a_sentence(served: Served) -> None:
    for port in (served.port, 99_999):
        with pytest.raises(ConfigError, match="cannot listen on port"):
            PageServer(served.server.site, TOKEN, port)


def test_nothing_can_be_changed_through_the_page(served: Served) -> None:
    assert served.ask("/answer", method="POST").status == 501
    assert "meta-agent approve g1/c2" in served.ask("/").text
    assert served.ask("/stamp").text == served.ask("/stamp").text != ""
