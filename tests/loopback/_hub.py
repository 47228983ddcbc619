"""A hub of models and datasets on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def hub(files: Mapping[str, bytes], name: str = "org/tiny", kind: str = "models") -> Iterator[str]:
    """A hub that has one repository."""
    files_of = f"/{name}/resolve/" if kind == "models" else f"/{kind}/{name}/resolve/"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith((f"/api/{kind}/{name}", files_of)):
                self.say(404, b"{}", {"x-error-code": "RepoNotFound"})
            elif "/tree/" in self.path:
                tree = [
                    {"type": "file", "path": n, "size": len(d), "oid": n} for n, d in files.items()
                ]
                self.say(200, json.dumps(tree).encode(), {"content-type": "application/json"})
            elif self.path.startswith("/api"):
                listed = [{"rfilename": path} for path in files]
                told = {"id": name, "modelId": name, "sha": COMMIT, "siblings": listed}
                self.say(200, json.dumps(told).encode(), {"content-type": "application/json"})
            else:
                path = self.path.removeprefix(files_of).split("/", 1)[1]
                self.say(200, files[path], {"etag": f'"{len(path)}"', "x-repo-commit": COMMIT})

        do_HEAD = do_GET  # noqa: N815

        def say(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for header, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(header, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
