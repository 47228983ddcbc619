"""Rollouts from elsewhere, and to elsewhere: formats of other tools in and out.

`read_rollouts(path)` streams records of a file whose format it recognises and counts what it
skipped; `absent(rollout)` says what was not in the data; `write_rollouts` exports. A new format is
one module with `claims` and `read`, listed in `_registry.py`.
"""

from meta_agent.readers.formats._draft import absent, judged, origin
from meta_agent.readers.formats._mapped import by_our_names
from meta_agent.readers.formats._read import Reading, read_rollouts, write_rollouts
from meta_agent.readers.formats._registry import FORMATS, format_named, sniff

__all__ = [
    "FORMATS",
    "Reading",
    "absent",
    "by_our_names",
    "format_named",
    "judged",
    "origin",
    "read_rollouts",
    "sniff",
    "write_rollouts",
]
