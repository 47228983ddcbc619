"""A real browser, driven through its own pipe: what a page draws, says, asks for and takes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
PATIENCE_SEC = 60.0


class Tab:
    """One page. `said` is what its console complained of, `asked` every address it went to."""

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int) -> None:
        self._process, self._write, self._read = process, write, read
        self._buffer, self._next = b"", 0
        self._session = ""
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for name in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{name}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command, answered."""
        self._next += 1
        told = {"id": self._next, "method": method, "params": params}
        if self._session:
            told["sessionId"] = self._session
        os.write(self._write, json.dumps(told).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._next:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def see(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Waits until an expression is true."""
        deadline = time.monotonic() + PATIENCE_SEC
        while not self.see(f"!!({script})"):
            assert time.monotonic() < deadline, f"never true: {script}; {self.said}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        code = {"Escape": 27, "Enter": 13}.get(key, ord(key[0].upper()))
        more = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            given = {"type": kind, "key": key, "windowsVirtualKeyCode": code, **more}
            self.call("Input.dispatchKeyEvent", **given)

    def look(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        """How large the window is, and which scheme its person prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def shoot(self, path: Path, *, whole: bool = True) -> bytes:
        told = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))
        return path.read_bytes()

    def heap_mb(self) -> float:
        return float(self.call("Runtime.getHeapUsage")["usedSize"]) / (1 << 20)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 20)
            assert part, "the browser ended"
            self._buffer += part
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(params["exceptionDetails"])[:400])
        elif method == "Log.entryAdded":
            self.said.append(f"{params['entry']['level']}: {params['entry']['text']}")
        elif method == "Runtime.consoleAPICalled":
            self.said.append(f"console.{params['type']}")


@contextmanager
def browser(folder: Path, *options: str) -> Iterator[Tab]:
    """A browser with a profile of its own and one tab."""
    ours, theirs = os.pipe(), os.pipe()
    quiet = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    quiet += ("--no-first-run", "--disable-background-networking", "--disable-component-update")
    command = [BROWSER, *quiet, f"--user-data-dir={folder / 'profile'}", *options]
    redirect = f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}'
    process = subprocess.Popen(
        ["bash", "-c", redirect, "chromium", *command, "--remote-debugging-pipe"],
        pass_fds=(ours[0], theirs[1]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(ours[0])
    os.close(theirs[1])
    try:
        tab = Tab(process, ours[1], theirs[0])
        yield tab
    finally:
        process.kill()
        process.wait()
        os.close(ours[1])
        os.close(theirs[0])
