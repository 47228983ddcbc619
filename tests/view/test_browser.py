"""The HTML report in a real browser: what it draws, what it complains about, what it asks for."""

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from threading import Thread

import pytest

from meta_agent.core.ledger import Ledger
from meta_agent.readers.foreign import read_foreign
from meta_agent.readers.formats import read_rollouts
from meta_agent.reports import reduce
from meta_agent.reports.foreign_sections import foreign_page
from meta_agent.reports.pages.html import render_html, rendered, write_page

from ._sample import write_sample
from ._screen import missing

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BROWSER, reason="no chromium on this machine: apt-get install chromium"),
]


class Proxy:
    """Stands where the network would be, and keeps every request that reaches it."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                first = connection.recv(4096).partition(b"\r\n")[0]
                self.requests.append(first.decode("latin-1"))
                connection.sendall(b"HTTP/1.1 502 no\r\nContent-Length: 0\r\n\r\n")

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    opened = Proxy()
    yield opened
    opened.close()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    write_sample(tmp_path / "ledger.sqlite", waits_for="g1/c2")
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        ledger.start_run("r1", reduce(ledger).config, config_hash="h")
        labels = {"model": "a capable model", "relayed": "by hand"}
        ledger.event("replay", {"recording": "r1", "labels": labels, "drift": 2})
        ledger.settle(ledger.reserve("reviewer", None, 9000), None, 8123)
    with Ledger.open(tmp_path / "ledger.sqlite", owner_lock=False) as ledger:
        write_page(render_html(reduce(ledger)), tmp_path / "report.html")
    return tmp_path / "report.html"


def browse(url: str, *options: str, folder: Path, proxy: Proxy) -> subprocess.CompletedProcess[str]:
    """One visit with a profile of its own; every request but that of the file meets the proxy."""
    quiet = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    quiet += ("--no-first-run", "--disable-background-networking", "--disable-component-update")
    network = (f"--proxy-server=http://127.0.0.1:{proxy.port}", "--proxy-bypass-list=<-loopback>")
    log = ("--enable-logging=stderr", "--log-level=0")
    return subprocess.run(
        [BROWSER, *quiet, *network, *log, f"--user-data-dir={folder / 'profile'}", *options, url],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def dom_of(page: Path, proxy: Proxy) -> tuple[str, list[str]]:
    """The page after the browser read it, and what its console said."""
    done = browse(page.as_uri(), "--dump-dom", folder=page.parent, proxy=proxy)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_the_report_draws_without_complaints_and_asks_nobody(page: Path, proxy: Proxy) -> None:
    dom, console = dom_of(page, proxy)
    assert console == []
    assert [one for one in proxy.requests if "report" in one or "127.0.0.1" in one] == []
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", dom)
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", dom)).split())
    numbers = ("47.6 % → 61.3 %", "84,440 $0.0512", "8,123 unknown", "$0.2387 + unknown")
    names = ("path_outside_allowlist", "APPROVE", "g1/c2", "2 requests", "a capable model")
    assert missing(text, *numbers, *names) == []
    assert dom.count("<svg") >= 4
    assert "<script" not in dom


def test_the_page_of_foreign_rollouts_does_what_no_text_in_it_says(
    tmp_path: Path, proxy: Proxy
) -> None:
    said = "</pre><script>document.title='owned'</script><img src=//127.0.0.1/report.png>"
    rows = [
        {"prompt": f"{n % 8} {said}", "completion": said, "reward": 0.0, "example_id": f"{n % 8}"}
        for n in range(40)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = ",".join(f"{name}={name}" for name in rows[0])
    found = read_foreign(read_rollouts(tmp_path / "rows.jsonl", fields=fields))
    page = foreign_page(found, [said], "--rollouts rows.jsonl")
    write_page(rendered(page), tmp_path / "page.html")
    dom, console = dom_of(tmp_path / "page.html", proxy)
    assert console == [] and "<title>meta-agent: rollouts</title>" in dom
    assert "owned" in dom and "<script" not in dom and "<img" not in dom
    assert [one for one in proxy.requests if "report" in one or "127.0.0.1" in one] == []


def test_the_checks_can_fail(page: Path, proxy: Proxy) -> None:
    """Positive controls: a page that breaks the rules is noticed by the same eyes."""
    page.write_text(
        page.read_text().replace(
            "<header>", '<img src="http://example.invalid/report.png"><header>'
        )
    )
    _, console = dom_of(page, proxy)
    assert any("Content Security Policy" in line for line in console)
    bare = page.with_name("bare.html")
    bare.write_text('<img src="http://example.invalid/report.png">')
    dom_of(bare, proxy)
    assert any("example.invalid/report.png" in one for one in proxy.requests)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_are_drawn(page: Path, proxy: Proxy, scheme: str) -> None:
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    shot = page.with_name(f"{scheme}.png")
    sizes = ("--window-size=1000,4200", f"--screenshot={shot}")
    browse(page.as_uri(), *dark, *sizes, folder=page.parent, proxy=proxy)
    assert shot.read_bytes().startswith(b"\x89PNG")
    assert shot.stat().st_size > 50_000  # a blank page has a tenth of that
