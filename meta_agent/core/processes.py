"""Starts other programs: the only file of the package that imports `subprocess`.

Promises: a program sees the variables that are listed here and those that its caller passes, and
no other. So no key of a provider reaches a grader, a model server, a policy child, git or the
process that sandboxes are forked from. An address of a proxy is left out if it holds a login.

Does not cover: what a sandbox starts inside (its environment is clean already), and forks, which
share the memory of their parent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from subprocess import DEVNULL, PIPE, STDOUT, CompletedProcess, Popen, TimeoutExpired  # noqa: TID251
from typing import Any, Final

__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "CompletedProcess",
    "Popen",
    "TimeoutExpired",
    "inherited",
    "run",
    "start",
]

_INHERITED: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "SYSTEMROOT"),
        *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "LC_NUMERIC"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
        *("CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES"),
        *("HF_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    }
)
_PROXIES: Final = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
_SECRET_NAME: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?(_|$)")


def start(
    argv: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    also: Collection[str] = (),
    inherit: bool = True,
    **options: Any,
) -> Popen[bytes]:
    """Starts a program and returns its process. `options` go to `subprocess.Popen` (no `env`).

    The program sees the usual variables of this process, those whose names begin with one of
    `also`, and `variables`, which win. With `inherit` False it sees `variables` alone.
    """
    env = {**(inherited(also) if inherit else {}), **(variables or {})}
    return Popen(argv, env=env, **options)


def run(
    argv: Sequence[str], *, data: bytes = b"", timeout_sec: float | None = None, **options: Any
) -> CompletedProcess[bytes]:
    """Runs a program with the input `data` to its end, and returns its exit code and output.

    `options` go to `subprocess.Popen`. A program that takes longer than `timeout_sec` is killed,
    and TimeoutExpired is raised.
    """
    with start(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, **options) as process:
        try:
            stdout, stderr = process.communicate(data, timeout_sec)
        except BaseException:
            process.kill()
            raise
    return CompletedProcess(list(argv), process.returncode, stdout, stderr)


def inherited(also: Collection[str] = ()) -> dict[str, str]:
    """Returns the environment variables of this process that a program it starts may see.

    These have names on a fixed list, or begin with one of `also` and do not look secret.
    """
    beginnings = tuple(also)
    return {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED
        or (name.upper() in _PROXIES and "@" not in value)
        or (name.startswith(beginnings) and not _SECRET_NAME.search(name))
    }
