"""The only file that calls a person's URL: one POST of JSON when a person may have to act."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Final

TIMEOUT_SEC: Final = 10
ENDED: Final[Mapping[str, str]] = {
    "done": "is done",
    "parked": "is parked: it waits for a person",
    "budget": "stopped at a cap",
    "interrupted": "was interrupted",
}


def notify(url: str, run: str, event: str, text: str) -> None:
    """Posts `{"run", "event", "text"}` as JSON to a URL. Chat services show the `text`.

    The run's name is put before the text. Raises OSError if the URL does not answer.
    """
    body = json.dumps({"run": run, "event": event, "text": f"meta-agent {run} {text}"}).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SEC):
        pass
