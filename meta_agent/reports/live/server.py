"""The only file that answers HTTP: on the loopback, only to holders of the token, and only to read.

Promises: it listens on 127.0.0.1 and nowhere else. A request needs the token, once in the address
and then in a cookie that scripts and other sites cannot read. A request under another host name is
refused, so no other site can reach the page through its own name. The page may run one script of
ours, and loads nothing from elsewhere. No request changes a run: `meta-agent approve` does.
Does not cover: other users of this machine who can read our memory or the address bar.
"""

from __future__ import annotations

import hmac
import secrets
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
_TEXT: Final = "text/plain"


def new_token() -> str:
    """Returns a new random token, which a browser needs to read the page of one server."""
    return secrets.token_urlsafe(24)


class PageServer(ThreadingHTTPServer):
    """Serves a page on 127.0.0.1 (port 0: any) to holders of its token, or raises ConfigError."""

    daemon_threads = True

    def __init__(self, site: Site, token: str, port: int = 0) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"the live page cannot listen on port {port}: {error}",
                hint="leave --port out, and a free port is used",
            ) from error
        self.site, self.token = site, token

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"


class _Handler(BaseHTTPRequestHandler):
    """Answers one HTTP request of a browser."""

    server: PageServer
    server_version, sys_version = "meta-agent", ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def handle(self) -> None:
        """Answers requests. A browser that breaks the connection off is no error."""
        with suppress(ConnectionError, TimeoutError):
            super().handle()

    def do_GET(self) -> None:
        """Sends the page, its script, or the text that changes with the run."""
        parts = urlsplit(self.path)
        if not self._may_read(dict(parse_qsl(parts.query)).get("token", "")):
            return
        try:
            self._answer(parts.path)
        except MetaAgentError as error:
            self._send(400, f"{error}" + (f" ({error.hint})" if error.hint else ""))
        except ConnectionError:
            raise
        except Exception as error:
            self._send(500, f"a bug of ours: {type(error).__name__}: {error}"[:500])
            raise

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: a request may hold the token."""

    def _answer(self, path: str) -> None:
        if path == "/":
            self._send(200, self.server.site.page(), "text/html")
        elif path == "/stamp":
            self._send(200, self.server.site.stamp())
        elif path == "/page.js":
            script = files("meta_agent.reports.live").joinpath("page.js").read_text()
            self._send(200, script, "text/javascript")
        else:
            self._send(404, f"there is no page {path}")

    def _may_read(self, token: str) -> bool:
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
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self._cookie_name)
        except CookieError:
            return ""
        return cookie.value if cookie else ""

    @property
    def _cookie_name(self) -> str:
        return f"meta-agent-{self.server.server_port}"

    def _welcome(self, token: str) -> None:
        """Moves the token from the address bar, where people would copy it, into a cookie."""
        self.send_response(303)
        cookie = f"{self._cookie_name}={token}; HttpOnly; SameSite=Strict; Path=/"
        self.send_header("Set-Cookie", cookie)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, status: int, text: str, kind: str = _TEXT) -> None:
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
            ("Content-Length", str(len(body))),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
