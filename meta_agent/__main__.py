"""The entry of the `meta-agent` command and of `python -m meta_agent`: Ctrl-C is quiet at once."""

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Loads the command line, then runs it."""
    for name in (
        "stdout",
        "stderr",
    ):  # closed by the caller: no file that is opened may take its place
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from meta_agent.cli import main as command

    signal.signal(signal.SIGINT, before)
    command()


if __name__ == "__main__":
    main()
