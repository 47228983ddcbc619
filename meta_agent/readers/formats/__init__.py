"""Rollouts in the formats of other tools.

`read_rollouts(path)` streams the records of a file whose format it recognises, and counts what it
skipped. `absent(rollout)` says what was not in the data, `attempt_messages(rollout)` what the
attempt wrote. A new format is one `Format`, listed in `_registry.py`.
"""

from meta_agent.readers.formats._draft import absent, attempt_messages, judged, origin, prompt_of
from meta_agent.readers.formats._read import Import, read_rollouts
from meta_agent.readers.formats._registry import FORMATS, sniff

__all__ = [
    "FORMATS",
    "Import",
    "absent",
    "attempt_messages",
    "judged",
    "origin",
    "prompt_of",
    "read_rollouts",
    "sniff",
]
