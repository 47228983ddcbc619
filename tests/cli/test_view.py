"""`meta-agent view` from outside: an address on stdout, a page behind it, a quiet end."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ..view.live.sample import workspace
from .conftest import Runner


@pytest.mark.parametrize("as_json", [False, True])
def test_it_prints_where_the_page_is_and_ends_quietly(tmp_path: Path, as_json: bool) -> None:
    workspace(tmp_path / "w")
    command = [sys.executable, "-u", "-m", "meta_agent", "view", "--workspace", "w"]
    command += ["--json"] if as_json else []
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    ) as process:
        assert process.stdout and process.stderr
        told = ""
        while not told.strip() or (as_json and not told.endswith("}\n")):
            told += process.stdout.readline()
        url = json.loads(told)["url"] if as_json else told.strip()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url.partition("?")[0])
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_what_is_no_workspace_is_said(tmp_path: Path, meta_agent: Runner) -> None:
    done = meta_agent("view", cwd=tmp_path)
    assert done.returncode == 2 and "is not a workspace" in done.stderr
