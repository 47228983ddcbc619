"""The entry of the `meta-agent` command and of `python -m meta_agent`: Ctrl-C is quiet at once."""

import os
import signal
import sys


def main() -> None:
    """Loads the command line, then runs it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: otherwise the next file that opens gets its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from meta_agent.cli import main as command

    signal.signal(signal.SIGINT, before)
    command()


if __name__ == "__main__":
    main()
