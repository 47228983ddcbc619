"""Asks one question in a process of its own, so that a test can kill it at a named point.

Usage: _crash_child.py WORKSPACE URL
"""

import sys
from pathlib import Path

from tests.models._clients import opened, request


def main(workspace: str, url: str) -> None:
    with opened(Path(workspace), meta_model="openai/any", base_urls={"all": url}) as run:
        run.client.chat(request("one"), conversation="c", turn=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
