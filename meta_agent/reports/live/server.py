"""The only file that answers HTTP: on the loopback, and only to holders of the token.

Promises: it listens on 127.0.0.1 and nowhere else. A request needs the token, once in the address
and then in a cookie that scripts and other sites cannot read. A change needs it in a header, too.
A request under another host name is refused, so no other site can reach it through its own name.
The page may run one script of ours, and loads nothing from elsewhere. Looking changes no run.
Does not cover: other users of this machine who can read our memory or the address bar.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from meta_agent.core.errors import ConfigError, MetaAgentError
from meta_agent.reports.live.site import Site

POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_LONGEST_BODY: Final = 1 << 16
_LOOK_SEC: Final = 1.0
_HTML, _SCRIPT, _TEXT = "text/html", "text/javascript", "text/plain"


def new_token() -> str:
    """Returns a secret that lives as long as one server."""
    return secrets.token_urlsafe(24)


class PageServer(ThreadingHTTPServer):
    """Serves one site until `close`. `port` 0 takes a free port."""

    daemon_threads = True

    def __init__(self, site: Site, token: str, port: int = 0) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"cannot listen on port {port}: {error}",
                hint="leave --port out: a free one is taken",
            ) from error
        self.site, self.token = site, token
        self.closing = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"

    def close(self) -> None:
        """Ends the server and every connection that follows the run."""
        self.closing.set()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: PageServer
    server_version, sys_version = "meta-agent", ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def handle(self) -> None:
        """Answers requests; a reader who goes away is no error."""
        with suppress(ConnectionError, TimeoutError):
            super().handle()

    def do_GET(self) -> None:
        """Sends the page, its script and its events. It changes nothing."""
        parts = urlsplit(self.path)
        if not self._is_known(dict(parse_qsl(parts.query)).get("token", "")):
            return
        if parts.path == "/page.js":
            self._send(
                200, files("meta_agent.reports.live").joinpath("page.js").read_text(), _SCRIPT
            )
        elif parts.path == "/events":
            self._follow()
        elif parts.path == "/":
            self._try(self.server.site.page, _HTML)
        else:
            self._send(404, f"there is no page {parts.path}")

    def do_POST(self) -> None:
        """Takes a person's answer, which needs the token in a header."""
        token = self.headers.get("X-Token", "")
        if not self._is_known("") or not self._is_token(token):
            self._send(403, "this needs the token of the page")
            return
        size = self.headers.get("Content-Length", "")
        if self.path != "/answer" or not _is_size(size):
            self.close_connection = True
            self._send(400, "expected an answer")
            return
        body = self.rfile.read(int(size))
        self._try(lambda: self.server.site.answer(_object(body)), _TEXT)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: a request may hold the token."""

    # --- who may ask -------------------------------------------------------------------------

    def _is_known(self, token: str) -> bool:
        """Returns True if the request may be answered; otherwise it was answered with a refusal.

        A token in the address becomes a cookie.
        """
        port = self.server.server_port
        if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            self._send(403, "this page answers to its own address alone")
            return False
        if token and self._is_token(token):
            self._welcome(token)
            return False
        if not self._is_token(self._cookie()):
            self._send(403, "open the address that meta-agent view printed, with its token")
            return False
        return True

    def _is_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.server.token.encode())

    def _cookie(self) -> str:
        try:
            held = SimpleCookie(self.headers.get("Cookie", "")).get(self._cookie_name)
        except CookieError:
            return ""
        return held.value if held else ""

    @property
    def _cookie_name(self) -> str:
        return f"meta-agent-{self.server.server_port}"

    def _welcome(self, token: str) -> None:
        """Moves the token from the address bar, where people would copy it, into a cookie."""
        self.send_response(303)
        held = f"{self._cookie_name}={token}; HttpOnly; SameSite=Strict; Path=/"
        self.send_header("Set-Cookie", held)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    # --- what is answered --------------------------------------------------------------------

    def _try(self, make: Callable[[], str], kind: str) -> None:
        """Sends what `make` returns, or its error as a sentence."""
        try:
            self._send(200, make(), kind)
        except MetaAgentError as error:
            self._send(400, f"{error}" + (f" ({error.hint})" if error.hint else ""))
        except Exception as error:
            self._send(500, f"a bug of ours: {type(error).__name__}: {error}"[:500])
            raise

    def _send(self, status: int, text: str, kind: str = _TEXT) -> None:
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self._headers(kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _headers(self, kind: str) -> None:
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)

    def _follow(self) -> None:
        """Sends the ledger's stamp as a server-sent event, and again whenever it changes."""
        self.send_response(200)
        self._headers("text/event-stream")
        self.end_headers()
        self.close_connection = True
        last = ""
        while not self.server.closing.is_set():
            stamp = self.server.site.stamp()
            message = f"data: {stamp}\n\n" if stamp != last else ": here\n\n"
            self.wfile.write(message.encode())
            self.wfile.flush()
            last = stamp
            self.server.closing.wait(_LOOK_SEC)


def _is_size(text: str) -> bool:
    """Whether a Content-Length is a number that an answer may have."""
    return text.isdecimal() and len(text) <= len(str(_LONGEST_BODY)) and int(text) <= _LONGEST_BODY


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConfigError("expected a JSON object")
    return value
