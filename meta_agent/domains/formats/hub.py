"""Files of the Hugging Face hub: the only file that talks to it.

Promises: what is returned is complete. A download that was cut off continues the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from meta_agent.core.distribution import install
from meta_agent.core.errors import ConfigError, PreflightError


def snapshot(
    name: str,
    patterns: Sequence[str],
    *,
    kind: Literal["model", "dataset"],
    title: str,
    instead: str,
) -> Path:
    """Returns the local folder of a Hugging Face repository, ORG/NAME or ORG/NAME@REVISION.

    Downloads the files that match `patterns` if they are not cached. Error messages call the
    repository `title` and offer `instead`. Raises ConfigError if the hub does not answer or has no
    such files, and PreflightError if `huggingface_hub` is not installed.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError
    except ImportError as error:
        raise PreflightError(
            f"{title} is a {kind} of the Hugging Face hub, which needs huggingface_hub",
            hint=f"{install('train')}, or give a folder: {instead}",
        ) from error
    repository, _, revision = name.partition("@")
    try:
        folder = snapshot_download(
            repository, repo_type=kind, revision=revision or None, allow_patterns=list(patterns)
        )
    except LocalEntryNotFoundError as error:
        raise ConfigError(
            f"{title} is no folder and not cached, and the Hugging Face hub is out of reach",
            hint=f"{instead}, or try again with the network",
        ) from error
    except Exception as error:  # the hub's errors share no base with those of its HTTP client
        raise ConfigError(
            f"the hub did not deliver {title}: {str(error).strip().splitlines()[0][:200]}",
            hint=f"is the name right? If it is, use {instead}",
        ) from error
    return Path(folder)
